//! A machine with fewer cores per node, so that a small computer can emulate it.
//!
//! What cores share shrinks with them: memory bandwidth, links, the size of
//! shared caches. What belongs to one core (private caches, clock) and what
//! does not depend on their number (latencies) stays. So a thread of the scaled
//! machine finds the same cache and bandwidth per thread as on the whole one, and
//! ratios of times carry over. Times themselves do for a problem that is
//! smaller by the same factor.

use super::cpulist::CpuList;
use super::figures::{Figure, Figures, Matrix, NodeBandwidth, TimeFigures};
use super::{CacheLevel, Machine, NodeId, NumaNode};

/// What to keep of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScaleOptions {
    /// Cpus that each node with cpus keeps; `None` for all of its cores.
    pub cpus_per_node: Option<u32>,
    /// Whether to keep the hardware threads of a core; otherwise one per core.
    pub smt: bool,
    /// Whether the firmware should spread memory over all nodes ("non-NUMA mode").
    pub interleaved: bool,
}

/// Why a machine cannot be scaled so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScaleError {
    /// Zero cpus per node.
    #[error("a node cannot keep 0 cpus; give --cpus-per-node 1 or more, or leave it out to keep all {most}")]
    Zero {
        /// How many the smallest node has.
        most: u32,
    },
    /// More than a node has.
    #[error(
        "node {node} of {machine} has {has} {what}, so --cpus-per-node {asked} is too many; give at most {has}"
    )]
    More {
        /// The machine.
        machine: String,
        /// The first node that has too few.
        node: NodeId,
        /// What it has.
        has: u32,
        /// What was asked for.
        asked: u32,
        /// Cores or hardware threads.
        what: &'static str,
    },
    /// Whole cores cannot give this number of cpus.
    #[error(
        "with hardware threads, a core of {machine} has {threads} cpus, and {asked} is not a multiple of \
         that; give --cpus-per-node {below} or {above}"
    )]
    NotWholeCores {
        /// The machine.
        machine: String,
        /// Threads per core.
        threads: u32,
        /// What was asked for.
        asked: u32,
        /// The next smaller possible number, or the smallest there is.
        below: u32,
        /// The next larger possible number.
        above: u32,
    },
    /// Hardware threads of a machine that has none.
    #[error(
        "hardware threads are asked for, but {0} has one per core, or its file does not say: \
         `threads_per_core = 2` in [topology] would"
    )]
    NoThreads(String),
    /// A node whose cpus are not whole cores.
    #[error(
        "node {node} of {machine} has {cpus} cpus, which are not whole cores of {threads} threads; \
         correct `threads_per_core` in [topology], or list the `cores`"
    )]
    BrokenCores {
        /// The machine.
        machine: String,
        /// The node.
        node: NodeId,
        /// Its cpus.
        cpus: u32,
        /// Threads per core.
        threads: u32,
    },
    /// No node has cpus.
    #[error("{0} has no cpus; a [[node]] needs `cpus = \"0-3\"` or the like")]
    NoCpus(String),
    /// Firmware interleaving where it does not exist.
    #[error("the memory of {machine} cannot be interleaved by its firmware: {why}")]
    NotInterleaved {
        /// The machine.
        machine: String,
        /// Why not.
        why: String,
    },
}

/// Cores kept and had, of a node or of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ratio {
    kept: u32,
    had: u32,
}

impl Ratio {
    fn of(self, figure: &Figure) -> Figure {
        if self.kept == self.had {
            return figure.clone();
        }
        Figure { value: self.value() * figure.value, source: self.note(&figure.source), ..*figure }
    }

    fn value(self) -> f64 {
        f64::from(self.kept) / f64::from(self.had)
    }

    fn note(self, source: &str) -> String {
        format!("{source}; scaled {}/{}", self.kept, self.had)
    }
}

/// The machine with fewer cores per node. Cpus are numbered anew, node by node,
/// a core's threads side by side; nodes keep their numbers and memory.
pub fn scale(machine: &Machine, options: &ScaleOptions) -> Result<Machine, ScaleError> {
    let threads = if options.smt { smt(machine)? } else { 1 };
    let had = cores(machine)?;
    let kept = keep(machine, options, threads, &had)?;
    interleavable(machine, options.interleaved)?;
    let ratios = Ratios::new(&had, &kept);
    let changed = had != kept;

    let mut nodes = machine.nodes.clone();
    let mut next = 0;
    let mut threads_of_cores = Vec::new();
    for (node, &cores) in nodes.iter_mut().zip(&kept) {
        node.cpus = (next..next + cores * threads).collect();
        if threads > 1 {
            threads_of_cores
                .extend((0..cores).map(|c| next + c * threads).map(|c| CpuList::from(c..=c + threads - 1)));
        }
        next += cores * threads;
    }
    let (caches, cache_figures) = scaled_caches(machine, &had, &kept);
    let f = &machine.figures;
    Ok(Machine {
        name: format!("{}{}", machine.name, suffix(machine, options, threads, &had, &kept)),
        distances: machine.distances.clone(),
        caches,
        threads_per_core: threads,
        figures: Figures {
            cores: threads_of_cores,
            topology: f.topology.clone().map(|mut p| {
                if changed {
                    p.source = ratios.all.note(&p.source);
                }
                p
            }),
            interleaved: f.interleaved || options.interleaved,
            caches: cache_figures,
            pair_read_gbs: f.pair_read_gbs.as_ref().map(|m| ratios.matrix(m)),
            bandwidth: ratios.bandwidth(machine),
            links: f
                .links
                .iter()
                .map(|l| {
                    let ratio = ratios.between(machine, l.from, l.to);
                    let gbs_per_direction = ratio.of(&l.gbs_per_direction);
                    super::figures::Link { gbs_per_direction, ..l.clone() }
                })
                .collect(),
            time: TimeFigures {
                remote_lines: f.time.remote_lines.as_ref().map(|lines| ratios.all.of(lines)),
                ..f.time.clone()
            },
            ..f.clone()
        },
        nodes,
    })
}

fn smt(machine: &Machine) -> Result<u32, ScaleError> {
    let listed = machine.figures.cores.iter().map(CpuList::len).max().unwrap_or(0) as u32;
    match machine.threads_per_core.max(listed) {
        0 | 1 => Err(ScaleError::NoThreads(machine.name.clone())),
        threads => Ok(threads),
    }
}

/// Number of cores of each node.
fn cores(machine: &Machine) -> Result<Vec<u32>, ScaleError> {
    if machine.cpu_nodes().next().is_none() {
        return Err(ScaleError::NoCpus(machine.name.clone()));
    }
    let count = |node: &NumaNode| {
        let threads = machine.threads_per_core.max(1);
        let cpus = node.cpus.len() as u32;
        if machine.figures.cores.is_empty() && !cpus.is_multiple_of(threads) {
            let machine = machine.name.clone();
            return Err(ScaleError::BrokenCores { machine, node: node.id, cpus, threads });
        }
        Ok(machine.cores_of(node.id).len() as u32)
    };
    machine.nodes.iter().map(count).collect()
}

/// Number of cores that each node keeps.
fn keep(
    machine: &Machine,
    options: &ScaleOptions,
    threads: u32,
    had: &[u32],
) -> Result<Vec<u32>, ScaleError> {
    let Some(asked) = options.cpus_per_node else {
        return Ok(had.to_vec());
    };
    if asked == 0 {
        let most = had.iter().filter(|&&h| h > 0).min().copied().unwrap_or(0) * threads;
        return Err(ScaleError::Zero { most });
    }
    if !asked.is_multiple_of(threads) {
        let below = (asked / threads).max(1) * threads;
        let above = asked.div_ceil(threads) * threads;
        return Err(ScaleError::NotWholeCores {
            machine: machine.name.clone(),
            threads,
            asked,
            below,
            above,
        });
    }
    let cores = asked / threads;
    for (node, &has) in machine.nodes.iter().zip(had) {
        if has > 0 && has < cores {
            return Err(ScaleError::More {
                machine: machine.name.clone(),
                node: node.id,
                has: has * threads,
                asked,
                what: if threads > 1 { "hardware threads" } else { "cores" },
            });
        }
    }
    Ok(had.iter().map(|&h| h.min(cores)).collect())
}

fn interleavable(machine: &Machine, asked: bool) -> Result<(), ScaleError> {
    if !asked {
        return Ok(());
    }
    let fail = |why: String| Err(ScaleError::NotInterleaved { machine: machine.name.clone(), why });
    if machine.nodes.len() < 2 {
        return fail("it has one node".into());
    }
    match machine.nodes.iter().find(|n| n.cpus.is_empty()) {
        Some(node) => fail(format!("node {} has no cpus, and firmware interleaves sockets only", node.id)),
        None => Ok(()),
    }
}

fn suffix(machine: &Machine, options: &ScaleOptions, threads: u32, had: &[u32], kept: &[u32]) -> String {
    let mut text = String::new();
    if had != kept {
        let counts: Vec<u32> = had.iter().copied().filter(|&h| h > 0).collect();
        let (least, most) = (counts.iter().min().unwrap_or(&0), counts.iter().max().unwrap_or(&0));
        let of = if least == most { least.to_string() } else { format!("{least} to {most}") };
        let to = kept.iter().max().unwrap_or(&0);
        text.push_str(&format!(", scaled to {to} of {of} cores per node"));
    }
    if threads > 1 {
        text.push_str(&format!(", {threads} threads per core"));
    } else if machine.threads_per_core > 1 {
        text.push_str(", one thread per core");
    }
    if options.interleaved && !machine.figures.interleaved {
        text.push_str(", memory interleaved by firmware");
    }
    text
}

/// By how much each node, and what joins nodes, shrinks.
struct Ratios {
    nodes: Vec<Ratio>,
    all: Ratio,
}

impl Ratios {
    fn new(had: &[u32], kept: &[u32]) -> Ratios {
        let all = Ratio { kept: kept.iter().sum(), had: had.iter().sum() };
        // Memory without cpus is shared by all of them.
        let node = |(&had, &kept): (&u32, &u32)| if had == 0 { all } else { Ratio { kept, had } };
        Ratios { nodes: had.iter().zip(kept).map(node).collect(), all }
    }

    fn node(&self, machine: &Machine, node: NodeId) -> Ratio {
        machine.position(node).map_or(self.all, |at| self.nodes[at])
    }

    /// Of a link: it serves the cores at both ends.
    fn between(&self, machine: &Machine, a: NodeId, b: NodeId) -> Ratio {
        let (a, b) = (self.node(machine, a), self.node(machine, b));
        if a == b { a } else { Ratio { kept: a.kept + b.kept, had: a.had + b.had } }
    }

    fn matrix(&self, matrix: &Matrix) -> Matrix {
        let mut scaled = matrix.clone();
        for (row, ratio) in scaled.rows.iter_mut().zip(&self.nodes) {
            for cell in row {
                cell.0 = cell.0.map(|v| if ratio.kept == ratio.had { v } else { v * ratio.value() });
            }
        }
        if self.all.kept != self.all.had {
            scaled.source = self.all.note(&matrix.source);
        }
        scaled
    }

    /// One entry per group of nodes that shrink alike.
    fn bandwidth(&self, machine: &Machine) -> Vec<NodeBandwidth> {
        let mut scaled = Vec::new();
        for b in &machine.figures.bandwidth {
            let mut left: Vec<NodeId> = b.nodes.iter().collect();
            while let Some(&first) = left.first() {
                let ratio = self.node(machine, first);
                let alike = |n: &NodeId| {
                    let other = self.node(machine, *n);
                    other.kept * ratio.had == ratio.kept * other.had
                };
                let figure = |f: &Option<Figure>| f.as_ref().map(|f| ratio.of(f));
                scaled.push(NodeBandwidth {
                    nodes: left.iter().copied().filter(alike).collect(),
                    peak_gbs: figure(&b.peak_gbs),
                    read_gbs: figure(&b.read_gbs),
                    update_gbs: figure(&b.update_gbs),
                    triad_gbs: figure(&b.triad_gbs),
                });
                left.retain(|n| !alike(n));
            }
        }
        scaled
    }
}

/// Shared caches: as many cores per instance as share one on the scaled machine,
/// and their part of its size.
fn scaled_caches(
    machine: &Machine,
    had: &[u32],
    kept: &[u32],
) -> (Vec<CacheLevel>, Vec<super::figures::CacheFigures>) {
    let mut levels = machine.caches.clone();
    let mut figures = machine.figures.caches.clone();
    let line = f64::from(machine.figures.line());
    for (i, level) in levels.iter_mut().enumerate() {
        let sharers = sharers(level.cores_per_instance, had, kept);
        let ratio = Ratio { kept: sharers, had: level.cores_per_instance };
        if ratio.kept == ratio.had || ratio.had == 0 {
            continue;
        }
        // Whole sets, at least one.
        let set = line * f64::from(level.ways.unwrap_or(1).max(1));
        let bytes = ((level.size_bytes as f64 * ratio.value() / set).floor() * set).max(set);
        level.size_bytes = bytes as u64;
        level.cores_per_instance = sharers;
        if let Some(f) = figures.get_mut(i).filter(|f| f.level == level.level) {
            f.cores_per_instance = sharers;
            f.size_bytes = Figure { value: bytes, ..ratio.of(&f.size_bytes) };
            f.read_gbs = f.read_gbs.as_ref().map(|f| ratio.of(f));
            f.write_gbs = f.write_gbs.as_ref().map(|f| ratio.of(f));
        }
    }
    (levels, figures)
}

/// Cores that share an instance on the scaled machine. Instances must stay alike,
/// so where the cores kept do not fill whole ones, more instances share fewer: 12
/// cores kept of complexes of 8 become two complexes of 6. The size per core stays.
fn sharers(shared_by: u32, had: &[u32], kept: &[u32]) -> u32 {
    let nodes = had.iter().zip(kept).filter(|&(&had, _)| had > 0);
    nodes
        .map(|(&had, &kept)| {
            if kept == had {
                shared_by
            } else if shared_by >= had {
                // The whole node, or several nodes of a socket.
                (shared_by / had).max(1) * kept
            } else {
                (1..=shared_by.min(kept)).rev().find(|&n| kept.is_multiple_of(n)).unwrap_or(1)
            }
        })
        .min()
        .unwrap_or(shared_by)
}
