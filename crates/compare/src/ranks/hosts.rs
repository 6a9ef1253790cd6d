//! What was counted of each host: one of its ranks counts it for all, and another goes on if that one ends before.

use super::summary::Summary;
use nearfar_analyze::CountedValue;
use serde::Serialize;
use std::collections::BTreeMap;

/// A host, and what its ranks counted of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostRow {
    /// Its name.
    pub host: String,
    /// The ranks that counted it, by number; empty if none did.
    pub by: Vec<CountedBy>,
    /// The sums of what they counted; of the host as a whole, the program and all others.
    pub values: Vec<CountedValue>,
}

/// A rank that counted its host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CountedBy {
    /// The rank.
    pub rank: u32,
    /// For how long, seconds.
    pub seconds: f64,
}

/// What is gathered of a host: the ranks that counted it, and their values by place and name.
#[derive(Default)]
struct Gathered<'a> {
    by: Vec<CountedBy>,
    values: BTreeMap<(&'a str, &'a str), CountedValue>,
}

/// The hosts of these ranks, by name.
pub(super) fn hosts<'a>(summaries: impl Iterator<Item = &'a Summary>) -> Vec<HostRow> {
    let mut hosts: BTreeMap<&str, Gathered> = BTreeMap::new();
    for summary in summaries {
        let host = hosts.entry(&summary.rank.host).or_default();
        let Some(counted) = &summary.host_counted else { continue };
        host.by.push(CountedBy { rank: summary.rank.rank, seconds: counted.seconds });
        for value in &counted.values {
            let sum = host
                .values
                .entry((&value.of, &value.name))
                .or_insert_with(|| CountedValue { value: None, ..value.clone() });
            // What one of them could not count is missing for a part of the time only, and said.
            match value.value {
                Some(more) => {
                    sum.value = Some(sum.value.unwrap_or(0.0) + more);
                    sum.source.clone_from(&value.source);
                }
                None => sum.why.clone_from(&value.why),
            }
        }
    }
    let row = |(host, Gathered { by, values }): (&str, Gathered)| HostRow {
        host: host.to_owned(),
        by,
        values: values.into_values().collect(),
    };
    hosts.into_iter().map(row).collect()
}
