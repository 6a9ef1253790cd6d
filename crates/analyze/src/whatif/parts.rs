//! The simplest pattern that explains who uses an object's pages: one node, parts in a row, or parts that come again.
//!
//! Page by page, the node that uses each most always explains the counts best, and learns their noise: where few
//! lines of a page ever miss the caches, whose they were is chance, and parts that follow chance are wrong in the
//! next run. So a part has to explain as many lines as some pages have (a penalty for each change, as in Potts'
//! segmentation: Boysen et al. 2009, Ann. Statist. 37, 157–183), and a pattern that leaves too much unexplained is none.

use crate::nodes::{NodeIndex, UNKNOWN};

/// What a part costs: the lines of so many pages of those that have any; of so many groups where pages are known in groups
/// only. // chosen
const PART: f64 = 2.0;
/// Largest part of the lines that a pattern may leave unexplained. // chosen
const UNEXPLAINED: f64 = 0.1;

/// Which threads use a page, and how much more than all others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PageUser {
    /// The node that uses it most.
    pub node: NodeIndex,
    /// Its lines, less those of all others; 0 where the page tells nothing.
    pub weight: f64,
}

/// Pages of one node, one after the other.
#[derive(Clone, Copy, Debug)]
struct Run {
    node: NodeIndex,
    pages: usize,
    weight: f64,
}

/// The node that each page of the object belongs to by the simplest pattern; an error is the part of the lines that
/// the best one leaves unexplained. `group`: pages that have their user from the same samples, one after the other. They
/// are one observation, which chance may have made, and no part by themselves.
pub(super) fn simplest(users: &[PageUser], group: usize) -> Result<Vec<NodeIndex>, f64> {
    let runs = runs(users);
    let all: f64 = runs.iter().map(|r| r.weight).sum();
    let told = users.iter().filter(|u| u.weight > 0.0).count();
    if all == 0.0 {
        // Nothing tells them apart: as they are.
        return Ok(users.iter().map(|u| u.node).collect());
    }
    let part = PART * all / told as f64 * group.max(1) as f64;
    let in_a_row = in_a_row(&runs, part);
    let cost = |pattern: &[NodeIndex]| -> f64 {
        users.iter().zip(pattern).filter(|(u, n)| u.node != **n).map(|(u, _)| u.weight).sum()
    };
    let changes = |pattern: &[NodeIndex]| pattern.windows(2).filter(|w| w[0] != w[1]).count() as f64;
    let mut best = (cost(&in_a_row) + part * changes(&in_a_row), in_a_row);
    for period in periods(&runs) {
        let again = coming_again(users, period);
        let price = cost(&again) + part * (1.0 + changes(&again[..period]));
        if price < best.0 {
            best = (price, again);
        }
    }
    let unexplained = cost(&best.1) / all;
    if unexplained <= UNEXPLAINED { Ok(best.1) } else { Err(unexplained) }
}

fn runs(users: &[PageUser]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for user in users {
        match runs.last_mut() {
            Some(last) if last.node == user.node || user.weight == 0.0 => {
                last.pages += 1;
                last.weight += user.weight;
            }
            _ => runs.push(Run { node: user.node, pages: 1, weight: user.weight }),
        }
    }
    runs
}

/// The cheapest division into parts: what lies wrong, and `part` for each change.
fn in_a_row(runs: &[Run], part: f64) -> Vec<NodeIndex> {
    let mut nodes: Vec<NodeIndex> = runs.iter().map(|r| r.node).filter(|&n| n != UNKNOWN).collect();
    nodes.sort_unstable();
    nodes.dedup();
    // For each run and node: the cost so far, if the run goes to that node, and where the one before went.
    let mut costs = vec![0.0f64; nodes.len()];
    let mut from: Vec<Vec<u8>> = Vec::with_capacity(runs.len());
    for (i, run) in runs.iter().enumerate() {
        let (cheapest, &least) =
            costs.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1)).expect("a node at least");
        let mut back = Vec::with_capacity(nodes.len());
        let mut next = Vec::with_capacity(nodes.len());
        for (n, &node) in nodes.iter().enumerate() {
            let changed = least + part;
            let stays = i == 0 || costs[n] <= changed;
            back.push(if stays { n as u8 } else { cheapest as u8 });
            let wrong = if run.node == node { 0.0 } else { run.weight };
            next.push(if stays { costs[n] } else { changed } + wrong);
        }
        from.push(back);
        costs = next;
    }
    let mut at = costs.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |x| x.0);
    let mut chosen = vec![0usize; runs.len()];
    for i in (0..runs.len()).rev() {
        chosen[i] = at;
        at = usize::from(from[i][at]);
    }
    runs.iter().zip(chosen).flat_map(|(r, n)| std::iter::repeat_n(nodes[n], r.pages)).collect()
}

/// Pages after which parts may come again: what lies most often between two beginnings of a node's parts.
fn periods(runs: &[Run]) -> Vec<usize> {
    let pages: usize = runs.iter().map(|r| r.pages).sum();
    let mut last: [Option<usize>; 256] = [None; 256];
    let mut distances: Vec<usize> = Vec::new();
    let mut begin = 0;
    for run in runs {
        if let Some(before) = last[usize::from(run.node)].replace(begin) {
            distances.push(begin - before);
        }
        begin += run.pages;
    }
    distances.sort_unstable();
    let mut counted: Vec<(usize, usize)> =
        distances.chunk_by(|a, b| a == b).map(|c| (c.len(), c[0])).collect();
    counted.sort_unstable_by(|a, b| b.cmp(a));
    // Four times at least: else parts in a row say it as well.
    counted.into_iter().map(|c| c.1).filter(|&p| p > 1 && p * 4 <= pages).take(4).collect()
}

/// Each page as the pages at its place in every period vote.
fn coming_again(users: &[PageUser], period: usize) -> Vec<NodeIndex> {
    let mut votes: Vec<Vec<(NodeIndex, f64)>> = vec![Vec::new(); period];
    for (p, user) in users.iter().enumerate().filter(|(_, u)| u.node != UNKNOWN) {
        let place = &mut votes[p % period];
        match place.iter_mut().find(|v| v.0 == user.node) {
            Some(vote) => vote.1 += user.weight,
            None => place.push((user.node, user.weight)),
        }
    }
    let first = users.iter().map(|u| u.node).find(|&n| n != UNKNOWN).unwrap_or(UNKNOWN);
    let most = |v: &Vec<(NodeIndex, f64)>| v.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(first, |v| v.0);
    let places: Vec<NodeIndex> = votes.iter().map(most).collect();
    (0..users.len()).map(|p| places[p % period]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::stats::Random;
    use super::*;

    fn pages(of: impl Iterator<Item = (NodeIndex, f64)>) -> Vec<PageUser> {
        of.map(|(node, weight)| PageUser { node, weight }).collect()
    }

    fn parts(pattern: &[NodeIndex]) -> Vec<(usize, NodeIndex)> {
        pattern.chunk_by(|a, b| a == b).map(|c| (c.len(), c[0])).collect()
    }

    #[test]
    fn two_halves_stay_two_halves_whatever_noise_lies_in_them() {
        let mut random = Random::new(7);
        let noisy = pages((0..4096).map(|p| {
            let right = NodeIndex::from(p >= 2048);
            // Every tenth page has a few lines of another thread.
            if random.unit() < 0.1 { (1 - right, 2.0) } else { (right, 40.0 + 20.0 * random.unit()) }
        }));
        assert_eq!(parts(&simplest(&noisy, 1).unwrap()), [(2048, 0), (2048, 1)]);
    }

    #[test]
    fn few_samples_of_another_thread_make_no_part() {
        // 512 groups of 95 pages with two samples each in the mean, and at the end a thread of node 0 that sums up all of it.
        let mut random = Random::new(5);
        let groups: Vec<PageUser> = (0..512)
            .map(|g| {
                let right = NodeIndex::from(g >= 256);
                let samples = (0..6).filter(|_| random.unit() < 1.0 / 3.0).count() as f64;
                let sum = f64::from(random.unit() < 0.2);
                let lead = if right == 0 { samples + sum } else { samples - sum };
                PageUser { node: if lead < 0.0 { 1 - right } else { right }, weight: lead.abs() }
            })
            .collect();
        let pages: Vec<PageUser> = groups.iter().flat_map(|&u| [u; 95]).collect();
        assert_eq!(parts(&simplest(&pages, 95).unwrap()), [(256 * 95, 0), (256 * 95, 1)]);
        // Such a group by itself would be a part.
        assert!(parts(&simplest(&pages, 1).unwrap()).len() > 2);
    }

    #[test]
    fn pages_that_tell_nothing_follow_no_chance() {
        // One page in eight has lines at all, a handful, whose is chance.
        let mut random = Random::new(11);
        let chance = pages((0..4096).map(|p| {
            let node = NodeIndex::from(random.unit() < 0.5);
            (node, if p % 8 == 0 { 1.0 + 4.0 * random.unit() } else { 0.0 })
        }));
        assert!(simplest(&chance, 1).unwrap_err() > 0.2);
        // The same with one node's lines nearly always: all of it is that node's.
        let one = pages((0..4096).map(|p| {
            let node = NodeIndex::from(random.unit() < 0.02);
            (node, if p % 8 == 0 { 1.0 } else { 0.0 })
        }));
        assert_eq!(parts(&simplest(&one, 1).unwrap()), [(4096, 0)]);
    }

    #[test]
    fn parts_that_come_again_are_found_down_to_a_page() {
        for chunk in [1, 2, 3, 16, 64] {
            let cyclic = pages((0..4096).map(|p| ((p / chunk % 4) as NodeIndex, 10.0)));
            let found = simplest(&cyclic, 1).unwrap();
            assert!((0..4096).all(|p| found[p] == (p / chunk % 4) as NodeIndex), "{chunk}");
        }
        // Noise does not break the turns.
        let mut random = Random::new(3);
        let noisy = pages((0..4096).map(|p| {
            let node = (p / 3 % 2) as NodeIndex;
            if random.unit() < 0.05 { (1 - node, 10.0) } else { (node, 10.0) }
        }));
        let found = simplest(&noisy, 1).unwrap();
        assert!((0..4096).all(|p| found[p] == (p / 3 % 2) as NodeIndex));
    }

    #[test]
    fn parts_of_any_size_in_any_order_are_kept() {
        let sizes = [5usize, 40, 7, 300, 12, 90, 6, 33];
        let irregular = pages(
            sizes
                .iter()
                .enumerate()
                .flat_map(|(i, &n)| std::iter::repeat_n(((i * 5 % 3) as NodeIndex, 8.0), n)),
        );
        let wanted: Vec<NodeIndex> = irregular.iter().map(|u| u.node).collect();
        assert_eq!(simplest(&irregular, 1).unwrap(), wanted);
    }

    #[test]
    fn nothing_counted_is_left_as_it_is() {
        let none = pages([(0, 0.0), (1, 0.0), (1, 0.0)].into_iter());
        assert_eq!(simplest(&none, 1).unwrap(), [0, 1, 1]);
        assert_eq!(simplest(&[], 1).unwrap(), [] as [NodeIndex; 0]);
    }
}
