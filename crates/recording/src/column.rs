//! Columns in memory: the one shape that rows take between a producer, the
//! journal, Parquet and the analysis.
//!
//! [`table!`](crate::table) defines a row type once; from it come the struct,
//! its structure-of-arrays twin, the schema and both directions of conversion.

use thiserror::Error;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 16 bits.
    I16,
    /// IEEE double.
    F64,
    /// UTF-8 text.
    Text,
}

/// The values of one column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Unsigned, 8 bits.
    U8(Vec<u8>),
    /// Unsigned, 16 bits.
    U16(Vec<u16>),
    /// Unsigned, 32 bits.
    U32(Vec<u32>),
    /// Unsigned, 64 bits.
    U64(Vec<u64>),
    /// Signed, 16 bits.
    I16(Vec<i16>),
    /// IEEE double.
    F64(Vec<f64>),
    /// UTF-8 text.
    Text(Vec<Text>),
}

/// A text of a table that may have ten million rows: 8 bytes where it is empty, as most are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(#[allow(clippy::box_collection)] Option<Box<String>>); // a thin pointer; Box<str> is a wide one

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text((!text.is_empty()).then(|| Box::new(text)))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        text.to_owned().into()
    }
}

impl From<Text> for String {
    fn from(text: Text) -> String {
        text.0.map_or_else(String::new, |text| *text)
    }
}

impl std::ops::Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        self.0.as_deref().map_or("", String::as_str)
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self)
    }
}

impl Column {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Column::U8(v) => v.len(),
            Column::U16(v) => v.len(),
            Column::U32(v) => v.len(),
            Column::U64(v) => v.len(),
            Column::I16(v) => v.len(),
            Column::F64(v) => v.len(),
            Column::Text(v) => v.len(),
        }
    }

    /// Whether it holds no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type of its values.
    pub fn kind(&self) -> ColumnKind {
        match self {
            Column::U8(_) => ColumnKind::U8,
            Column::U16(_) => ColumnKind::U16,
            Column::U32(_) => ColumnKind::U32,
            Column::U64(_) => ColumnKind::U64,
            Column::I16(_) => ColumnKind::I16,
            Column::F64(_) => ColumnKind::F64,
            Column::Text(_) => ColumnKind::Text,
        }
    }
}

/// Name, type and meaning of one column.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSpec {
    /// Name in the file.
    pub name: &'static str,
    /// Its name in recordings of format 1, where that was another: they still open.
    pub former: Option<&'static str>,
    /// Type of its values.
    pub kind: ColumnKind,
    /// Meaning and unit: the doc comment of the row's field.
    pub doc: &'static str,
    /// For a column that was added within a format version: that many values that mean
    /// "not recorded", for files written before it. `None` for one that was always there.
    pub absent: Option<fn(usize) -> Column>,
}

/// A table in memory, one vector per column.
pub trait Columns: Default + Clone + Send + Sync {
    /// One row.
    type Row;
    /// Name in journals and files.
    const TABLE: &'static str;
    /// Its name in recordings of format 1, where that was another: they still open.
    const FORMER: Option<&'static str>;
    /// What a row is.
    const DOC: &'static str;
    /// The columns in file order.
    const SCHEMA: &'static [ColumnSpec];
    /// Whether it was added within a format version: older recordings have none, which is as good as an empty one.
    const ADDED: bool;

    /// Appends a row.
    fn push(&mut self, row: Self::Row);
    /// Copies row `i` out. Panics past the end, as indexing does.
    fn row(&self, i: usize) -> Self::Row;
    /// Number of rows.
    fn len(&self) -> usize;
    /// Whether it has no row.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Takes all rows out as columns, in schema order; leaves the table empty.
    fn take(&mut self) -> Vec<Column>;
    /// Builds a table from columns in schema order. Columns that were added since may be missing at the end.
    fn from_columns(columns: Vec<Column>) -> Result<Self, TableError>;
    /// Appends another table's rows.
    fn append(&mut self, other: &mut Self);
    /// All rows, copied one by one. For the small tables.
    fn rows(&self) -> impl Iterator<Item = Self::Row> + '_ {
        (0..self.len()).map(|i| self.row(i))
    }
}

/// Columns that do not fit the table they are read into.
#[derive(Debug, Error)]
pub enum TableError {
    /// Wrong number of columns.
    #[error("table `{table}` has {found} columns where {expected} are expected")]
    Width {
        /// Which table.
        table: &'static str,
        /// Columns found.
        found: usize,
        /// Columns expected.
        expected: usize,
    },
    /// A column of the wrong type.
    #[error("table `{table}`, column `{column}`: found {found:?}, expected {expected:?}")]
    Kind {
        /// Which table.
        table: &'static str,
        /// Which column.
        column: &'static str,
        /// Type found.
        found: ColumnKind,
        /// Type expected.
        expected: ColumnKind,
    },
    /// Columns of different lengths.
    #[error("table `{table}`: its columns have different lengths")]
    Ragged {
        /// Which table.
        table: &'static str,
    },
}

/// Values that live in columns; ties a Rust type to its [`Column`] variant.
pub trait Value: Sized + Clone {
    /// The variant's tag.
    const KIND: ColumnKind;
    /// Wraps a vector.
    fn wrap(values: Vec<Self>) -> Column;
    /// Unwraps a vector, or gives the column back.
    fn unwrap(column: Column) -> Result<Vec<Self>, Column>;
}

macro_rules! value {
    ($($rust:ty => $variant:ident),*) => {$(
        impl Value for $rust {
            const KIND: ColumnKind = ColumnKind::$variant;
            fn wrap(values: Vec<Self>) -> Column {
                Column::$variant(values)
            }
            fn unwrap(column: Column) -> Result<Vec<Self>, Column> {
                match column {
                    Column::$variant(v) => Ok(v),
                    other => Err(other),
                }
            }
        }
    )*};
}
value!(u8 => U8, u16 => U16, u32 => U32, u64 => U64, i16 => I16, f64 => F64, Text => Text);

impl Value for String {
    const KIND: ColumnKind = ColumnKind::Text;
    fn wrap(values: Vec<Self>) -> Column {
        Column::Text(values.into_iter().map(Text::from).collect())
    }
    fn unwrap(column: Column) -> Result<Vec<Self>, Column> {
        Text::unwrap(column).map(|values| values.into_iter().map(String::from).collect())
    }
}

/// Defines a row type, its columns and its schema from one list of fields.
///
/// A field with `= value` was added within a format version and stands behind all older ones; the
/// value is what it has in rows written before. A table that was added says `, added` behind its name.
/// `[name]` behind the name of a field or table is the one that it had in format 1.
#[macro_export]
macro_rules! table {
    (
        $(#[doc = $doc:literal])+
        $row:ident / $columns:ident = $name:literal $([$former:literal])? $(, $added:ident)? {
            $( $(#[doc = $fdoc:literal])+ $field:ident $([$was:ident])? : $ty:ty $(= $absent:expr)? ),+ $(,)?
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $row {
            $( $(#[doc = $fdoc])+ pub $field: $ty, )+
        }

        #[doc = concat!("The table `", $name, "`: [`", stringify!($row), "`] rows as columns.")]
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $columns {
            $( $(#[doc = $fdoc])+ pub $field: Vec<$ty>, )+
        }

        impl $crate::column::Columns for $columns {
            type Row = $row;
            const TABLE: &'static str = $name;
            const FORMER: Option<&'static str> = $crate::former!($($former)?);
            const DOC: &'static str = concat!($($doc, "\n"),+);
            const ADDED: bool = $crate::added!($($added)?);
            const SCHEMA: &'static [$crate::column::ColumnSpec] = &[
                $( $crate::column::ColumnSpec {
                    name: stringify!($field),
                    former: $crate::former!($($was)?),
                    kind: <$ty as $crate::column::Value>::KIND,
                    doc: concat!($($fdoc),+),
                    absent: $crate::absent!($ty $(, $absent)?),
                } ),+
            ];
            fn push(&mut self, row: $row) {
                $( self.$field.push(row.$field); )+
            }
            fn row(&self, i: usize) -> $row {
                $row { $( $field: self.$field[i].clone() ),+ }
            }
            fn len(&self) -> usize {
                let lengths = [$( self.$field.len() ),+];
                lengths[0]
            }
            fn take(&mut self) -> Vec<$crate::column::Column> {
                vec![$( <$ty as $crate::column::Value>::wrap(
                    std::mem::take(&mut self.$field)) ),+]
            }
            fn from_columns(
                mut columns: Vec<$crate::column::Column>,
            ) -> Result<Self, $crate::column::TableError> {
                use $crate::column::{TableError, Value};
                let expected = Self::SCHEMA.len();
                let found = columns.len();
                let rows = columns.first().map_or(0, |c| c.len());
                let added = Self::SCHEMA.iter().skip(found).map_while(|c| c.absent);
                columns.extend(added.map(|absent| absent(rows)));
                if columns.len() != expected || found == 0 {
                    return Err(TableError::Width { table: $name, found, expected });
                }
                if columns.iter().any(|c| c.len() != rows) {
                    return Err(TableError::Ragged { table: $name });
                }
                let mut columns = columns.into_iter();
                Ok($columns {
                    $( $field: <$ty as Value>::unwrap(columns.next().expect("width checked above"))
                        .map_err(|c| TableError::Kind {
                            table: $name,
                            column: stringify!($field),
                            found: c.kind(),
                            expected: <$ty as Value>::KIND,
                        })?, )+
                })
            }
            fn append(&mut self, other: &mut Self) {
                $( self.$field.append(&mut other.$field); )+
            }
        }
    };
}

/// The `absent` of a [`ColumnSpec`](crate::column::ColumnSpec).
#[doc(hidden)]
#[macro_export]
macro_rules! absent {
    ($ty:ty) => {
        None
    };
    ($ty:ty, $value:expr) => {
        Some(|rows| <$ty as $crate::column::Value>::wrap(vec![$value; rows]))
    };
}

/// The `former` of a [`ColumnSpec`](crate::column::ColumnSpec) and the `FORMER` of
/// [`Columns`](crate::column::Columns).
#[doc(hidden)]
#[macro_export]
macro_rules! former {
    () => {
        None
    };
    ($name:literal) => {
        Some($name)
    };
    ($name:ident) => {
        Some(stringify!($name))
    };
}

/// The `ADDED` of [`Columns`](crate::column::Columns).
#[doc(hidden)]
#[macro_export]
macro_rules! added {
    () => {
        false
    };
    (added) => {
        true
    };
}
