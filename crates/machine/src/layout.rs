//! Where the ranks of a hybrid program (MPI and threads) belong: how many fit on a host, and which cpus
//! each of them gets.
//!
//! A rank owns whole cores, with all their hardware threads, as launchers bind; its threads get one core
//! each. Ranks fill the NUMA nodes evenly, in the order of the nodes, and each stays within one as long
//! as its threads fit there. All hosts are alike, so a layout is that of one host, repeated.

use super::cpulist::{CpuList, NodeList};
use super::select::usable;
use super::{Machine, NodeId};

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Ranks on all hosts together; `None`: one per NUMA node with cpus.
    pub ranks: Option<usize>,
    /// Threads of each rank; `None`: as many as leave no more than the rest of a division idle.
    pub threads: Option<usize>,
    /// Hosts, at least 1.
    pub hosts: usize,
    /// Threads get hardware threads instead of cores.
    pub hwthreads: bool,
    /// Ranks may share cores if there are too few.
    pub oversubscribe: bool,
}

/// A rank and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Its number, over all hosts.
    pub number: usize,
    /// Its host, counted from 0.
    pub host: usize,
    /// The NUMA nodes of its cpus.
    pub nodes: NodeList,
    /// All cpus that it may use.
    pub cpus: CpuList,
    /// How many cores these are.
    pub cores: usize,
}

/// The places of all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// In the order of their numbers; those of a host follow each other.
    pub ranks: Vec<Rank>,
    /// Hosts.
    pub hosts: usize,
    /// Ranks on each host.
    pub per_host: usize,
    /// Threads of each rank.
    pub threads: usize,
    /// Whether every rank has all hardware threads of its cores.
    pub whole_cores: bool,
    /// Whether ranks share cores.
    pub shared: bool,
    /// Ranks on each NUMA node, if "so many on each, so many cores for each" describes the host and
    /// launchers count its nodes and cores as they are counted here.
    pub per_node: Option<usize>,
    /// Each cpu's place in hwloc's order, by which some launchers count: packages, nodes and cores by
    /// their lowest cpu, then the hardware threads of each core.
    pub logical: Vec<u32>,
    /// What should be known about it.
    pub notes: Vec<String>,
}

/// Why the layout is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// No cpu may be used.
    #[error("no cpu to run on: the machine has none, or none of them may be used; nearfar topo shows them")]
    NoCpus,
    /// Hosts get different numbers of ranks.
    #[error("{ranks} ranks do not divide evenly over {hosts} hosts; type {}", either(.repairs))]
    Uneven {
        /// Ranks.
        ranks: usize,
        /// Hosts.
        hosts: usize,
        /// What to type.
        repairs: Vec<String>,
    },
    /// Too few cores.
    #[error("{ranks} of {} need {wanted} on each host; it has {there}. Type {}", count(*threads, "thread"), either(.repairs))]
    TooFew {
        /// `4 ranks`.
        ranks: String,
        /// Threads of each.
        threads: usize,
        /// `8 cores`.
        wanted: String,
        /// `2 cores (cpus 0-1)`.
        there: String,
        /// What to type.
        repairs: Vec<String>,
    },
    /// Enough cores, but not on the same nodes.
    #[error("{ranks} of {} do not fit unless one spans NUMA nodes, which have {there}. Type {}", count(*threads, "thread"), either(.repairs))]
    Split {
        /// `3 ranks`.
        ranks: String,
        /// Threads of each.
        threads: usize,
        /// `6, 6 cores`.
        there: String,
        /// What to type.
        repairs: Vec<String>,
    },
}

/// `1 thread`, `2 threads`.
pub(super) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn either(repairs: &[String]) -> String {
    repairs.join(", or ")
}

/// Cores of a NUMA node.
struct Node {
    id: NodeId,
    cores: Vec<CpuList>,
}

/// Cpus and nodes of a rank.
#[derive(Clone)]
struct Place {
    cpus: CpuList,
    nodes: NodeList,
    cores: usize,
    whole: bool,
}

/// The places of one host's ranks.
struct Found {
    places: Vec<Place>,
    /// Ranks on each node; empty if ranks span nodes.
    counts: Vec<usize>,
    shared: bool,
}

/// The layout that `ask` describes on hosts like `machine`. `allowed`: cpus that may be used, if not all.
///
/// # Errors
/// If the ranks do not fit.
pub fn lay_out(machine: &Machine, allowed: Option<&CpuList>, ask: &Ask) -> Result<Layout, LayoutError> {
    let part = usable(machine, allowed);
    let nodes: Vec<Node> = part.cpu_nodes().map(|n| Node { id: n.id, cores: part.cores_of(n.id) }).collect();
    if nodes.is_empty() {
        return Err(LayoutError::NoCpus);
    }
    let hosts = ask.hosts.max(1);
    let ranks = ask.ranks.unwrap_or(nodes.len() * hosts);
    if ranks == 0 || !ranks.is_multiple_of(hosts) {
        let below = ranks / hosts * hosts;
        let mut repairs = vec![format!("--ranks {}", below + hosts)];
        if below > 0 {
            repairs.insert(0, format!("--ranks {below}"));
        }
        return Err(LayoutError::Uneven { ranks, hosts, repairs });
    }
    let per_host = ranks / hosts;
    let most = nodes.iter().map(|n| room(&n.cores, ask.hwthreads)).max().unwrap_or(1);
    let fits = |threads: usize, hwthreads: bool| find(&nodes, per_host, threads, hwthreads);
    let (threads, found) = match ask.threads {
        Some(threads) => (threads.max(1), fits(threads.max(1), ask.hwthreads)),
        None => {
            // As many as leave the ranks even on the nodes; only if a node is too small for its ranks, others.
            let even = evenly(per_host, &vec![usize::MAX; nodes.len()]);
            let largest = |good: &dyn Fn(&Found) -> bool| {
                (1..=most).rev().find_map(|t| fits(t, ask.hwthreads).filter(good).map(|f| (t, f)))
            };
            match largest(&|f| Some(&f.counts) == even.as_ref()).or_else(|| largest(&|_| true)) {
                Some((threads, found)) => (threads, Some(found)),
                None => (1, None),
            }
        }
    };
    let found = match found {
        Some(found) => found,
        None if ask.oversubscribe => share(&nodes, per_host, threads, ask.hwthreads),
        None => return Err(too_few(&nodes, per_host, threads, ask, &fits)),
    };
    let logical = logical_order(machine);
    let per_node = regular(machine, &part, &found, &logical);
    let notes = notes(&nodes, &found, per_host, threads, hosts);
    let place = |number: usize| {
        let place = &found.places[number % per_host];
        let (nodes, cpus) = (place.nodes.clone(), place.cpus.clone());
        Rank { number, host: number / per_host, nodes, cpus, cores: place.cores }
    };
    Ok(Layout {
        ranks: (0..ranks).map(place).collect(),
        hosts,
        per_host,
        threads,
        whole_cores: found.places.iter().all(|p| p.whole),
        shared: found.shared,
        per_node,
        logical,
        notes,
    })
}

/// Threads that these cores have room for.
fn room(cores: &[CpuList], hwthreads: bool) -> usize {
    if hwthreads { cores.iter().map(CpuList::len).sum() } else { cores.len() }
}

/// Cores one after the other, cut into places for as many threads; what is left over is left.
/// `aligned`: each place begins at a node of its own.
fn places<'a>(
    cores: impl Iterator<Item = (NodeId, &'a CpuList)>,
    threads: usize,
    hwthreads: bool,
    aligned: bool,
) -> Vec<Place> {
    let mut list = Vec::new();
    let mut own: Vec<(NodeId, &CpuList)> = Vec::new();
    let mut last = None;
    for (node, core) in cores {
        if aligned && own.is_empty() && last == Some(node) {
            continue;
        }
        own.push((node, core));
        let have = if hwthreads { own.iter().map(|c| c.1.len()).sum() } else { own.len() };
        if have >= threads {
            list.push(place(&own, threads, hwthreads));
            own.clear();
            last = Some(node);
        }
    }
    list
}

fn place(own: &[(NodeId, &CpuList)], threads: usize, hwthreads: bool) -> Place {
    let all: Vec<u32> = own.iter().flat_map(|c| c.1.iter()).collect();
    let cpus: CpuList = all.iter().copied().take(if hwthreads { threads } else { all.len() }).collect();
    let whole = cpus.len() == all.len();
    Place { cpus, nodes: own.iter().map(|c| c.0).collect(), cores: own.len(), whole }
}

/// Places for all ranks of a host, none shared; `None` if there are too few.
fn find(nodes: &[Node], ranks: usize, threads: usize, hwthreads: bool) -> Option<Found> {
    let by_node = of_nodes(nodes, threads, hwthreads);
    if by_node.iter().any(|places| !places.is_empty()) {
        let rooms: Vec<usize> = by_node.iter().map(Vec::len).collect();
        let counts = evenly(ranks, &rooms)?;
        let places = by_node.iter().zip(&counts).flat_map(|(p, &n)| p[..n].to_vec()).collect();
        return Some(Found { places, counts, shared: false });
    }
    // No node has room for a rank: it takes cores of several, from the first of a node on if that fits.
    [true, false].into_iter().find_map(|aligned| {
        let mut places = places(all(nodes), threads, hwthreads, aligned);
        (places.len() >= ranks).then(|| {
            places.truncate(ranks);
            Found { places, counts: Vec::new(), shared: false }
        })
    })
}

fn all(nodes: &[Node]) -> impl Iterator<Item = (NodeId, &CpuList)> {
    nodes.iter().flat_map(|n| n.cores.iter().map(|c| (n.id, c)))
}

fn of_nodes(nodes: &[Node], threads: usize, hwthreads: bool) -> Vec<Vec<Place>> {
    let own = |n: &Node| places(n.cores.iter().map(|c| (n.id, c)), threads, hwthreads, false);
    nodes.iter().map(own).collect()
}

/// Ranks on each node, one after the other to the one that has fewest and room for more.
fn evenly(ranks: usize, rooms: &[usize]) -> Option<Vec<usize>> {
    let mut counts = vec![0; rooms.len()];
    for _ in 0..ranks {
        let emptiest = (0..rooms.len()).filter(|&i| counts[i] < rooms[i]).min_by_key(|&i| counts[i])?;
        counts[emptiest] += 1;
    }
    Some(counts)
}

/// Places for all ranks, where several have the same.
fn share(nodes: &[Node], ranks: usize, threads: usize, hwthreads: bool) -> Found {
    let by_node = of_nodes(nodes, threads, hwthreads);
    let rooms: Vec<usize> = by_node.iter().map(|p| if p.is_empty() { 0 } else { usize::MAX }).collect();
    if let Some(counts) = evenly(ranks, &rooms) {
        let cycle = |(p, &n): (&Vec<Place>, &usize)| p.iter().cycle().take(n).cloned().collect::<Vec<_>>();
        let places = by_node.iter().zip(&counts).flat_map(cycle).collect();
        return Found { places, counts, shared: true };
    }
    let mut own = places(all(nodes), threads, hwthreads, false);
    if own.is_empty() {
        // Not even one rank has a cpu for each thread.
        let cores: Vec<(NodeId, &CpuList)> = all(nodes).collect();
        own.push(place(&cores, usize::MAX, hwthreads));
    }
    let shared = ranks > 1 || own[0].cpus.len() < threads;
    Found { places: own.iter().cycle().take(ranks).cloned().collect(), counts: Vec::new(), shared }
}

fn too_few(
    nodes: &[Node],
    ranks: usize,
    threads: usize,
    ask: &Ask,
    fits: &dyn Fn(usize, bool) -> Option<Found>,
) -> LayoutError {
    let mut repairs = Vec::new();
    // More than there are need not be tried.
    let cpus: CpuList = all(nodes).flat_map(|c| c.1.iter()).collect();
    let below = |number: usize| (1..number.min(cpus.len() + 1)).rev();
    if let Some(fewer) = below(threads).find(|&t| fits(t, ask.hwthreads).is_some()) {
        repairs.push(format!("--threads {fewer}"));
    }
    let most = below(ranks).find(|&n| find(nodes, n, threads, ask.hwthreads).is_some());
    if let Some(fewer) = most {
        repairs.push(format!("--ranks {}", fewer * ask.hosts.max(1)));
    }
    if !ask.hwthreads && fits(threads, true).is_some() {
        repairs.push("--hwthreads to use every hardware thread".to_owned());
    }
    repairs.push("--oversubscribe to let them share cores".to_owned());
    let (what, there) = match ask.hwthreads {
        true => ("hardware thread", all(nodes).map(|c| c.1.len()).sum()),
        false => ("core", all(nodes).count()),
    };
    let wanted = ranks.saturating_mul(threads);
    let ranks = count(ranks, "rank");
    if wanted <= there {
        let list: Vec<String> = nodes.iter().map(|n| room(&n.cores, ask.hwthreads).to_string()).collect();
        return LayoutError::Split { ranks, threads, there: format!("{} {what}s", list.join(", ")), repairs };
    }
    let there = format!("{} (cpus {cpus})", count(there, what));
    LayoutError::TooFew { ranks, threads, wanted: count(wanted, what), there, repairs }
}

/// hwloc's order of cpus (its "logical index"): children of each object by their lowest cpu.
fn logical_order(machine: &Machine) -> Vec<u32> {
    let lowest = |package: Option<u32>| {
        machine.nodes.iter().filter(|n| n.package == package).filter_map(|n| n.cpus.first()).min()
    };
    let mut nodes: Vec<_> = machine.cpu_nodes().collect();
    let key = |n: &&super::NumaNode| {
        (n.package.map_or_else(|| n.cpus.first(), |_| lowest(n.package)), n.cpus.first())
    };
    nodes.sort_by_key(key);
    nodes.iter().flat_map(|n| machine.cores_of(n.id)).flat_map(|c| c.iter().collect::<Vec<_>>()).collect()
}

/// See [`Layout::per_node`]. Launchers divide what the whole host has, so nothing of it may be withheld.
fn regular(machine: &Machine, part: &Machine, found: &Found, logical: &[u32]) -> Option<usize> {
    let &first = found.counts.first()?;
    let alike = found.counts.iter().all(|&n| n == first)
        && found.places.iter().all(|p| p.whole && p.cores == found.places[0].cores);
    let no_memory_only = machine.nodes.iter().all(|n| !n.cpus.is_empty());
    // Ranks in the order of the nodes are ranks in hwloc's order.
    let at = |p: &Place| p.cpus.first().and_then(|cpu| logical.iter().position(|&c| c == cpu));
    let in_order = found.places.windows(2).all(|pair| at(&pair[0]) < at(&pair[1]));
    (alike && no_memory_only && in_order && !found.shared && machine.nodes == part.nodes).then_some(first)
}

fn notes(nodes: &[Node], found: &Found, ranks: usize, threads: usize, hosts: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if found.counts.is_empty() && found.places.iter().any(|p| p.nodes.len() > 1) {
        let largest = nodes.iter().map(|n| n.cores.len()).max().unwrap_or(0);
        notes.push(format!(
            "no NUMA node has room for {}: ranks span nodes, and their threads share memory that is far from \
             some of them; --threads {largest} keeps each within one",
            count(threads, "thread")
        ));
    }
    let idle: CpuList =
        nodes.iter().map(|n| n.id).filter(|&id| !found.places.iter().any(|p| p.nodes.contains(id))).collect();
    if !idle.is_empty() {
        notes.push(format!("no rank runs on NUMA node {idle}: its cores and bandwidth stay idle"));
    }
    if found.shared {
        let cores = nodes.iter().map(|n| n.cores.len()).sum();
        notes.push(format!(
            "{} of {} share {}, as --oversubscribe allows: they wait for each other",
            count(ranks, "rank"),
            count(threads, "thread"),
            count(cores, "core")
        ));
    }
    if hosts > 1 {
        notes.push(format!("each of the {hosts} hosts is taken to be like this machine"));
    }
    notes
}
