//! The recording at rest: one Parquet file per table and segment.
//!
//! Integers are stored as unsigned INT32/INT64 with their logical type, so that
//! DuckDB, pandas and polars see what the schema says. Times use delta encoding
//! and addresses byte-stream split, which made 10 M samples 87 MB in a trial;
//! everything else is dictionary-encoded, all of it compressed with zstd.
#![forbid(unsafe_code)]

use nearfar_recording::column::{Column, ColumnKind, Columns, TableError, Text};
mod error;
mod limits;
mod thrift;

use bytes::Bytes;
pub use error::StoreError;
pub use limits::most_memory;
use limits::{Budget, CheckedPages};
use parquet::basic::{Compression, ConvertedType, Encoding, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};
use std::cell::Cell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Rows of one segment file at most: a segment whose footer is lost is lost as a whole.
pub const SEGMENT_ROWS: usize = 1_000_000;

/// Writes all rows of `table` as one Parquet file and empties it.
pub fn write<T: Columns, W: Write + Send>(table: &mut T, out: W) -> Result<(), StoreError> {
    let fields = T::SCHEMA
        .iter()
        .map(|spec| {
            let (physical, converted) = physical(spec.kind);
            Type::primitive_type_builder(spec.name, physical)
                .with_repetition(Repetition::REQUIRED)
                .with_converted_type(converted)
                .build()
                .map(Arc::new)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let schema = Arc::new(Type::group_type_builder(T::TABLE).with_fields(fields).build()?);
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_created_by(concat!("nearfar ", env!("CARGO_PKG_VERSION")).to_owned());
    for spec in T::SCHEMA {
        let path = ColumnPath::from(spec.name);
        let encoding = match (spec.kind, spec.name) {
            (ColumnKind::U64, name) if name.ends_with("_ns") => Some(Encoding::DELTA_BINARY_PACKED),
            (ColumnKind::U64, _) => Some(Encoding::BYTE_STREAM_SPLIT),
            // Numbered as they come: each its own value, and a step of one from the row before.
            (ColumnKind::U32, "id" | "object") => Some(Encoding::DELTA_BINARY_PACKED),
            _ => None,
        };
        if let Some(encoding) = encoding {
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, encoding);
        }
    }
    let mut file = SerializedFileWriter::new(out, schema, Arc::new(properties.build()))?;
    let mut group = file.next_row_group()?;
    for column in table.take() {
        let mut writer = group.next_column()?.expect("as many columns as the schema has");
        // Each arm turns the values into the physical type that Parquet stores.
        match column {
            Column::U8(v) => put::<Int32Type>(&mut writer, v.into_iter().map(i32::from).collect())?,
            Column::U16(v) => put::<Int32Type>(&mut writer, v.into_iter().map(i32::from).collect())?,
            Column::U32(v) => put::<Int32Type>(&mut writer, v.into_iter().map(|x| x as i32).collect())?,
            Column::I16(v) => put::<Int32Type>(&mut writer, v.into_iter().map(i32::from).collect())?,
            Column::U64(v) => put::<Int64Type>(&mut writer, v.into_iter().map(|x| x as i64).collect())?,
            Column::F64(v) => put::<DoubleType>(&mut writer, v)?,
            Column::Text(v) => put::<ByteArrayType>(&mut writer, shared_texts(&v))?,
        }
        writer.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

/// Rows that follow each other mostly have the same text: then it is there once.
fn shared_texts(texts: &[Text]) -> Vec<ByteArray> {
    let mut last: Option<(&Text, ByteArray)> = None;
    let shared = texts.iter().map(|text| match &last {
        Some((before, bytes)) if *before == text => bytes.clone(),
        _ => last.insert((text, ByteArray::from(text.as_bytes().to_vec()))).1.clone(),
    });
    shared.collect()
}

fn put<D: DataType>(
    writer: &mut parquet::file::writer::SerializedColumnWriter<'_>,
    values: Vec<D::T>,
) -> Result<(), StoreError> {
    writer.typed::<D>().write_batch(&values, None, None)?;
    Ok(())
}

/// Reads a Parquet file as rows of `T`. Columns are found by name, so that a file
/// with additional ones can be read. A missing one is an error, unless it was added to
/// the table after the file may have been written.
///
/// # Errors
/// If it is not a such file, or would take more memory than a file of its size may
/// ([`most_memory`]). No bytes make it panic.
pub fn read<T: Columns>(input: Bytes) -> Result<T, StoreError> {
    let most = most_memory(input.len() as u64);
    read_within(input, most).map(|(table, _)| table)
}

/// As [`read()`], within `most` bytes of memory if that is less; also gives how many bytes the rows take.
///
/// # Errors
/// As of [`read()`].
pub fn read_within<T: Columns>(input: Bytes, most: u64) -> Result<(T, u64), StoreError> {
    let most = most.min(most_memory(input.len() as u64));
    // What the limits do not foresee ends here and not the program: the crate indexes by what files say.
    let outer = READING.replace(true);
    let read = catch_unwind(AssertUnwindSafe(|| read_checked(input, most)));
    READING.set(outer);
    read.unwrap_or_else(|_| Err(StoreError::Foreign("its bytes contradict themselves".into())))
}

thread_local! {
    static READING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside [`read()`], where a panic is caught and becomes an error: nobody
/// needs its message on standard error.
pub fn reading() -> bool {
    READING.get()
}

fn read_checked<T: Columns>(input: Bytes, most: u64) -> Result<(T, u64), StoreError> {
    limits::check_footer(&input)?;
    let reader = SerializedFileReader::new(input.clone())?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let mut indexes = Vec::with_capacity(T::SCHEMA.len());
    for spec in T::SCHEMA {
        let called = |name: &str| (0..schema.num_columns()).find(|&i| schema.column(i).name() == name);
        let index = called(spec.name).or_else(|| called(spec.former?));
        if index.is_none() && spec.absent.is_none() {
            return Err(StoreError::Missing { table: T::TABLE, column: spec.name });
        }
        let nested = |i: usize| schema.column(i).max_def_level() > 0 || schema.column(i).max_rep_level() > 0;
        if index.is_some_and(nested) {
            return Err(StoreError::Foreign(format!("its column `{}` is a list or may be null", spec.name)));
        }
        indexes.push(index);
    }
    let width: u64 = T::SCHEMA.iter().map(|spec| limits::width(spec.kind)).sum();
    let mut budget = Budget { left: most, most };
    let mut all = T::default();
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        let rows = u64::try_from(group.metadata().num_rows()).ok();
        let bytes = rows.and_then(|rows| rows.checked_mul(width));
        budget.take(bytes.ok_or_else(|| StoreError::Foreign("it has a negative number of rows".into()))?)?;
        // No more than the budget, which is in memory.
        let rows = group.metadata().num_rows() as usize;
        let mut columns = Vec::with_capacity(indexes.len());
        for (spec, &index) in T::SCHEMA.iter().zip(&indexes) {
            columns.push(match (index, spec.absent) {
                (Some(i), _) => {
                    let chunk = limits::check_chunk(&input, group.metadata().column(i), rows, &budget)?;
                    let pages = CheckedPages { inner: group.get_column_page_reader(i)?, rows };
                    let reader = get_column_reader(schema.column(i), Box::new(pages));
                    let column = get(reader, spec.kind, rows, chunk.batch, &mut budget, T::TABLE, spec.name)?;
                    if column.len() != rows {
                        let why = format!("its column `{}` has {} of {rows} rows", spec.name, column.len());
                        return Err(StoreError::Foreign(why));
                    }
                    column
                }
                (None, Some(absent)) => absent(rows),
                (None, None) => unreachable!("refused above"),
            });
        }
        all.append(&mut T::from_columns(columns)?);
    }
    Ok((all, most - budget.left))
}

fn get(
    reader: ColumnReader,
    kind: ColumnKind,
    rows: usize,
    batch: usize,
    budget: &mut Budget,
    table: &'static str,
    column: &'static str,
) -> Result<Column, StoreError> {
    macro_rules! values {
        ($reader:expr, $map:expr) => {{
            let mut reader = $reader;
            let mut values = Vec::with_capacity(rows);
            let mut part = Vec::new();
            while values.len() < rows {
                let (read, _, _) =
                    reader.read_records(batch.min(rows - values.len()), None, None, &mut part)?;
                if read == 0 {
                    break;
                }
                for value in part.drain(..) {
                    values.push($map(value)?);
                }
            }
            values
        }};
    }
    let mut text = |x: ByteArray| -> Result<Text, StoreError> {
        budget.take(x.len() as u64)?;
        Ok(String::from_utf8_lossy(x.data()).into_owned().into())
    };
    /// What fits always.
    fn fine<T>(value: T) -> Result<T, StoreError> {
        Ok(value)
    }
    Ok(match (kind, reader) {
        (ColumnKind::U8, ColumnReader::Int32ColumnReader(r)) => {
            Column::U8(values!(r, |x: i32| fine(x as u8)))
        }
        (ColumnKind::U16, ColumnReader::Int32ColumnReader(r)) => {
            Column::U16(values!(r, |x: i32| fine(x as u16)))
        }
        (ColumnKind::U32, ColumnReader::Int32ColumnReader(r)) => {
            Column::U32(values!(r, |x: i32| fine(x as u32)))
        }
        (ColumnKind::I16, ColumnReader::Int32ColumnReader(r)) => {
            Column::I16(values!(r, |x: i32| fine(x as i16)))
        }
        (ColumnKind::U64, ColumnReader::Int64ColumnReader(r)) => {
            Column::U64(values!(r, |x: i64| fine(x as u64)))
        }
        (ColumnKind::F64, ColumnReader::DoubleColumnReader(r)) => Column::F64(values!(r, fine)),
        (ColumnKind::Text, ColumnReader::ByteArrayColumnReader(r)) => Column::Text(values!(r, &mut text)),
        (expected, _) => {
            // The physical type in the file is not the one this column is stored as.
            return Err(TableError::Kind { table, column, found: ColumnKind::F64, expected }.into());
        }
    })
}

fn physical(kind: ColumnKind) -> (PhysicalType, ConvertedType) {
    match kind {
        ColumnKind::U8 => (PhysicalType::INT32, ConvertedType::UINT_8),
        ColumnKind::U16 => (PhysicalType::INT32, ConvertedType::UINT_16),
        ColumnKind::U32 => (PhysicalType::INT32, ConvertedType::UINT_32),
        ColumnKind::I16 => (PhysicalType::INT32, ConvertedType::INT_16),
        ColumnKind::U64 => (PhysicalType::INT64, ConvertedType::UINT_64),
        ColumnKind::F64 => (PhysicalType::DOUBLE, ConvertedType::NONE),
        ColumnKind::Text => (PhysicalType::BYTE_ARRAY, ConvertedType::UTF8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_recording::tables::{Mapping, Mappings, PageNode, PageNodes};

    /// A disk without room.
    struct Full;

    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::from_raw_os_error(28))
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_told_once() {
        let error = write(&mut Mappings::default(), Full).unwrap_err();
        assert_eq!(error.to_string(), "No space left on device (os error 28)");
        assert!(std::error::Error::source(&error).is_none());
    }

    #[test]
    fn a_table_comes_back_as_it_was() {
        let mut mappings = Mappings::default();
        for i in 0..1000u64 {
            mappings.push(Mapping {
                time_ns: u64::MAX - i,
                process: u32::MAX,
                start: i << 40,
                end: u64::MAX,
                offset: 0,
                module: i as u32,
                flags: 255,
                name: format!("mäp{i}"),
            });
        }
        let before = mappings.clone();
        let mut file = Vec::new();
        write(&mut mappings, &mut file).unwrap();
        let after: Mappings = read(bytes::Bytes::from(file)).unwrap();
        assert_eq!(before, after);
    }

    /// The crate writes some columns differently by their type: floats have an order of their own.
    #[test]
    fn every_kind_of_column_comes_back() {
        let row = |i: u32| Every {
            a: i as u8,
            b: i as u16,
            c: i,
            d: u64::from(i) << 33,
            e: -(i as i16),
            f: f64::from(i) / 7.0,
            g: format!("x{i}"),
        };
        for rows in [0, 1, 5000] {
            let mut table = Everys::default();
            (0..rows).for_each(|i| table.push(row(i)));
            let before = table.clone();
            let mut file = Vec::new();
            write(&mut table, &mut file).unwrap();
            assert_eq!(read::<Everys>(bytes::Bytes::from(file)).unwrap(), before);
        }
    }

    #[test]
    fn negative_nodes_survive() {
        let mut page_nodes = PageNodes::default();
        let row = PageNode {
            time_ns: 1,
            process: 0,
            address: 4096,
            pages: 1,
            stride: 4096,
            node: -1,
            page_shift: 0,
        };
        page_nodes.push(row.clone());
        let mut file = Vec::new();
        write(&mut page_nodes, &mut file).unwrap();
        assert_eq!(read::<PageNodes>(bytes::Bytes::from(file)).unwrap().row(0), row);
    }

    #[test]
    fn another_tables_file_names_the_missing_column() {
        let mut page_nodes = PageNodes::default();
        page_nodes.push(PageNode {
            time_ns: 1,
            process: 0,
            address: 0,
            pages: 1,
            stride: 1,
            node: 0,
            page_shift: 0,
        });
        let mut file = Vec::new();
        write(&mut page_nodes, &mut file).unwrap();
        let error = read::<Mappings>(bytes::Bytes::from(file)).unwrap_err();
        assert_eq!(error.to_string(), "table `mappings` has no column `start`");
    }

    nearfar_recording::table! {
        /// One of each kind.
        Every / Everys = "everything" {
            /// 8 bits.
            a: u8,
            /// 16 bits.
            b: u16,
            /// 32 bits.
            c: u32,
            /// 64 bits.
            d: u64,
            /// Signed.
            e: i16,
            /// A float.
            f: f64,
            /// A text.
            g: String,
        }
    }

    nearfar_recording::table! {
        /// A table as it was once.
        Old / Olds = "things" {
            /// Always there.
            id: u32,
        }
    }

    nearfar_recording::table! {
        /// The same table with a column more.
        New / News = "things" {
            /// Always there.
            id: u32,
            /// Added.
            page_node: i16 = -1,
        }
    }

    #[test]
    fn a_column_added_later_says_not_recorded_in_older_files() {
        let mut old = Olds::default();
        old.push(Old { id: 7 });
        old.push(Old { id: 8 });
        let wanted = News { id: vec![7, 8], page_node: vec![-1, -1] };
        let mut file = Vec::new();
        write(&mut old.clone(), &mut file).unwrap();
        assert_eq!(read::<News>(bytes::Bytes::from(file)).unwrap(), wanted);
        assert_eq!(News::from_columns(old.take()).unwrap(), wanted);
        // Nothing at all is not an older table.
        assert!(News::from_columns(Vec::new()).is_err());
    }
}
