//! Threads that work at the same time, in the order in which an assumed machine gets them.
//!
//! A team of threads is spread over the nodes in the order of creation, one process after the other: the threads of a rank stay together, as
//! launchers of ranks bind them. Who only waits, and who had ended before the team began, takes no place in it: with a main thread and
//! three helpers that sleep, two workers would both be on the second of two nodes. A process's first thread is there from its beginning to
//! its end, whatever it does: it places memory before others begin. That of a process that hardly works, as a shell or mpirun, is not.

use crate::hash::FastMap;
use nearfar_machine::NodeId;
use nearfar_recording::{SampleSurvey, Seen, Threads};

/// Part of the samples that another thread has in a thread's life, below which the thread hardly works. // chosen
const WORKS: f64 = 0.05;
/// Part of a thread's life that another one is there, from which on they are of one team. // chosen
const TOGETHER: f64 = 0.5;
/// Most threads whose lives are compared, each with each; of more, all are of one team. // chosen: the work grows with
/// its square
const MOST_THREADS: usize = 8192;

/// The nodes of the threads that work; `sampled`: positions of the sampled threads, in the order in which they get places; `assign`: the
/// nodes of a team of so many.
pub(super) fn nodes(
    sampled: &[usize],
    threads: &Threads,
    survey: &SampleSurvey,
    assign: impl Fn(usize) -> Vec<NodeId>,
) -> Vec<(usize, NodeId)> {
    if survey.seen.is_empty() || sampled.len() > MOST_THREADS {
        return sampled.iter().copied().zip(assign(sampled.len())).collect();
    }
    let seen = |&t: &usize| {
        let at = survey.threads.binary_search(&threads.id[t]).ok()?;
        survey.seen.get(at).map(|&seen| (t, seen))
    };
    let mut all: Vec<(usize, Seen)> = sampled.iter().filter_map(seen).collect();
    let mut first: FastMap<u32, usize> = FastMap::default();
    let mut processes: FastMap<u32, Seen> = FastMap::default();
    for i in 0..all.len() {
        let (thread, seen) = all[i];
        let process = threads.process[thread];
        let main = *first.entry(process).or_insert(i);
        all[main].1.last_ns = all[main].1.last_ns.max(seen.last_ns);
        let whole = processes.entry(process).or_insert(Seen { samples: 0, ..seen });
        whole.samples += seen.samples;
        (whole.first_ns, whole.last_ns) =
            (whole.first_ns.min(seen.first_ns), whole.last_ns.max(seen.last_ns));
    }
    let works = |seen: Seen, among: &mut dyn Iterator<Item = Seen>| {
        let most = among.map(|other| other.samples as f64 * together(other, seen)).fold(0.0, f64::max);
        seen.samples as f64 >= WORKS * most
    };
    let working: Vec<(usize, Seen)> = all
        .iter()
        .copied()
        .enumerate()
        .filter(|&(i, (thread, seen))| {
            let process = threads.process[thread];
            let main = first[&process] == i && works(processes[&process], &mut processes.values().copied());
            main || works(seen, &mut all.iter().map(|(_, other)| *other))
        })
        .map(|(_, thread)| thread)
        .collect();
    let place = |(thread, seen): &(usize, Seen)| {
        let team = working.iter().filter(|(t, other)| t == thread || together(*seen, *other) >= TOGETHER);
        let (mut count, mut rank) = (0, 0);
        for (t, _) in team {
            rank = if t == thread { count } else { rank };
            count += 1;
        }
        assign(count).get(rank).map(|&node| (*thread, node))
    };
    working.iter().filter_map(place).collect()
}

/// Part of a thread's life in which another one lived too; one that was seen once lived for a ns.
fn together(thread: Seen, other: Seen) -> f64 {
    let end = |s: Seen| s.last_ns.saturating_add(1);
    let both = end(thread).min(end(other)).saturating_sub(thread.first_ns.max(other.first_ns));
    both as f64 / (end(thread) - thread.first_ns) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads with so many samples from one time to another, in the order of creation, on two nodes; −1 for those that hardly work.
    fn placed(threads: &[(u64, u64, u64)]) -> Vec<i64> {
        placed_in(&vec![0; threads.len()], threads)
    }

    /// The same of several processes: which one each thread is in.
    fn placed_in(processes: &[u32], threads: &[(u64, u64, u64)]) -> Vec<i64> {
        let order: Vec<usize> = (0..threads.len()).collect();
        let mut table = Threads::default();
        let mut survey = SampleSurvey::default();
        for (id, &(samples, first_ns, last_ns)) in threads.iter().enumerate() {
            table.id.push(id as u32);
            table.process.push(processes[id]);
            survey.threads.push(id as u32);
            survey.seen.push(Seen { samples, first_ns, last_ns });
        }
        let two = |count: usize| (0..count).map(|rank| NodeId::from(rank * 2 >= count)).collect();
        let mut nodes = vec![-1; threads.len()];
        for (thread, node) in super::nodes(&order, &table, &survey, two) {
            nodes[thread] = i64::from(node);
        }
        nodes
    }

    #[test]
    fn a_team_is_spread_in_the_order_of_creation() {
        assert_eq!(
            placed(&[(900, 0, 1000), (400, 500, 990), (410, 510, 1000), (390, 505, 995)]),
            [0, 0, 1, 1]
        );
    }

    #[test]
    fn helpers_that_sleep_take_no_place() {
        let helper = (3, 10, 990);
        assert_eq!(placed(&[(5, 0, 1000), helper, helper, (900, 5, 1000), (880, 6, 998)]), [0, -1, -1, 0, 1]);
    }

    #[test]
    fn a_process_that_starts_others_and_waits_takes_no_place() {
        // A shell and mpirun, and four ranks.
        let (waits, rank) = ((4, 0, 1000), (800, 50, 990));
        assert_eq!(
            placed_in(&[0, 1, 2, 3, 4, 5], &[waits, waits, rank, rank, rank, rank]),
            [-1, -1, 0, 0, 1, 1]
        );
        // The first thread of a process whose others work is there.
        assert_eq!(placed_in(&[0, 1, 1, 1], &[waits, waits, rank, rank]), [-1, 0, 0, 1]);
    }

    #[test]
    fn who_had_ended_takes_no_place() {
        let (first, second) = ((50, 0, 100), (700, 200, 1000));
        assert_eq!(placed(&[first, first, second, second]), [0, 1, 0, 1]);
        // One that is there for a moment is spread with those that it meets, and moves none of them.
        assert_eq!(placed(&[second, (1, 300, 300), second]), [0, 0, 1]);
    }
}
