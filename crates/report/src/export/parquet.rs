//! A row for each sample, with objects, functions and nodes in it: for DuckDB, pandas and polars. The recording's own
//! tables are Parquet, too, but have numbers that refer to each other.

use super::rows::{COLUMNS, Kind, Value, row};
use super::samples::Samples;
use parquet::basic::{Compression, ConvertedType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::sync::Arc;

/// Rows of a group. // chosen: what readers like
const GROUP_ROWS: usize = 1 << 17;

/// The file's bytes. What is unknown is null.
///
/// # Errors
/// If it cannot be written.
pub fn file(samples: &Samples) -> Result<Vec<u8>, ParquetError> {
    let mut out = Vec::new();
    let properties =
        WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let mut file = SerializedFileWriter::new(&mut out, schema()?, Arc::new(properties))?;
    for part in samples.samples.chunks(GROUP_ROWS) {
        let mut columns: [Vec<Value>; COLUMNS.len()] = Default::default();
        for s in part {
            for (column, value) in columns.iter_mut().zip(row(samples, s)) {
                column.push(value);
            }
        }
        let mut group = file.next_row_group()?;
        for ((_, kind), values) in COLUMNS.iter().zip(columns) {
            let mut writer = group.next_column()?.expect("as many columns as the schema has");
            // The column's type is unsigned, so the bits of a number above 2^63 are read back as that number.
            match kind {
                Kind::Number => put::<Int64Type>(&mut writer, values, |value| match value {
                    Value::Number(n) | Value::Address(n) => Some(n as i64),
                    _ => None,
                })?,
                Kind::Truth => put::<BoolType>(&mut writer, values, |value| match value {
                    Value::Truth(yes) => Some(yes),
                    _ => None,
                })?,
                Kind::Text => put::<ByteArrayType>(&mut writer, values, |value| match value {
                    Value::Text(text) => Some(ByteArray::from(text.into_bytes())),
                    _ => None,
                })?,
            }
            writer.close()?;
        }
        group.close()?;
    }
    file.close()?;
    Ok(out)
}

fn schema() -> Result<Arc<Type>, ParquetError> {
    let column = |&(name, kind): &(&str, Kind)| {
        let (physical, converted) = match kind {
            Kind::Number => (PhysicalType::INT64, ConvertedType::UINT_64),
            Kind::Truth => (PhysicalType::BOOLEAN, ConvertedType::NONE),
            Kind::Text => (PhysicalType::BYTE_ARRAY, ConvertedType::UTF8),
        };
        let built = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_converted_type(converted)
            .build();
        built.map(Arc::new)
    };
    let columns: Result<Vec<_>, _> = COLUMNS.iter().map(column).collect();
    Ok(Arc::new(Type::group_type_builder("samples").with_fields(columns?).build()?))
}

/// Writes a column; a value that `of` does not have is null.
fn put<D: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    values: Vec<Value>,
    of: impl Fn(Value) -> Option<D::T>,
) -> Result<(), ParquetError> {
    let values: Vec<Option<D::T>> = values.into_iter().map(of).collect();
    let present: Vec<i16> = values.iter().map(|v| i16::from(v.is_some())).collect();
    let values: Vec<D::T> = values.into_iter().flatten().collect();
    writer.typed::<D>().write_batch(&values, Some(&present), None)?;
    Ok(())
}
