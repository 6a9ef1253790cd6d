//! What was read, or why it was not.

use serde::{Deserialize, Serialize};

/// A part of the topology that takes more than a file of sysfs: a permission, a driver, a
/// processor that documents it. Without it, what is missing is named instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Reading<T> {
    /// What was read.
    Known(T),
    /// Nothing.
    Unknown {
        /// Why, and what to do about it.
        why: String,
    },
}

impl<T> Reading<T> {
    /// What was read, if anything was.
    pub fn known(&self) -> Option<&T> {
        match self {
            Reading::Known(value) => Some(value),
            Reading::Unknown { .. } => None,
        }
    }
}

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Reading::Unknown { why: super::ONLY_LIVE.to_owned() }
    }
}

impl<T> From<Result<T, String>> for Reading<T> {
    fn from(result: Result<T, String>) -> Self {
        result.map_or_else(|why| Reading::Unknown { why }, Reading::Known)
    }
}
