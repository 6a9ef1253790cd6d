//! The journal: the recording while a program runs.
//!
//! A journal is a sequence of frames, each a batch of rows of one table, written
//! with one append and readable by itself:
//!
//! ```text
//! offset size
//!      0    4  magic "NFJ1"
//!      4    4  length of the payload in bytes, little endian
//!      8    4  CRC-32 of everything behind it
//!     12    1  length N of the table's name
//!     13    N  the table's name, ASCII
//!   13+N    -  payload: u32 rows, u16 columns, then each column as
//!              u8 kind, u32 bytes, little-endian values (text: u32 length + UTF-8 each)
//! ```
//!
//! A column other than the first whose values are all the same has 0x80 added to its kind
//! and holds one value: of what a storm of allocations writes, that is two thirds, and
//! most of a recorder's time is the copying of these bytes. The first column is always
//! whole, and texts that stand for many are short: a frame takes no more memory than a
//! small multiple of its bytes.
//!
//! A recorder that dies in the middle of an append leaves a frame whose length or
//! checksum is wrong; everything before it is whole. [`read`] stops there and says
//! how many bytes it could not use.

use super::column::{Column, ColumnKind, Columns, TableError};
use std::io::Read;

const MAGIC: &[u8; 4] = b"NFJ1";
/// Magic, length, checksum, length of the name.
const FIXED_HEADER: usize = 13;
/// The checksum covers everything behind itself, the name included.
const CHECKED_FROM: usize = 12;
/// Added to the kind of a column that holds one value for all rows.
const SAME: u8 = 0x80;
/// Longest text that may stand for many, bytes. // chosen: names of anonymous mappings
const MOST_SAME_TEXT: usize = 32;
/// More columns than any table has, also a later version's. // chosen
const MOST_COLUMNS: usize = 256;

/// Encodes all rows of `table` as one frame and empties the table. No rows give no bytes.
pub fn encode<T: Columns>(table: &mut T, out: &mut Vec<u8>) {
    let rows = table.len();
    if rows == 0 {
        return;
    }
    let columns = table.take();
    let begin = out.len();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[0; 8]); // length and checksum, known below
    out.push(T::TABLE.len() as u8);
    out.extend_from_slice(T::TABLE.as_bytes());
    let payload = out.len();
    out.extend_from_slice(&(rows as u32).to_le_bytes());
    out.extend_from_slice(&(columns.len() as u16).to_le_bytes());
    for (i, column) in columns.iter().enumerate() {
        let same = i > 0 && is_same(column);
        out.push(code(column.kind()) | if same { SAME } else { 0 });
        let length_at = out.len();
        out.extend_from_slice(&[0; 4]);
        encode_values(column, if same { 1 } else { rows }, out);
        let length = (out.len() - length_at - 4) as u32;
        out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    }
    let length = (out.len() - payload) as u32;
    let checksum = crc32fast::hash(&out[begin + CHECKED_FROM..]);
    out[begin + 4..begin + 8].copy_from_slice(&length.to_le_bytes());
    out[begin + 8..begin + 12].copy_from_slice(&checksum.to_le_bytes());
}

/// A frame as read back: the table's name and its columns.
#[derive(Debug)]
pub struct Frame {
    /// The table's name.
    pub table: String,
    /// Columns in file order.
    pub columns: Vec<Column>,
}

/// Why a journal ended before its last byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Bytes that are not part of a whole frame.
    pub bytes: u64,
    /// What was wrong with them.
    pub why: &'static str,
}

/// Calls `each` with every whole frame of the first `length` bytes, in order. `Some` tells of bytes at the
/// end that are not a whole frame: a recorder was killed, or a disk was full. These are not read,
/// which may be terabytes of a file with holes.
///
/// # Errors
/// Those of `input`, and those that `each` returns.
pub fn read<R: Read, E: From<std::io::Error>>(
    input: R,
    length: u64,
    mut each: impl FnMut(Frame) -> Result<(), E>,
) -> Result<Option<Tail>, E> {
    let mut input = input.take(length);
    let mut buffer = Vec::new();
    let mut whole = 0;
    loop {
        buffer.clear();
        match read_frame(&mut input, &mut buffer)? {
            Ok(Some(frame)) => {
                whole += buffer.len() as u64;
                each(frame)?;
            }
            Ok(None) => return Ok(None),
            Err(why) => return Ok(Some(Tail { bytes: length - whole, why })),
        }
    }
}

/// Puts the columns of `frame` behind the rows of `table`.
///
/// # Errors
/// If the frame's columns are not the table's.
pub fn append_to<T: Columns>(table: &mut T, frame: Frame) -> Result<(), TableError> {
    table.append(&mut T::from_columns(frame.columns)?);
    Ok(())
}

/// Reads one frame into `buffer`. `Ok(Ok(None))` is the end; the inner error
/// says why the bytes in `buffer` are not a frame.
#[allow(clippy::type_complexity)] // outer: the input's error; inner: the journal's
fn read_frame<R: Read>(
    input: &mut R,
    buffer: &mut Vec<u8>,
) -> std::io::Result<Result<Option<Frame>, &'static str>> {
    let mut fill = |buffer: &mut Vec<u8>, upto: usize| -> std::io::Result<bool> {
        let missing = upto.saturating_sub(buffer.len()) as u64;
        input.by_ref().take(missing).read_to_end(buffer)?;
        Ok(buffer.len() == upto)
    };
    if !fill(buffer, FIXED_HEADER)? {
        return Ok(if buffer.is_empty() { Ok(None) } else { Err("a frame's header is cut off") });
    }
    if &buffer[..4] != MAGIC {
        return Ok(Err("bytes that are not a frame"));
    }
    let length = u32::from_le_bytes(buffer[4..8].try_into().expect("4 bytes")) as usize;
    let checksum = u32::from_le_bytes(buffer[8..12].try_into().expect("4 bytes"));
    let payload_at = FIXED_HEADER + buffer[12] as usize;
    if !fill(buffer, payload_at + length)? {
        return Ok(Err("a frame is cut off"));
    }
    if crc32fast::hash(&buffer[CHECKED_FROM..]) != checksum {
        return Ok(Err("a frame's checksum is wrong"));
    }
    let Ok(table) = std::str::from_utf8(&buffer[FIXED_HEADER..payload_at]) else {
        return Ok(Err("a frame's table name is not text"));
    };
    let Some(columns) = decode_payload(&buffer[payload_at..]) else {
        return Ok(Err("a frame's columns do not add up"));
    };
    Ok(Ok(Some(Frame { table: table.to_owned(), columns })))
}

fn decode_payload(payload: &[u8]) -> Option<Vec<Column>> {
    let rows = u32::from_le_bytes(payload.get(..4)?.try_into().ok()?) as usize;
    let width = u16::from_le_bytes(payload.get(4..6)?.try_into().ok()?) as usize;
    let mut rest = &payload[6..];
    if width > MOST_COLUMNS {
        return None;
    }
    let mut columns = Vec::with_capacity(width);
    for i in 0..width {
        let code = *rest.first()?;
        let kind = kind_of(code & !SAME)?;
        let length = u32::from_le_bytes(rest.get(1..5)?.try_into().ok()?) as usize;
        let values = rest.get(5..5 + length)?;
        let column = match code & SAME {
            0 => decode_values(kind, rows, values)?,
            _ if i == 0 || values.len() > MOST_SAME_TEXT + 4 => return None,
            _ => repeated(decode_values(kind, 1, values)?, rows),
        };
        columns.push(column);
        rest = &rest[5 + length..];
    }
    rest.is_empty().then_some(columns)
}

fn code(kind: ColumnKind) -> u8 {
    match kind {
        ColumnKind::U8 => 1,
        ColumnKind::U16 => 2,
        ColumnKind::U32 => 3,
        ColumnKind::U64 => 4,
        ColumnKind::I16 => 5,
        ColumnKind::F64 => 6,
        ColumnKind::Text => 7,
    }
}

fn kind_of(code: u8) -> Option<ColumnKind> {
    Some(match code {
        1 => ColumnKind::U8,
        2 => ColumnKind::U16,
        3 => ColumnKind::U32,
        4 => ColumnKind::U64,
        5 => ColumnKind::I16,
        6 => ColumnKind::F64,
        7 => ColumnKind::Text,
        _ => return None,
    })
}

/// Whether one value can stand for all.
fn is_same(column: &Column) -> bool {
    fn all<T: PartialEq>(values: &[T]) -> bool {
        values.split_first().is_some_and(|(first, rest)| rest.iter().all(|x| x == first))
    }
    match column {
        Column::U8(v) => all(v),
        Column::U16(v) => all(v),
        Column::U32(v) => all(v),
        Column::U64(v) => all(v),
        Column::I16(v) => all(v),
        // By their bits: a NaN does not equal another NaN, and 0 is not -0.
        Column::F64(_) => false,
        Column::Text(v) => v.first().is_some_and(|t| t.len() <= MOST_SAME_TEXT) && all(v),
    }
}

fn repeated(column: Column, rows: usize) -> Column {
    fn each<T: Clone>(mut values: Vec<T>, rows: usize) -> Vec<T> {
        values.pop().map_or_else(Vec::new, |value| vec![value; rows])
    }
    match column {
        Column::U8(v) => Column::U8(each(v, rows)),
        Column::U16(v) => Column::U16(each(v, rows)),
        Column::U32(v) => Column::U32(each(v, rows)),
        Column::U64(v) => Column::U64(each(v, rows)),
        Column::I16(v) => Column::I16(each(v, rows)),
        Column::F64(v) => Column::F64(each(v, rows)),
        Column::Text(v) => Column::Text(each(v, rows)),
    }
}

/// The first `rows` values.
fn encode_values(column: &Column, rows: usize, out: &mut Vec<u8>) {
    match column {
        Column::U8(v) => out.extend_from_slice(&v[..rows]),
        Column::U16(v) => v[..rows].iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Column::U32(v) => v[..rows].iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Column::U64(v) => v[..rows].iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Column::I16(v) => v[..rows].iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Column::F64(v) => v[..rows].iter().for_each(|x| out.extend_from_slice(&x.to_le_bytes())),
        Column::Text(v) => v[..rows].iter().for_each(|s| {
            out.extend_from_slice(&(s.len() as u32).to_le_bytes());
            out.extend_from_slice(s.as_bytes());
        }),
    }
}

fn decode_values(kind: ColumnKind, rows: usize, bytes: &[u8]) -> Option<Column> {
    /// Splits `bytes` into exactly `rows` values of N bytes.
    fn fixed<const N: usize, T>(rows: usize, bytes: &[u8], value: impl Fn([u8; N]) -> T) -> Option<Vec<T>> {
        (bytes.len() == rows.checked_mul(N)?)
            .then(|| bytes.chunks_exact(N).map(|c| value(c.try_into().expect("N bytes"))).collect())
    }
    Some(match kind {
        ColumnKind::U8 => Column::U8(fixed::<1, _>(rows, bytes, |b| b[0])?),
        ColumnKind::U16 => Column::U16(fixed(rows, bytes, u16::from_le_bytes)?),
        ColumnKind::U32 => Column::U32(fixed(rows, bytes, u32::from_le_bytes)?),
        ColumnKind::U64 => Column::U64(fixed(rows, bytes, u64::from_le_bytes)?),
        ColumnKind::I16 => Column::I16(fixed(rows, bytes, i16::from_le_bytes)?),
        ColumnKind::F64 => Column::F64(fixed(rows, bytes, f64::from_le_bytes)?),
        ColumnKind::Text => {
            let mut rest = bytes;
            let mut values = Vec::new();
            for _ in 0..rows {
                let length = u32::from_le_bytes(rest.get(..4)?.try_into().ok()?) as usize;
                let text = rest.get(4..4 + length)?;
                values.push(String::from_utf8(text.to_vec()).ok()?.into());
                rest = &rest[4 + length..];
            }
            if !rest.is_empty() {
                return None;
            }
            Column::Text(values)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Loss, Losses, Thread, Threads};

    fn journal() -> Vec<u8> {
        let mut out = Vec::new();
        let mut threads = Threads::default();
        for id in 0..3 {
            threads.push(Thread { id, process: 0, tid: 100 + id, start_ns: 7, name: format!("t{id}") });
        }
        encode(&mut threads, &mut out);
        let mut losses = Losses::default();
        losses.push(Loss { time_ns: 1, what: "samples".into(), count: 2, why: "ring full".into() });
        encode(&mut losses, &mut out);
        out
    }

    /// Names of the whole frames, and the tail.
    fn frames(bytes: &[u8]) -> (Vec<String>, Option<Tail>) {
        let mut tables = Vec::new();
        let tail = read::<_, std::io::Error>(bytes, bytes.len() as u64, |frame| {
            tables.push(frame.table);
            Ok(())
        });
        (tables, tail.expect("memory does not fail"))
    }

    #[test]
    fn what_was_written_is_read_back() {
        let mut threads = Threads::default();
        let bytes = journal();
        let tail = read::<_, std::io::Error>(&bytes[..], bytes.len() as u64, |frame| {
            if frame.table == "threads" {
                append_to(&mut threads, frame).unwrap();
            }
            Ok(())
        });
        assert_eq!(tail.unwrap(), None);
        assert_eq!(frames(&journal()).0, ["threads", "losses"]);
        assert_eq!(threads.len(), 3);
        assert_eq!(threads.row(2).name, "t2");
    }

    #[test]
    fn a_value_that_all_rows_share_is_written_once() {
        let mut threads = Threads::default();
        let row =
            |id: u32, name: &str| Thread { id, process: 5, tid: 100 + id, start_ns: 7, name: name.into() };
        for id in 0..1000 {
            threads.push(row(id, "worker"));
        }
        let (written, mut one) = (threads.clone(), Vec::new());
        encode(&mut threads, &mut one);
        // Two columns of u32 differ.
        assert!((8000..8200).contains(&one.len()), "{}", one.len());
        let again = |bytes: &[u8]| {
            let mut read_back = Threads::default();
            let tail = read::<_, std::io::Error>(bytes, bytes.len() as u64, |frame| {
                append_to(&mut read_back, frame).unwrap();
                Ok(())
            });
            assert_eq!(tail.unwrap(), None);
            read_back
        };
        assert_eq!(again(&one), written);
        // A long text and the first column never stand for many: a small file would be a large table.
        let long = "n".repeat(MOST_SAME_TEXT + 1);
        let mut same = Threads::default();
        for _ in 0..1000 {
            same.push(row(3, &long));
        }
        let (written, mut whole) = (same.clone(), Vec::new());
        encode(&mut same, &mut whole);
        assert!(whole.len() > 1000 * (4 + long.len() + 4), "{}", whole.len());
        assert_eq!(again(&whole), written);
    }

    #[test]
    fn rows_that_no_column_holds_are_refused() {
        // A thousand million rows of one value each, in a few bytes.
        let mut payload = 1_000_000_000_u32.to_le_bytes().to_vec();
        payload.extend(1_u16.to_le_bytes());
        payload.push(code(ColumnKind::U32) | SAME);
        payload.extend(4_u32.to_le_bytes());
        payload.extend(7_u32.to_le_bytes());
        assert_eq!(decode_payload(&payload), None);
    }

    #[test]
    fn a_journal_cut_anywhere_gives_its_whole_frames_and_the_size_of_the_rest() {
        let whole = journal();
        let mut first_frame = 0;
        for cut in 0..=whole.len() {
            let (tables, tail) = frames(&whole[..cut]);
            if tables.len() == 1 && first_frame == 0 {
                first_frame = cut;
            }
            let used = [0, first_frame, whole.len()][tables.len()];
            assert_eq!(tail.map_or(0, |t| t.bytes), (cut - used) as u64, "cut at {cut}");
        }
    }

    #[test]
    fn a_length_that_lies_takes_no_memory_and_the_rest_is_not_read() {
        // A frame of four gigabytes in a file of terabytes, of which eleven bytes are there to be read.
        struct Endless(usize);
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                self.0 += buffer.len();
                assert!(self.0 < 1 << 16, "reads what is not a frame");
                buffer.fill(0);
                Ok(buffer.len())
            }
        }
        let tail = read::<_, std::io::Error>(Endless(0), 1 << 42, |_| Ok(())).unwrap().unwrap();
        assert_eq!(tail.bytes, 1 << 42);
        let mut short = MAGIC.to_vec();
        short.extend([0xff; 9]);
        let tail = read::<_, std::io::Error>(&short[..], short.len() as u64, |_| Ok(())).unwrap().unwrap();
        assert_eq!(tail, Tail { bytes: 13, why: "a frame is cut off" });
    }

    #[test]
    fn a_flipped_bit_never_passes_as_data() {
        let whole = journal();
        for i in 0..whole.len() {
            let mut broken = whole.clone();
            broken[i] ^= 0x10;
            let (tables, tail) = frames(&broken);
            assert!(tail.is_some() && tables.len() < 2, "byte {i}");
        }
    }
}
