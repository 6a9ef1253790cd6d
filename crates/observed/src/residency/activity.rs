//! What the kernel counted of page placement and migration, over the whole system, between two looks.

use nearfar_machine::NodeId;
use serde::Serialize;
use std::collections::BTreeMap;

/// Counters of /proc/vmstat that are about migration, and what they count.
/// (mm/vmstat.c; Documentation/admin-guide/sysctl/kernel.rst for AutoNUMA.)
pub const MIGRATION: [(&str, &str); 5] = [
    ("numa_pte_updates", "pages that AutoNUMA unmapped to see who uses them"),
    ("numa_hint_faults", "faults on them"),
    ("numa_hint_faults_local", "of these by a cpu of the page's node"),
    ("numa_pages_migrated", "pages that AutoNUMA moved"),
    ("pgmigrate_success", "pages moved for any reason"),
];

/// Counters of a node's numastat, and what they count (Documentation/admin-guide/numastat.rst).
pub const PLACEMENT: [(&str, &str); 6] = [
    ("numa_hit", "pages placed here as asked"),
    ("numa_miss", "pages placed here that were to go elsewhere"),
    ("numa_foreign", "pages placed elsewhere that were to come here"),
    ("interleave_hit", "pages placed here by interleaving"),
    ("local_node", "pages placed here by a cpu of this node"),
    ("other_node", "pages placed here by a cpu of another node"),
];

/// Counts of pages; since boot, or between two readings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Activity {
    /// Those of [`MIGRATION`] that the kernel has; without CONFIG_NUMA_BALANCING four are missing.
    pub migration: BTreeMap<String, u64>,
    /// Those of [`PLACEMENT`], by node.
    pub placement: BTreeMap<NodeId, BTreeMap<String, u64>>,
}

impl Activity {
    /// Reads /proc/vmstat and each node's numastat: lines of a name and a number.
    pub fn read(vmstat: &str, nodes: impl IntoIterator<Item = (NodeId, String)>) -> Activity {
        let keep = |text: &str, names: &[(&str, &str)]| -> BTreeMap<String, u64> {
            let pairs = text.lines().filter_map(|l| l.split_once(' '));
            let known = pairs.filter(|(name, _)| names.iter().any(|(n, _)| n == name));
            known.filter_map(|(name, n)| Some((name.to_owned(), n.trim().parse().ok()?))).collect()
        };
        Activity {
            migration: keep(vmstat, &MIGRATION),
            placement: nodes.into_iter().map(|(node, text)| (node, keep(&text, &PLACEMENT))).collect(),
        }
    }

    /// What was counted since an earlier reading. A counter that was not there then is left out.
    pub fn since(&self, earlier: &Activity) -> Activity {
        let less = |now: &BTreeMap<String, u64>, then: &BTreeMap<String, u64>| {
            let pairs =
                now.iter().filter_map(|(name, n)| Some((name.clone(), n.saturating_sub(*then.get(name)?))));
            pairs.collect::<BTreeMap<_, _>>()
        };
        Activity {
            migration: less(&self.migration, &earlier.migration),
            placement: self
                .placement
                .iter()
                .filter_map(|(node, now)| Some((*node, less(now, earlier.placement.get(node)?))))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_differences_and_what_is_missing_stays_missing() {
        let node = |hit: u64| [(0, format!("numa_hit {hit}\nnuma_miss 3\n"))];
        let then = Activity::read("pgmigrate_success 5\nnr_free_pages 9\n", node(100));
        let now = Activity::read("pgmigrate_success 7\nnuma_pages_migrated 1\n", node(150));
        let since = now.since(&then);
        assert_eq!(since.migration, BTreeMap::from([("pgmigrate_success".to_owned(), 2)]));
        let counts = [("numa_hit".to_owned(), 50), ("numa_miss".to_owned(), 0)];
        assert_eq!(since.placement, BTreeMap::from([(0, BTreeMap::from(counts))]));
    }
}
