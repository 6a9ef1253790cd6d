//! How much a file may ask for. A recording may come from anybody: a few bytes of Parquet can
//! stand for gigabytes (one text, a billion times), and a number in a header is not trusted.
//!
//! Three lines of defence: the headers are walked before the parquet crate allocates what they
//! say; its pages are looked at before they are decoded; rows and text are counted as they are read.

use super::error::StoreError;
use super::thrift;
use bytes::Bytes;
use nearfar_recording::column::ColumnKind;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ColumnChunkMetaData;

/// Memory that any file may take, bytes: an ordinary segment of a million rows of 45 bytes. // chosen
const ALWAYS: u64 = 64 << 20;
/// Bytes of memory per byte of file beyond that. Our own tables have 5 to 30: what is written in the same way again
/// and again (one thread, one cpu) takes little room. // chosen
const PER_BYTE: u64 = 256;
/// Most that one file may take, bytes. // chosen
const MOST: u64 = 16 << 30;
/// Largest footer, bytes: ours have a few thousand.
const FOOTER: usize = 256 << 10;
/// Most columns and groups of a file: ours have one group and up to 16 columns.
const ELEMENTS: usize = 256;
const GROUPS: usize = 4096;
/// Values that are decoded at once.
const BATCH: usize = 8192;
/// Bytes that one batch may take where each value can be as long as its page.
const BATCH_BYTES: u64 = 16 << 20;

/// Most memory that the rows of a Parquet file of `bytes` may take, bytes.
pub fn most_memory(bytes: u64) -> u64 {
    bytes.saturating_mul(PER_BYTE).saturating_add(ALWAYS).min(MOST)
}

/// Bytes that a value takes in memory, its text apart.
pub(super) fn width(kind: ColumnKind) -> u64 {
    match kind {
        ColumnKind::U8 => 1,
        ColumnKind::U16 | ColumnKind::I16 => 2,
        ColumnKind::U32 => 4,
        ColumnKind::U64 | ColumnKind::F64 => 8,
        ColumnKind::Text => size_of::<String>() as u64,
    }
}

/// Memory that may still be taken.
pub(super) struct Budget {
    pub left: u64,
    pub most: u64,
}

impl Budget {
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), StoreError> {
        self.left = self.left.checked_sub(bytes).ok_or(StoreError::TooLarge(self.most))?;
        Ok(())
    }
}

/// Whether the footer is one that can be given to the parquet crate.
pub(super) fn check_footer(input: &Bytes) -> Result<(), StoreError> {
    let no = |why: &str| StoreError::Foreign(why.into());
    let end = input.len().checked_sub(8).filter(|_| input.ends_with(b"PAR1"));
    let end = end.ok_or_else(|| no("it is no Parquet file, or its end is missing"))?;
    let length = u32::from_le_bytes(input[end..end + 4].try_into().expect("4 bytes")) as usize;
    let begin = end.checked_sub(length).filter(|_| length <= FOOTER);
    let begin = begin.ok_or_else(|| no("its footer is longer than it or than any of ours"))?;
    let (elements, groups) = thrift::footer(&input[begin..end]).ok_or_else(|| no("its footer is damaged"))?;
    if elements > ELEMENTS || groups > GROUPS {
        return Err(no("it has more columns or groups than any of ours"));
    }
    Ok(())
}

/// How a column should be read.
pub(super) struct Chunk {
    /// Values at once.
    pub batch: usize,
}

/// Walks the pages of a column: what they say must fit the file, the rows and the budget.
pub(super) fn check_chunk(
    input: &Bytes,
    column: &ColumnChunkMetaData,
    rows: usize,
    budget: &Budget,
) -> Result<Chunk, StoreError> {
    let no = |why: &str| StoreError::Foreign(format!("its column `{}` {why}", column.column_path()));
    let begin = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let begin = usize::try_from(begin).map_err(|_| no("begins nowhere"))?;
    let length = usize::try_from(column.compressed_size()).map_err(|_| no("has a negative size"))?;
    let end = begin.checked_add(length).filter(|&end| end <= input.len());
    let mut rest = &input[begin..end.ok_or_else(|| no("ends behind the file"))?];
    if column.num_values() != rows as i64 {
        return Err(no("has another number of values than the file has rows"));
    }
    let (mut all, mut largest, mut dictionaries) = (0u64, 0u64, 0);
    while !rest.is_empty() {
        let head = thrift::page(rest).ok_or_else(|| no("has a damaged page"))?;
        let packed = usize::try_from(head.packed_bytes).map_err(|_| no("has a page of negative size"))?;
        let unpacked = u64::try_from(head.unpacked_bytes).map_err(|_| no("has a page of negative size"))?;
        let values = u64::try_from(head.values).map_err(|_| no("has a page of negative size"))?;
        rest = rest[head.header_bytes..].get(packed..).ok_or_else(|| no("has a page that is cut off"))?;
        // Unpacked pages come one after the other, but the decoded values of all stay.
        all = all.saturating_add(unpacked);
        largest = largest.max(unpacked);
        if all > budget.most {
            return Err(StoreError::TooLarge(budget.most));
        }
        if head.dictionary {
            dictionaries += 1;
            // The least value of a dictionary takes four bytes.
            if dictionaries > 1 || values.saturating_mul(4) > unpacked {
                return Err(no("has a dictionary that cannot be"));
            }
        } else if values > rows as u64 {
            return Err(no("has a page with more values than the file has rows"));
        }
    }
    // Values that share a beginning (DELTA_BYTE_ARRAY) are copied as a whole each, as long as the page.
    let shared = column.encodings().any(|e| e == Encoding::DELTA_BYTE_ARRAY);
    let batch = if shared { (BATCH_BYTES / largest.max(1)).clamp(1, BATCH as u64) as usize } else { BATCH };
    Ok(Chunk { batch })
}

/// Pages that are looked at before they are decoded.
pub(super) struct CheckedPages {
    pub inner: Box<dyn PageReader>,
    pub rows: usize,
}

impl CheckedPages {
    fn check(&self, page: &Page) -> ParquetResult<()> {
        let no = |why: &str| Err(ParquetError::General(why.into()));
        let values = page.num_values() as usize;
        if values > self.rows && !matches!(page, Page::DictionaryPage { .. }) {
            return no("a page has more values than the file has rows");
        }
        let data: &[u8] = match page {
            Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => buf,
            Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, .. } => {
                if *def_levels_byte_len > 0 || *rep_levels_byte_len > 0 {
                    return no("a page has levels, which a required column has not");
                }
                buf
            }
        };
        // The streams of lengths say how many there are: as much is allocated.
        let lengths = |data: &[u8]| thrift::delta(data).filter(|&(count, _)| count <= values as u64);
        match page.encoding() {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => match lengths(data) {
                Some(_) => Ok(()),
                None => no("a page has more lengths than values"),
            },
            Encoding::DELTA_BYTE_ARRAY => {
                let second = lengths(data).and_then(|(_, end)| lengths(&data[end..]));
                if second.is_some() { Ok(()) } else { no("a page has more lengths than values") }
            }
            Encoding::PLAIN
            | Encoding::PLAIN_DICTIONARY
            | Encoding::RLE
            | Encoding::RLE_DICTIONARY
            | Encoding::DELTA_BINARY_PACKED
            | Encoding::BYTE_STREAM_SPLIT => Ok(()),
            other => no(&format!("a page is encoded as {other}, which nearfar does not write")),
        }
    }
}

impl Iterator for CheckedPages {
    type Item = ParquetResult<Page>;
    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        let page = self.inner.get_next_page()?;
        if let Some(page) = &page {
            self.check(page)?;
        }
        Ok(page)
    }
    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.inner.peek_next_page()
    }
    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.inner.skip_next_page()
    }
}
