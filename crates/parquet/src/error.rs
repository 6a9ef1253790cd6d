//! Why a table cannot be written or read.

use nearfar_recording::column::TableError;
use parquet::errors::ParquetError;
use thiserror::Error;

/// Why a table could not be written or read.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The file could not be written or read.
    #[error(transparent)]
    Io(std::io::Error),
    /// The Parquet library's own error.
    #[error(transparent)]
    Parquet(ParquetError),
    /// The file's columns are not the table's.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A column that this version needs is missing.
    #[error("table `{table}` has no column `{column}`")]
    Missing {
        /// Which table.
        table: &'static str,
        /// Which column.
        column: &'static str,
    },
    /// It asks for more memory than a file of its size may.
    #[error("it would take more than {0} bytes of memory, too many for a file of its size")]
    TooLarge(u64),
    /// It is not a file that nearfar wrote.
    #[error("{0}")]
    Foreign(String),
}

impl From<ParquetError> for StoreError {
    /// The library's error for one of the system says it again, and a chain of causes once more.
    fn from(error: ParquetError) -> StoreError {
        match error {
            ParquetError::External(cause) => match cause.downcast() {
                Ok(cause) => StoreError::Io(*cause),
                Err(cause) => StoreError::Parquet(ParquetError::External(cause)),
            },
            other => StoreError::Parquet(other),
        }
    }
}
