//! Threads summed by process.

use crate::context::Context;
use crate::counters::Counters;
use crate::hash::FastMap;
use crate::value::ProcessPicture;

/// Most processes, by their shares. // chosen
const MOST: usize = 500;

/// Processes with samples, most first. A process id that ran several programs is one for each.
pub(super) fn processes(context: &Context, counters: &Counters) -> Vec<ProcessPicture> {
    let input = context.input;
    let nodes = context.finder.nodes.count;
    let total = counters.total.weight.max(1) as f64;
    let mut sums: FastMap<u32, (usize, u64, Vec<u64>)> = FastMap::default();
    for (thread, x) in counters.threads.iter().enumerate().filter(|t| t.1.sum.weight > 0) {
        let sum = sums.entry(input.threads.process[thread]).or_insert_with(|| (0, 0, vec![0; nodes]));
        sum.0 += 1;
        sum.1 += x.sum.weight;
        sum.2.iter_mut().zip(&x.by_page_node).for_each(|(to, from)| *to += from);
    }
    let p = &input.processes;
    let mut rows: Vec<ProcessPicture> = (0..p.id.len())
        .filter_map(|i| {
            let (threads, weight, by_page_node) = sums.get(&p.id[i])?;
            Some(ProcessPicture {
                pid: p.pid[i],
                executable: p.executable[i].clone(),
                threads: *threads,
                share: *weight as f64 / total,
                by_page_node: by_page_node.iter().map(|&w| w as f64 / total).collect(),
            })
        })
        .collect();
    rows.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.pid.cmp(&b.pid)));
    rows.truncate(MOST);
    rows
}
