//! Limits of the control group: how much memory, and how much time of the cpus.
//!
//! They are not the cpuset: that one says which cpus and nodes, these say how much of them.

use super::{Node, Topology};
use crate::NodeKind;
use nearfar_figures::sizes::capacity;
use serde::{Deserialize, Serialize};

/// A limit that may be there, or not, or not be readable. The three are not the same:
/// `unlimited` was read, `unknown` was not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Limit<T> {
    /// No group that the caller can see has one.
    Unlimited,
    /// The smallest of the caller's group and all groups around it.
    Limited {
        /// The limit, in the unit of the field.
        limit: T,
        /// The file that has it, and its group: `memory.max of /batch/job1`.
        from: String,
    },
    /// Not known.
    Unknown {
        /// Why, and what to do about it.
        why: String,
    },
}

impl<T: Copy> Limit<T> {
    /// The limit where there is one.
    pub fn limit(&self) -> Option<T> {
        match self {
            Limit::Limited { limit, .. } => Some(*limit),
            Limit::Unlimited | Limit::Unknown { .. } => None,
        }
    }
}

impl<T> Default for Limit<T> {
    fn default() -> Self {
        Limit::Unknown { why: super::ONLY_LIVE.to_owned() }
    }
}

/// What the caller's control groups allow. Groups outside a container are not visible in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Memory, in units of 1024 bytes, beyond which the kernel kills: `memory.max`, in
    /// version 1 `memory.limit_in_bytes`.
    #[serde(default)]
    pub memory_max_kb: Limit<u64>,
    /// Memory, in units of 1024 bytes, beyond which allocations are slowed down and pages
    /// are taken back: `memory.high`, which version 1 does not have.
    #[serde(default)]
    pub memory_high_kb: Limit<u64>,
    /// Time on cpus per time that passes, so 2.5 is two and a half cpus: `cpu.max`, in version 1
    /// `cpu.cfs_quota_us` by `cpu.cfs_period_us`.
    #[serde(default)]
    pub cpu_quota: Limit<f64>,
    /// Whether there are groups around the outermost one that can be seen, as in containers;
    /// they may have lower limits.
    #[serde(default)]
    pub hidden_groups: Option<bool>,
}

/// More cpus than time for them.
pub(super) fn quota(t: &Topology) -> Option<String> {
    let Limit::Limited { limit, from } = &t.allowed.limits.cpu_quota else { return None };
    let cpus = t.allowed.cpus.as_ref()?.iter().filter(|&c| t.cpus.online.contains(c)).count();
    (*limit < cpus as f64).then(|| {
        // Less than one cpu still runs one thread.
        let threads = limit.floor().max(1.0);
        format!(
            "the caller may run on {cpus} cpus but gets the time of {} only ({from}): more busy threads than \
             that are stopped again and again, which no placement of memory repairs; run at most {threads} or raise \
             the quota",
            decimal(*limit)
        )
    })
}

/// A limit that ends a program before one node is full.
pub(super) fn memory(t: &Topology) -> Option<String> {
    let limits = &t.allowed.limits;
    let allowed = |n: &&Node| t.allowed.nodes.as_ref().is_none_or(|nodes| nodes.contains(n.id));
    let smallest = t
        .nodes
        .iter()
        .filter(allowed)
        .filter(|n| n.kind != Some(NodeKind::Gpu))
        .filter_map(|n| n.memory_kb.filter(|&kb| kb > 0))
        .min()?;
    let below = |limit: &Limit<u64>| match limit {
        Limit::Limited { limit, from } if *limit < smallest => Some((*limit, from.clone())),
        _ => None,
    };
    let max = below(&limits.memory_max_kb);
    // Reached first, so it is the one to tell.
    let high = below(&limits.memory_high_kb).filter(|(high, _)| max.as_ref().is_none_or(|(m, _)| high < m));
    let ((kb, from), what) = match (high, max) {
        (Some(high), _) => (high, "slows it down and takes its pages back"),
        (None, max) => (max?, "takes its page cache back, then kills it"),
    };
    Some(format!(
        "the control group gives {} of memory ({from}), less than any node that the caller may use has \
         ({}): beyond it the kernel does not go to another node but {what}",
        capacity(kb * 1024),
        capacity(smallest * 1024)
    ))
}

/// `2`, `2.5`, `0.25`.
fn decimal(number: f64) -> String {
    format!("{}", (number * 100.0).round() / 100.0)
}
