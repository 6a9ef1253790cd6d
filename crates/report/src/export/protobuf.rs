//! Protocol buffers, as far as exports write them (protobuf.dev, Encoding): fields of numbers, bytes and messages.

/// A message under construction.
#[derive(Default)]
pub(super) struct Message(pub Vec<u8>);

impl Message {
    fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    /// A number, also if it is 0, which a reader takes a missing field for.
    pub fn number(&mut self, field: u32, n: u64) -> &mut Message {
        self.varint(u64::from(field) << 3);
        self.varint(n);
        self
    }

    /// Bytes, or a message's.
    pub fn bytes(&mut self, field: u32, bytes: &[u8]) -> &mut Message {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Text.
    pub fn text(&mut self, field: u32, text: &str) -> &mut Message {
        self.bytes(field, text.as_bytes())
    }

    /// Numbers, one after the other in one field.
    pub fn packed(&mut self, field: u32, numbers: &[u64]) -> &mut Message {
        let mut all = Message::default();
        numbers.iter().for_each(|&n| all.varint(n));
        self.bytes(field, &all.0)
    }
}
