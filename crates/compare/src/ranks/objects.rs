//! Objects of all ranks, put together by their key.

use super::spread::Spread;
use super::summary::Summary;
use serde::Serialize;
use std::collections::HashMap;

/// An object that ranks have in common.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommonObject {
    /// The ranks' key of it.
    pub key: String,
    /// Its name.
    pub name: String,
    /// `file:line` of the allocation.
    pub allocated_at: Option<String>,
    /// Ranks in whose summaries it is.
    pub ranks: u64,
    /// Share of the ranks' time.
    pub time_share: Spread,
    /// Share of the ranks' time at risk on its far pages; `null` if it is unknown of all ranks.
    pub far_time_share: Option<Spread>,
    /// The rank in which the largest part of the time goes to its far pages; `null` if unknown.
    pub worst_rank: Option<u32>,
}

/// All of them, by the time that goes to far pages in the worst rank and then by time.
pub fn common<'a>(summaries: impl Iterator<Item = &'a Summary>) -> Vec<CommonObject> {
    #[derive(Default)]
    struct Seen {
        time: Vec<f64>,
        far: Vec<f64>,
        worst: Option<(f64, u32)>,
        name: String,
        at: Option<String>,
    }
    let mut all: HashMap<&str, Seen> = HashMap::new();
    for summary in summaries {
        for object in &summary.objects {
            let seen = all.entry(&object.key).or_default();
            if seen.time.is_empty() {
                (seen.name, seen.at) = (object.name.clone(), object.allocated_at.clone());
            }
            seen.time.push(object.time_share);
            if let Some(cost) = object.far_time_share {
                seen.far.push(cost);
                if seen.worst.is_none_or(|(most, _)| cost > most) {
                    seen.worst = Some((cost, summary.rank.rank));
                }
            }
        }
    }
    let mut objects: Vec<(f64, CommonObject)> = all
        .into_iter()
        .filter_map(|(key, seen)| {
            let object = CommonObject {
                key: key.to_owned(),
                name: seen.name,
                allocated_at: seen.at,
                ranks: seen.time.len() as u64,
                time_share: Spread::of(seen.time)?,
                far_time_share: Spread::of(seen.far),
                worst_rank: seen.worst.map(|(_, rank)| rank),
            };
            Some((seen.worst.map_or(0.0, |(cost, _)| cost), object))
        })
        .collect();
    objects.sort_by(|(a, x), (b, y)| {
        b.total_cmp(a).then(y.time_share.max.total_cmp(&x.time_share.max)).then_with(|| x.key.cmp(&y.key))
    });
    objects.into_iter().map(|(_, object)| object).collect()
}
