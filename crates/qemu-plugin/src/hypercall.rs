//! What the guest's programs tell us, spelled in addresses.
//!
//! A plugin of QEMU 7.2 sees neither registers nor memory, only addresses. So a program speaks by
//! loading from a page of its own: the offset in the page is what it says. The loads are known by the
//! instruction before them (see [`crate::code::MARK`]).
//!
//! ```text
//! 512          begin
//! 0…255        the value's next byte, lowest first (8 of them)
//! 256 + op     the end, and what the value means
//! ```

/// Something that a program said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The current thread is the program's.
    Thread {
        /// Kernel process id.
        pid: u32,
        /// Kernel thread id.
        tid: u32,
    },
    /// The guest's CLOCK_MONOTONIC is now this, ns.
    Time(u64),
    /// The region of interest begins.
    RegionBegin,
    /// It ends.
    RegionEnd,
    /// The current thread ends.
    ThreadEnd,
    /// The program proper begins; what came before was loading.
    Main,
    /// The process with this id has ended.
    ProcessEnd(u32),
    /// A phase begins or ends; the guest's CLOCK_MONOTONIC is this, ns.
    Phase(u64),
    /// Address, then bytes, of a range whose pages will be reused.
    RangeGone,
    /// Code of the program that says it is not to be counted, from this address on.
    CodeFrom(u64),
    /// The same: where it ends.
    CodeTo(u64),
}

/// Value's bytes of one thread so far. Threads interleave, each has its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Speech {
    value: u64,
    bytes: u8,
}

/// A message that makes no sense: bytes lost or too many, or a meaning of a later version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbled {
    /// Which operation was given.
    pub operation: u64,
    /// How many bytes of the value came before it.
    pub bytes: u8,
}

impl Speech {
    /// Takes the next word: the address of a marked load.
    pub fn hear(&mut self, address: u64) -> Option<Result<Message, Garbled>> {
        match address & 0xfff {
            512 => *self = Speech::default(),
            byte @ 0..=255 => {
                self.value |= byte.checked_shl(8 * u32::from(self.bytes)).unwrap_or(0);
                self.bytes = self.bytes.saturating_add(1);
            }
            operation @ 256..=511 => {
                let Speech { value, bytes } = std::mem::take(self);
                let operation = operation - 256;
                let garbled = Garbled { operation, bytes };
                return Some(if bytes == 8 {
                    meaning(operation, value).ok_or(garbled)
                } else {
                    Err(garbled)
                });
            }
            _ => {}
        }
        None
    }
}

fn meaning(operation: u64, value: u64) -> Option<Message> {
    Some(match operation {
        1 => Message::Thread { pid: (value >> 32) as u32, tid: value as u32 },
        2 => Message::Time(value),
        3 => Message::RegionBegin,
        4 => Message::RegionEnd,
        5 => Message::ThreadEnd,
        6 => Message::Main,
        7 => Message::ProcessEnd(value as u32),
        8 | 9 => Message::RangeGone,
        10 => Message::Phase(value),
        11 => Message::CodeFrom(value),
        12 => Message::CodeTo(value),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 0x7f12_3456_7000;

    fn say(speech: &mut Speech, operation: u64, value: u64) -> Option<Result<Message, Garbled>> {
        assert_eq!(speech.hear(PAGE + 512), None);
        for byte in value.to_le_bytes() {
            assert_eq!(speech.hear(PAGE + u64::from(byte)), None);
        }
        speech.hear(PAGE + 256 + operation)
    }

    #[test]
    fn every_operation_is_understood() {
        let speech = &mut Speech::default();
        let thread = Message::Thread { pid: 0x1234, tid: 0x8765_4321 };
        assert_eq!(say(speech, 1, 0x1234_8765_4321), Some(Ok(thread)));
        assert_eq!(say(speech, 2, u64::MAX), Some(Ok(Message::Time(u64::MAX))));
        assert_eq!(say(speech, 3, 0), Some(Ok(Message::RegionBegin)));
        assert_eq!(say(speech, 4, 0), Some(Ok(Message::RegionEnd)));
        assert_eq!(say(speech, 5, 0), Some(Ok(Message::ThreadEnd)));
        assert_eq!(say(speech, 6, 0), Some(Ok(Message::Main)));
        assert_eq!(say(speech, 7, 77), Some(Ok(Message::ProcessEnd(77))));
        assert_eq!(say(speech, 8, 4096), Some(Ok(Message::RangeGone)));
        assert_eq!(say(speech, 10, 4711), Some(Ok(Message::Phase(4711))));
        assert_eq!(say(speech, 11, 0x40_1000), Some(Ok(Message::CodeFrom(0x40_1000))));
        assert_eq!(say(speech, 12, 0x80_0000), Some(Ok(Message::CodeTo(0x80_0000))));
    }

    #[test]
    fn a_message_without_all_its_bytes_is_garbled() {
        let speech = &mut Speech::default();
        speech.hear(PAGE + 512);
        speech.hear(PAGE + 1);
        assert_eq!(speech.hear(PAGE + 256 + 2), Some(Err(Garbled { operation: 2, bytes: 1 })));
        for _ in 0..300 {
            speech.hear(PAGE);
        }
        assert_eq!(speech.hear(PAGE + 256 + 2), Some(Err(Garbled { operation: 2, bytes: 255 })));
        assert_eq!(say(speech, 99, 0), Some(Err(Garbled { operation: 99, bytes: 8 })));
    }

    #[test]
    fn a_beginning_forgets_what_was_half_said() {
        let speech = &mut Speech::default();
        speech.hear(PAGE + 512);
        speech.hear(PAGE + 255);
        assert_eq!(say(speech, 2, 5), Some(Ok(Message::Time(5))));
    }
}
