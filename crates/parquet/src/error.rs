//! Why a table cannot be written or read.

use nearfar_recording::column::TableError;
use parquet::errors::ParquetError;
use thiserror::Error;

/// Why a table could not be written or read.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The Parquet library's own error.
    #[error("{0}")]
    Parquet(#[from] ParquetError),
    /// The file's columns are not the table's.
    #[error("{0}")]
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
