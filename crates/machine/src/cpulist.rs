//! Sets of kernel indexes in the kernel's own notation: `0-7,16`.
//!
//! The kernel writes cpus and nodes alike in this form (`cpulist`, `online`, `Cpus_allowed_list`). [`CpuList`] and [`NodeList`]
//! are different types, so that none is taken for the other: cpu 1 is rarely of node 1.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Largest index accepted. Linux is built with at most 8192 cpus (`NR_CPUS`);
/// the limit keeps a typing error such as `0-4000000000` from filling the memory.
pub const MAX_INDEX: u32 = 65_535;

/// Of what the indexes of an [`IndexList`] are.
pub trait Indexed {
    /// The list's name for those who debug.
    const LIST: &'static str;
}

/// Cpus, by the kernel's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpus;
/// Nodes, by the kernel's numbers ([`NodeId`](crate::NodeId)), not by their position in a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nodes;
/// Ranks of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ranks;

impl Indexed for Cpus {
    const LIST: &'static str = "CpuList";
}
impl Indexed for Nodes {
    const LIST: &'static str = "NodeList";
}
/// Of messages, which tell the same of cpus and of nodes.
impl Indexed for () {
    const LIST: &'static str = "IndexList";
}
impl Indexed for Ranks {
    const LIST: &'static str = "RankList";
}

/// A set of cpus.
pub type CpuList = IndexList<Cpus>;
/// A set of nodes.
///
/// ```compile_fail,E0308
/// use nearfar_machine::cpulist::{CpuList, NodeList};
/// let cpus: CpuList = NodeList::from(0..=1);
/// ```
pub type NodeList = IndexList<Nodes>;
/// A set of ranks.
pub type RankList = IndexList<Ranks>;

/// A sorted set of indexes.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct IndexList<T>(Vec<u32>, PhantomData<T>);

impl<T> IndexList<T> {
    /// The indexes, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + '_ {
        self.0.iter().copied()
    }

    /// The indexes as a slice, ascending.
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }

    /// Whether `index` is in the set.
    pub fn contains(&self, index: u32) -> bool {
        self.0.binary_search(&index).is_ok()
    }

    /// Number of indexes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The smallest index.
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// The largest index.
    pub fn last(&self) -> Option<u32> {
        self.0.last().copied()
    }

    /// The same numbers, of nothing in particular.
    pub fn numbers(&self) -> IndexList<()> {
        self.iter().collect()
    }

    /// The smallest index that both sets have.
    pub fn first_common(&self, other: &IndexList<T>) -> Option<u32> {
        self.iter().find(|&i| other.contains(i))
    }
}

impl<T> FromIterator<u32> for IndexList<T> {
    fn from_iter<I: IntoIterator<Item = u32>>(indexes: I) -> Self {
        let mut list: Vec<u32> = indexes.into_iter().collect();
        list.sort_unstable();
        list.dedup();
        IndexList(list, PhantomData)
    }
}

impl<T> From<RangeInclusive<u32>> for IndexList<T> {
    fn from(range: RangeInclusive<u32>) -> Self {
        range.collect()
    }
}

impl<T> fmt::Display for IndexList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_slice();
        let mut comma = "";
        while let Some(&from) = rest.first() {
            let run = rest.iter().zip(from..=u32::MAX).take_while(|&(&a, b)| a == b).count();
            let to = rest[run - 1];
            if from == to {
                write!(f, "{comma}{from}")?;
            } else {
                write!(f, "{comma}{from}-{to}")?;
            }
            comma = ",";
            rest = &rest[run..];
        }
        Ok(())
    }
}

/// The same as `Display`: a list of 128 numbers helps no one who debugs.
impl<T: Indexed> fmt::Debug for IndexList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({self})", T::LIST)
    }
}

/// Why a text is not a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// Something that is neither a number nor a range.
    #[error("`{0}` is neither a number nor a range such as 0-7")]
    NotANumber(String),
    /// `7-0`.
    #[error("the range {0}-{1} is reversed; write {1}-{0}")]
    Reversed(u32, u32),
    /// Above [`MAX_INDEX`].
    #[error("{0} is too large: indexes go up to {MAX_INDEX}")]
    TooLarge(u64),
}

impl<T> FromStr for IndexList<T> {
    type Err = CpuListError;

    /// Reads `0-7,16`. Blanks and a final line feed, as in sysfs, are allowed;
    /// an empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Vec::new().into_iter().collect());
        }
        let mut list = Vec::new();
        for part in text.split(',') {
            let part = part.trim();
            let (from, to) = match part.split_once('-') {
                Some((from, to)) => (index(from, part)?, index(to, part)?),
                None => {
                    let one = index(part, part)?;
                    (one, one)
                }
            };
            if from > to {
                return Err(CpuListError::Reversed(from, to));
            }
            list.extend(from..=to);
        }
        Ok(list.into_iter().collect())
    }
}

/// One number; `part` is what the message shows.
fn index(text: &str, part: &str) -> Result<u32, CpuListError> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(CpuListError::NotANumber(part.to_owned()));
    }
    // Only an overflow is left to fail, and that is too large as well.
    let number = text.parse::<u64>().unwrap_or(u64::MAX);
    match u32::try_from(number) {
        Ok(n) if n <= MAX_INDEX => Ok(n),
        _ => Err(CpuListError::TooLarge(number)),
    }
}

impl<T> Serialize for IndexList<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, T> Deserialize<'de> for IndexList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
