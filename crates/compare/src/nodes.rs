//! Which node of the second recording is which of the first. Two runs may have their sockets' roles
//! exchanged: the same thing happened, on the other side.

use nearfar_analyze::Report;

/// Most nodes of which all renumberings are tried.
const ALL: usize = 6;
/// A renumbering must leave at most this part of the difference that stays without it …
const BETTER: f64 = 0.5;
/// … and save this much of it, of at most 4: else the numbers are taken as they are. // chosen
const WORTH: f64 = 0.2;

/// What a recording looks like, node by node.
struct Look {
    /// Traffic or samples between cpus of a node and memory of a node, parts of 1.
    matrix: Vec<Vec<f64>>,
    /// Threads, parts of 1.
    threads: Vec<f64>,
    /// Nodes with cpus, as far as they were used.
    cpus: Vec<bool>,
}

/// For each node of the first report the place of its counterpart in the second; `None` if they have
/// different numbers of nodes.
pub fn renumber(before: &Report, after: &Report) -> Option<Vec<usize>> {
    let n = before.machine.node_ids.len();
    if n != after.machine.node_ids.len() {
        return None;
    }
    let same: Vec<usize> = (0..n).collect();
    let (mut b, mut a) = (look(before, after), look(after, before));
    if before.machine.name == after.machine.name && before.machine.node_ids == after.machine.node_ids {
        // What one of them used is there for both.
        let both: Vec<bool> = b.cpus.iter().zip(&a.cpus).map(|(x, y)| *x || *y).collect();
        (b.cpus, a.cpus) = (both.clone(), both);
    }
    let stays = cost(&b, &a, &same);
    let mut best = (stays, same.clone());
    if n <= ALL {
        each(&mut Vec::new(), n, &mut |p| {
            let c = cost(&b, &a, p);
            if c < best.0 - 1e-9 {
                best = (c, p.to_vec());
            }
        });
    } else {
        exchange(&b, &a, &mut best);
    }
    Some(if best.0 <= BETTER * stays && stays - best.0 >= WORTH { best.1 } else { same })
}

/// Exchanges two nodes as long as that helps.
fn exchange(b: &Look, a: &Look, best: &mut (f64, Vec<usize>)) {
    let n = best.1.len();
    loop {
        let now = best.0;
        for (i, j) in (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))) {
            let mut p = best.1.clone();
            p.swap(i, j);
            let c = cost(b, a, &p);
            if c < best.0 - 1e-9 {
                *best = (c, p);
            }
        }
        if best.0 >= now {
            return;
        }
    }
}

/// All orders of 0..n.
fn each(chosen: &mut Vec<usize>, n: usize, take: &mut impl FnMut(&[usize])) {
    if chosen.len() == n {
        return take(chosen);
    }
    for i in 0..n {
        if !chosen.contains(&i) {
            chosen.push(i);
            each(chosen, n, take);
            chosen.pop();
        }
    }
}

/// How different they look if node `i` of the first is node `p[i]` of the second.
fn cost(b: &Look, a: &Look, p: &[usize]) -> f64 {
    let mut sum = 0.0;
    for (i, &pi) in p.iter().enumerate() {
        if b.cpus[i] != a.cpus[pi] {
            return f64::INFINITY;
        }
        sum += (b.threads[i] - a.threads[pi]).abs();
        for (j, &pj) in p.iter().enumerate() {
            sum += (b.matrix[i][j] - a.matrix[pi][pj]).abs();
        }
    }
    sum
}

fn look(report: &Report, other: &Report) -> Look {
    let ids = &report.machine.node_ids;
    let counted = report.counters.is_some() && other.counters.is_some();
    let matrix = parts(matrix(report, counted));
    let threads: Vec<usize> = ids.iter().map(|id| threads(report, *id)).collect();
    let counted =
        |id: &u32| report.counters.as_ref().is_some_and(|c| c.cpus.iter().any(|x| x.node == Some(*id)));
    let cpus = ids.iter().zip(&threads).map(|(id, t)| *t > 0 || counted(id)).collect();
    let all = threads.iter().sum::<usize>().max(1) as f64;
    Look { matrix, threads: threads.iter().map(|&t| t as f64 / all).collect(), cpus }
}

/// Threads that run on a node.
pub fn threads(report: &Report, node: u32) -> usize {
    report.threads.iter().filter(|t| t.node == Some(node)).count()
}

/// Rows: node of the cpus; columns: node of the memory; bytes if they were counted, else shares of samples.
pub fn matrix(report: &Report, counted: bool) -> Vec<Vec<f64>> {
    let ids = &report.machine.node_ids;
    let n = ids.len();
    let mut m = vec![vec![0.0; n]; n];
    match report.counters.as_ref().filter(|_| counted) {
        Some(c) => {
            let at = |id: u32| ids.iter().position(|x| *x == id);
            for d in &c.dram {
                if let (Some(i), Some(j)) = (at(d.from), at(d.page_node)) {
                    m[i][j] += (d.read_bytes + d.write_bytes) as f64;
                }
            }
        }
        None => {
            for (row, found) in m.iter_mut().zip(&report.node_matrix) {
                row.iter_mut().zip(found).for_each(|(x, y)| *x = *y);
            }
        }
    }
    m
}

fn parts(mut matrix: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let all: f64 = matrix.iter().flatten().sum();
    if all > 0.0 {
        matrix.iter_mut().flatten().for_each(|x| *x /= all);
    }
    matrix
}
