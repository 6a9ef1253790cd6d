//! Parquet's headers, walked before the parquet crate sees them: how much a file asks for is known
//! before anything is allocated for it.
//!
//! Only what the limits need of Thrift's compact protocol. The parquet crate reads the same bytes again; a field that
//! comes twice counts with its last value in both. It reads a field that it knows as what it should be, whatever type
//! the bytes claim: so each must be of its type here (`Shape`), or the two would read different things, and what was
//! checked would not be what is read. Fields that the crate does not write are refused.

/// Type codes of the compact protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Bytes that are being read.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn pass(&mut self, bytes: u64) -> Option<()> {
        let end = self.at.checked_add(usize::try_from(bytes).ok()?)?;
        (end <= self.bytes.len()).then(|| self.at = end)
    }

    /// Type and length of a list; it cannot be longer than the bytes that are left.
    fn list(&mut self) -> Option<(u8, usize)> {
        let head = self.byte()?;
        let length = match head >> 4 {
            15 => usize::try_from(self.varint()?).ok()?,
            short => usize::from(short),
        };
        (length <= self.bytes.len() - self.at).then_some((head & 15, length))
    }

    /// Reads over a value of a type that `typed` lets pass.
    fn skip(&mut self, kind: u8) -> Option<()> {
        match kind {
            TRUE | FALSE => Some(()),
            I16 | I32 | I64 => self.varint().map(|_| ()),
            BINARY => {
                let length = self.varint()?;
                self.pass(length)
            }
            LIST => {
                let (kind, length) = self.list()?;
                (0..length).try_for_each(|_| self.skip(kind))
            }
            STRUCT => self.fields(|reader, _, kind| reader.skip(kind)),
            _ => None,
        }
    }

    /// Calls `each` with number and type of every field of a struct; it has to read or skip it.
    fn fields(&mut self, mut each: impl FnMut(&mut Self, i64, u8) -> Option<()>) -> Option<()> {
        let mut last = 0i64;
        loop {
            let head = self.byte()?;
            if head & 15 == 0 {
                return Some(());
            }
            last = match head >> 4 {
                0 => self.signed()?,
                step => last.checked_add(i64::from(step))?,
            };
            each(self, last, head & 15)?;
        }
    }

    /// An integer field.
    fn number(&mut self, into: &mut i64) -> Option<()> {
        *into = self.signed()?;
        Some(())
    }
}

/// What a field is, after parquet.thrift of parquet-format 2.11.
enum Type {
    /// Of 16, 32 or 64 bits: written alike.
    Int,
    Bool,
    Binary,
    Struct(Shape),
    List(&'static Type),
}

/// Fields of a struct, by number.
type Shape = &'static [(i64, Type)];

use Type::{Binary, Bool, Int, List, Struct};

const KEY_VALUE: Type = Struct(&[(1, Binary), (2, Binary)]);
const STATISTICS: Type = Struct(&[
    (1, Binary),
    (2, Binary),
    (3, Int),
    (4, Int),
    (5, Binary),
    (6, Binary),
    (7, Bool),
    (8, Bool),
    (9, Int),
]);
// Without the logical type, which nothing of ours has.
const SCHEMA_ELEMENT: Type =
    Struct(&[(1, Int), (2, Int), (3, Int), (4, Binary), (5, Int), (6, Int), (7, Int), (8, Int), (9, Int)]);
const COLUMN: Type = Struct(&[
    (1, Int),
    (2, List(&Int)),
    (3, List(&Binary)),
    (4, Int),
    (5, Int),
    (6, Int),
    (7, Int),
    (8, List(&KEY_VALUE)),
    (9, Int),
    (10, Int),
    (11, Int),
    (12, STATISTICS),
    (13, List(&Struct(&[(1, Int), (2, Int), (3, Int)]))),
    (14, Int),
    (15, Int),
    (16, Struct(&[(1, Int), (2, List(&Int)), (3, List(&Int))])),
]);
const CHUNK: Type = Struct(&[(1, Binary), (2, Int), (3, COLUMN), (4, Int), (5, Int), (6, Int), (7, Int)]);
const SORTING: Type = Struct(&[(1, Int), (2, Bool), (3, Bool)]);
const GROUP: Type =
    Struct(&[(1, List(&CHUNK)), (2, Int), (3, Int), (4, List(&SORTING)), (5, Int), (6, Int), (7, Int)]);
const FILE: Type = Struct(&[
    (1, Int),
    (2, List(&SCHEMA_ELEMENT)),
    (3, Int),
    (4, List(&GROUP)),
    (5, List(&KEY_VALUE)),
    (6, Binary),
    // How values are ordered: by their type; floats as IEEE 754 says.
    (7, List(&Struct(&[(1, Struct(&[])), (2, Struct(&[]))]))),
]);
const PAGE: Type = Struct(&[
    (1, Int),
    (2, Int),
    (3, Int),
    (4, Int),
    (5, Struct(&[(1, Int), (2, Int), (3, Int), (4, Int), (5, STATISTICS)])),
    (6, Struct(&[])),
    (7, Struct(&[(1, Int), (2, Int), (3, Bool)])),
    (8, Struct(&[(1, Int), (2, Int), (3, Int), (4, Int), (5, Int), (6, Int), (7, Bool), (8, STATISTICS)])),
]);

impl Reader<'_> {
    /// Reads over a value that claims to be of `kind`; `None` if it is not what it should be.
    fn typed(&mut self, kind: u8, should: &Type) -> Option<()> {
        match (should, kind) {
            (Int, I16 | I32 | I64) => self.varint().map(|_| ()),
            (Bool, TRUE | FALSE) => Some(()),
            (Binary, BINARY) => self.skip(BINARY),
            (Struct(shape), STRUCT) => self.fields(|r, field, kind| {
                let (_, should) = shape.iter().find(|(number, _)| *number == field)?;
                r.typed(kind, should)
            }),
            (List(each), LIST) => {
                let (kind, length) = self.list()?;
                (0..length).try_for_each(|_| self.typed(kind, each))
            }
            _ => None,
        }
    }
}

/// Columns and groups of a file's footer, itself and the lists in it: (elements of the schema, row groups). An
/// element that claims to have more children than there are elements counts as so many: room is made for them.
/// `None` if it is not a footer.
pub(super) fn footer(bytes: &[u8]) -> Option<(usize, usize)> {
    const CHILDREN: i64 = 5;
    Reader { bytes, at: 0 }.typed(STRUCT, &FILE)?;
    let mut reader = Reader { bytes, at: 0 };
    let (mut elements, mut groups) = (0, 0);
    reader.fields(|r, field, kind| {
        if matches!(field, 2 | 4) && kind == LIST {
            let (kind, length) = r.list()?;
            let most = if field == 2 { &mut elements } else { &mut groups };
            *most = length.max(*most);
            return (0..length).try_for_each(|_| match (field, kind) {
                (2, STRUCT) => r.fields(|r, field, kind| {
                    if field != CHILDREN {
                        return r.skip(kind);
                    }
                    let mut children = 0;
                    r.number(&mut children)?;
                    elements = elements.max(usize::try_from(children).unwrap_or(usize::MAX));
                    Some(())
                }),
                _ => r.skip(kind),
            });
        }
        r.skip(kind)
    })?;
    Some((elements, groups))
}

/// What a page's header says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PageHead {
    /// Bytes of the header itself.
    pub header_bytes: usize,
    /// Bytes of the page when unpacked.
    pub unpacked_bytes: i64,
    /// Bytes of the page in the file.
    pub packed_bytes: i64,
    /// Values in it.
    pub values: i64,
    /// Whether it is a dictionary.
    pub dictionary: bool,
}

/// Reads a page's header at the start of `bytes`.
pub(super) fn page(bytes: &[u8]) -> Option<PageHead> {
    const DICTIONARY: i64 = 2;
    Reader { bytes, at: 0 }.typed(STRUCT, &PAGE)?;
    let mut reader = Reader { bytes, at: 0 };
    let mut head = PageHead::default();
    let mut what = -1;
    reader.fields(|r, field, kind| match field {
        1 => r.number(&mut what),
        2 => r.number(&mut head.unpacked_bytes),
        3 => r.number(&mut head.packed_bytes),
        // Headers of data pages of both versions and of dictionaries: all begin with the number of values.
        5 | 7 | 8 if kind == STRUCT => r.fields(|r, field, kind| match field {
            1 => {
                let mut values = 0;
                r.number(&mut values)?;
                head.values = values.max(head.values);
                Some(())
            }
            _ => r.skip(kind),
        }),
        _ => r.skip(kind),
    })?;
    head.dictionary = what == DICTIONARY;
    head.header_bytes = reader.at;
    Some(head)
}

/// The number of values of a delta-encoded stream of integers, and where it ends. `None` if it is none.
pub(super) fn delta(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut reader = Reader { bytes, at: 0 };
    let (block, minis, count) = (reader.varint()?, reader.varint()?, reader.varint()?);
    reader.varint()?;
    if minis == 0 || !block.is_multiple_of(minis) || !(block / minis).is_multiple_of(32) {
        return None;
    }
    let each = block / minis;
    // The first value is in the header.
    let mut left = count.saturating_sub(1);
    while left > 0 {
        reader.varint()?;
        let widths = reader.at..reader.at.checked_add(usize::try_from(minis).ok()?)?;
        let widths = reader.bytes.get(widths)?;
        reader.at += widths.len();
        for &width in widths {
            if left == 0 {
                break;
            }
            reader.pass((each / 8).checked_mul(u64::from(width))?)?;
            left = left.saturating_sub(each);
        }
        if each == 0 {
            return None;
        }
    }
    Some((count, reader.at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_longer_than_its_bytes_is_no_footer() {
        // Field 2, a list of 2^40 structs.
        assert_eq!(footer(&[0x29, 0xfc, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0]), None);
        // Structs in structs in structs.
        assert_eq!(footer(&[0x1c; 100]), None);
        assert_eq!(footer(&[0]), Some((0, 0)));
    }

    #[test]
    fn a_field_of_another_type_than_it_should_be_is_refused() {
        // Field 1 of a page is its kind, an integer; here it claims to be bytes, of which the crate would read one.
        assert!(page(&[0x15, 0, 0x15, 2, 0x15, 2, 0]).is_some());
        assert_eq!(page(&[0x18, 1, 0, 0x15, 2, 0x15, 2, 0]), None);
        // A list of booleans takes a byte each, for which the crate does not look: here as field 9.
        assert_eq!(page(&[0x15, 0, 0x15, 2, 0x15, 2, 0x69, 0x21, 1, 1, 0]), None);
        // A field that is none.
        assert_eq!(footer(&[0xf5, 0, 0]), None);
    }

    #[test]
    fn a_delta_stream_that_counts_more_than_it_has_is_none() {
        // 128 a block in 4 parts, 2^28 values, and then nothing.
        assert_eq!(delta(&[0x80, 1, 4, 0x80, 0x80, 0x80, 0x80, 1, 0]), None);
        assert_eq!(delta(&[0x80, 1, 4, 1, 0]), Some((1, 5)));
        // Parts of no values would never end.
        assert_eq!(delta(&[0, 4, 9, 0, 0, 0, 0, 0, 0]), None);
    }
}
