//! What was asked of each rank beside what was seen of it.

use super::rank::{Look, RankSeen};
use nearfar_figures::columns;
use nearfar_figures::sizes::size;
use nearfar_machine::cpulist::{CpuList, NodeList, RankList};
use nearfar_machine::launch::Launcher;
use nearfar_machine::layout::{Layout, Rank};
use nearfar_machine::{Machine, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Share of a rank's own memory that may be elsewhere. Chosen: what a program inherits, its stack and what
/// libraries allocate before threads are bound is below it, an array on the wrong node is above.
const ELSEWHERE: f64 = 0.05;
/// Lines of one kind before "and so many more".
const LINES: usize = 8;

/// What became of a layout.
pub struct Verdict {
    /// One line per rank, and a heading.
    pub table: String,
    /// What is wrong or unknown, each with its repair.
    pub errors: Vec<String>,
}

/// Compares.
pub fn judge(
    layout: &Layout,
    machine: &Machine,
    launcher: Launcher,
    seen: &BTreeMap<usize, RankSeen>,
) -> Verdict {
    let mut errors = Vec::new();
    unseen(layout, seen, &mut errors);
    hosts(layout, seen, &mut errors);
    wrong_cpus(layout, launcher, seen, &mut errors);
    if !layout.shared {
        sharing(machine, launcher, seen, &mut errors);
    }
    far_memory(machine, seen, &mut errors);
    Verdict { table: table(layout, machine, seen), errors }
}

/// Lines in columns; the last column is as wide as it is.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |at: usize| rows.iter().filter_map(|r| r.get(at)).map(|c| columns::columns(c)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &w)| columns::left(cell, w)).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn table(layout: &Layout, machine: &Machine, seen: &BTreeMap<usize, RankSeen>) -> String {
    let heading = ["rank", "host", "pid", "NUMA node", "may run on", "threads", "own memory"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let unknown = || "unknown".to_owned();
    for rank in &layout.ranks {
        let mut row = vec![rank.number.to_string()];
        match seen.get(&rank.number) {
            None => row.extend((1..heading.len()).map(|_| unknown())),
            Some(seen) => {
                let cpus = seen.look.as_ref().map_or(&seen.given, |look| &look.allowed);
                row.extend([seen.host.clone(), seen.pid.to_string(), nodes_of(cpus, machine).to_string()]);
                row.push(cpus.to_string());
                row.push(seen.look.as_ref().map_or_else(unknown, |l| l.threads.to_string()));
                row.push(memory(seen, machine));
            }
        }
        rows.push(row);
    }
    columns(&rows)
}

fn nodes_of(cpus: &CpuList, machine: &Machine) -> NodeList {
    cpus.iter().filter_map(|c| machine.node_of_cpu(c)).collect()
}

/// `98.2 % near: 120 MiB on node 0, 2.2 MiB on node 1`.
fn memory(seen: &RankSeen, machine: &Machine) -> String {
    match &seen.look {
        Some(_) if seen.host_nodes == 1 => "near: the host has one node".to_owned(),
        Some(Look { own: Some(own), allowed, .. }) if own.values().sum::<u64>() > 0 => {
            let list: Vec<String> = own.iter().map(|(n, &b)| format!("{} on node {n}", size(b))).collect();
            let share = 100.0 * (1.0 - elsewhere(own, &nodes_of(allowed, machine)));
            format!("{share:.1} % near: {}", list.join(", "))
        }
        _ => "unknown".to_owned(),
    }
}

fn elsewhere(own: &BTreeMap<NodeId, u64>, nodes: &NodeList) -> f64 {
    let all: u64 = own.values().sum();
    let far: u64 = own.iter().filter(|(n, _)| !nodes.contains(**n)).map(|(_, b)| b).sum();
    far as f64 / all.max(1) as f64
}

/// At most [`LINES`] of them, the rest as a number.
fn some(lines: Vec<String>, errors: &mut Vec<String>) {
    let more = lines.len().saturating_sub(LINES);
    errors.extend(lines.into_iter().take(LINES));
    if more > 0 {
        errors.push(format!("and {more} more of this kind"));
    }
}

fn unseen(layout: &Layout, seen: &BTreeMap<usize, RankSeen>, errors: &mut Vec<String>) {
    let ranks = |wanted: &dyn Fn(Option<&RankSeen>) -> bool| -> RankList {
        layout.ranks.iter().filter(|r| wanted(seen.get(&r.number))).map(|r| r.number as u32).collect()
    };
    let silent = ranks(&|seen| seen.is_none());
    if !silent.is_empty() {
        errors.push(format!(
            "{} told nothing, so where they ran is unknown: they did not start, or their host does not see the \
             folder that they write to. Run from a folder that all hosts share, with nearfar installed on each",
            name(&silent)
        ));
    }
    let short = ranks(&|seen| seen.is_some_and(|s| s.look.is_none()));
    if !short.is_empty() {
        errors.push(format!(
            "{} ended before they could be looked at: their threads and memory are unknown. Give the program more to \
             do",
            name(&short)
        ));
    }
    let dark = ranks(&|seen| {
        seen.is_some_and(|s| s.host_nodes != 1 && s.look.as_ref().is_some_and(|l| l.own.is_none()))
    });
    if !dark.is_empty() {
        errors.push(format!(
            "where the memory of {} is, is unknown: the kernel does not show /proc/PID/numa_maps. Run it as the \
             program's own user on a kernel with CONFIG_NUMA",
            name(&dark)
        ));
    }
}

/// `rank 3`, `ranks 0-1`.
fn name(ranks: &RankList) -> String {
    if ranks.len() == 1 { format!("rank {ranks}") } else { format!("ranks {ranks}") }
}

fn hosts(layout: &Layout, seen: &BTreeMap<usize, RankSeen>, errors: &mut Vec<String>) {
    let mut lines = Vec::new();
    for host in 0..layout.hosts {
        let own = layout.ranks.iter().filter(|r| r.host == host).filter_map(|r| seen.get(&r.number));
        let names: BTreeSet<&str> = own.map(|s| s.host.as_str()).collect();
        if names.len() > 1 {
            let first = host * layout.per_host;
            let names: Vec<&str> = names.into_iter().collect();
            lines.push(format!(
                "ranks {first}-{} were to be on one host and are on {}: give each host {} slots (hostfile, \
                 allocation)",
                first + layout.per_host - 1,
                names.join(", "),
                layout.per_host
            ));
        }
    }
    some(lines, errors);
}

fn wrong_cpus(
    layout: &Layout,
    launcher: Launcher,
    seen: &BTreeMap<usize, RankSeen>,
    errors: &mut Vec<String>,
) {
    let mut lines = Vec::new();
    for (rank, seen) in pairs(layout, seen) {
        let number = rank.number;
        if seen.given != rank.cpus {
            lines.push(format!(
                "rank {number} was given cpus {} by the launcher, asked for were {}: {}",
                seen.given,
                rank.cpus,
                launcher.repair()
            ));
        } else if let Some(look) = &seen.look
            && look.allowed.iter().any(|c| !rank.cpus.contains(c))
        {
            lines.push(format!(
                "rank {number} may run on cpus {} after {:.1} s, asked for were {}: the program, its runtime or a \
                 wrapper has overruled the launcher. Take taskset, numactl and calls of sched_setaffinity out of it, \
                 and unset GOMP_CPU_AFFINITY and KMP_AFFINITY",
                look.allowed, look.at, rank.cpus
            ));
        }
    }
    some(lines, errors);
}

fn pairs<'a>(
    layout: &'a Layout,
    seen: &'a BTreeMap<usize, RankSeen>,
) -> impl Iterator<Item = (&'a Rank, &'a RankSeen)> {
    layout.ranks.iter().filter_map(|rank| Some((rank, seen.get(&rank.number)?)))
}

fn sharing(
    machine: &Machine,
    launcher: Launcher,
    seen: &BTreeMap<usize, RankSeen>,
    errors: &mut Vec<String>,
) {
    let cores: Vec<CpuList> = machine.nodes.iter().flat_map(|n| machine.cores_of(n.id)).collect();
    // A cpu that the machine does not have is a core of its own.
    let core = |cpu: u32| cores.iter().find(|c| c.contains(cpu)).and_then(CpuList::first).unwrap_or(cpu);
    let mut owners: BTreeMap<(&str, u32), Vec<usize>> = BTreeMap::new();
    for (&number, seen) in seen {
        let cpus = seen.look.as_ref().map_or(&seen.given, |look| &look.allowed);
        let own: BTreeSet<u32> = cpus.iter().map(core).collect();
        own.into_iter().for_each(|c| owners.entry((&seen.host, c)).or_default().push(number));
    }
    // Ranks that share the same cores make one line.
    let mut groups: BTreeMap<(&str, Vec<usize>), Vec<u32>> = BTreeMap::new();
    for ((host, first), ranks) in owners.into_iter().filter(|(_, ranks)| ranks.len() > 1) {
        groups.entry((host, ranks)).or_default().push(first);
    }
    let given_too = |ranks: &[usize], firsts: &[u32]| {
        let owners = |first: u32| {
            ranks.iter().filter(|rank| seen[rank].given.iter().any(|c| core(c) == first)).count()
        };
        firsts.iter().any(|&first| owners(first) > 1)
    };
    let line = |((host, ranks), firsts): (&(&str, Vec<usize>), &Vec<u32>)| {
        let repair = match given_too(ranks, firsts) {
            true => launcher.repair(),
            false => {
                "the launcher had kept them apart, the programs left the cpus that it gave them, see above"
            }
        };
        let ranks: RankList = ranks.iter().map(|&r| r as u32).collect();
        let cpus: CpuList = firsts.iter().copied().collect();
        format!("{} share the cores of cpus {cpus} on {host}: {repair}", name(&ranks))
    };
    some(groups.iter().map(line).collect(), errors);
}

fn far_memory(machine: &Machine, seen: &BTreeMap<usize, RankSeen>, errors: &mut Vec<String>) {
    let mut lines = Vec::new();
    for (number, seen) in seen {
        let Some(Look { own: Some(own), allowed, at, .. }) = &seen.look else { continue };
        let nodes = nodes_of(allowed, machine);
        let far = elsewhere(own, &nodes);
        if far > ELSEWHERE {
            let at_nodes: NodeList = own.keys().copied().filter(|n| !nodes.contains(*n)).collect();
            lines.push(format!(
                "rank {number} has {:.1} % of its memory on NUMA node {at_nodes} after {at:.1} s and its cpus on node \
                 {nodes}: start it with `nearfar run --localalloc -- ` before the program if a policy does that; \
                 `nearfar record` finds who placed the pages",
                100.0 * far
            ));
        }
    }
    some(lines, errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_machine::cpulist::IndexList;
    use nearfar_machine::layout::{Ask, lay_out};

    fn list<T>(text: &str) -> IndexList<T> {
        text.parse().unwrap()
    }

    fn ask() -> Ask {
        Ask { ranks: Some(2), threads: Some(2), hosts: 1, hwthreads: false, oversubscribe: false }
    }

    /// Two ranks on two nodes of two cores, as they should be.
    fn good() -> (Machine, Layout, BTreeMap<usize, RankSeen>) {
        let machine = Machine::from_shape("2x2").unwrap();
        let layout = lay_out(&machine, None, &ask()).unwrap();
        let seen = |rank: usize| RankSeen {
            rank,
            host: "a".into(),
            pid: 100 + rank as u32,
            given: layout.ranks[rank].cpus.clone(),
            host_nodes: 2,
            look: Some(Look {
                at: 1.0,
                threads: 2,
                allowed: layout.ranks[rank].cpus.clone(),
                own: Some(BTreeMap::from([(rank as u32, 97 << 20), (1 - rank as u32, 3 << 20)])),
            }),
        };
        let seen = BTreeMap::from([(0, seen(0)), (1, seen(1))]);
        (machine, layout, seen)
    }

    fn errors(change: impl Fn(&mut BTreeMap<usize, RankSeen>)) -> String {
        let (machine, layout, mut seen) = good();
        change(&mut seen);
        judge(&layout, &machine, Launcher::OpenMpi4, &seen).errors.join("\n")
    }

    #[test]
    fn what_is_as_asked_is_no_error() {
        let (machine, layout, seen) = good();
        let verdict = judge(&layout, &machine, Launcher::OpenMpi4, &seen);
        assert_eq!(verdict.errors, [""; 0]);
        assert_eq!(
            verdict.table,
            "rank  host  pid  NUMA node  may run on  threads  own memory\n\
             0     a     100  0          0-1         2        97.0 % near: 97.0 MiB on node 0, 3.0 MiB on node 1\n\
             1     a     101  1          2-3         2        97.0 % near: 3.0 MiB on node 0, 97.0 MiB on node 1\n"
        );
        // A runtime that pins its threads within the rank's cpus follows its settings.
        assert_eq!(errors(|seen| seen.get_mut(&0).unwrap().look.as_mut().unwrap().allowed = list("1")), "");
    }

    #[test]
    fn what_was_not_seen_is_unknown() {
        assert!(errors(|seen| drop(seen.remove(&1))).contains("rank 1 told nothing"));
        let said = errors(|seen| seen.values_mut().for_each(|s| s.look = None));
        assert!(said.contains("ranks 0-1 ended before they could be looked at"), "{said}");
        let said = errors(|seen| seen.get_mut(&1).unwrap().look.as_mut().unwrap().own = None);
        assert!(said.contains("where the memory of rank 1 is, is unknown"), "{said}");
        let (machine, layout, _) = good();
        let none = judge(&layout, &machine, Launcher::Slurm, &BTreeMap::new());
        assert!(!none.errors.is_empty() && !none.table.contains(" 0 "), "{}", none.table);
    }

    #[test]
    fn cpus_that_were_not_asked_for_are_errors() {
        let said = errors(|seen| seen.get_mut(&1).unwrap().given = list("0-3"));
        assert!(said.contains("rank 1 was given cpus 0-3 by the launcher, asked for were 2-3: "), "{said}");
        assert!(said.contains("OMPI_MCA"), "{said}");
        let said = errors(|seen| seen.get_mut(&1).unwrap().look.as_mut().unwrap().allowed = list("1-3"));
        assert!(said.contains("rank 1 may run on cpus 1-3 after 1.0 s, asked for were 2-3"), "{said}");
        assert!(said.contains("ranks 0-1 share the cores of cpus 1 on a"), "{said}");
        // The same cpus of different hosts are different cores.
        let said = errors(|seen| seen.get_mut(&1).unwrap().host = "b".into());
        assert!(!said.contains("share") && said.contains("were to be on one host and are on a, b"), "{said}");
    }

    #[test]
    fn hardware_threads_of_one_core_are_shared() {
        let (_, layout, mut seen) = good();
        let mut machine = Machine::from_shape("1x4").unwrap();
        machine.figures.cores = ["0,2", "1,3"].map(list).to_vec();
        for seen in seen.values_mut() {
            seen.host_nodes = 1;
            seen.look.as_mut().unwrap().own = None;
        }
        let lines = judge(&layout, &machine, Launcher::Hydra, &seen).errors;
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("ranks 0-1 share the cores of cpus 0-1 on a"), "{lines:?}");
        // Asked for, it is none.
        let layout = Layout { shared: true, ..layout };
        assert!(judge(&layout, &machine, Launcher::Hydra, &seen).errors.is_empty());
    }

    #[test]
    fn memory_elsewhere_is_an_error_with_its_share() {
        let said = errors(|seen| {
            let own = BTreeMap::from([(0, 94u64 << 20), (1, 6 << 20)]);
            seen.get_mut(&0).unwrap().look.as_mut().unwrap().own = Some(own);
        });
        assert!(
            said.contains("rank 0 has 6.0 % of its memory on NUMA node 1 after 1.0 s and its cpus on node 0")
        );
        assert!(said.contains("--localalloc"), "{said}");
    }
}
