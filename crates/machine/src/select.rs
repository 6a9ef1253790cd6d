//! Cpus and nodes as people name them on a command line: in numactl's notation, and lists of cpus
//! for threads in likwid's.

use super::binding::{Bind, cores_first, cpu_of};
use super::cpulist::{CpuList, CpuListError, IndexList, NodeList};
use super::{Machine, NodeId};

/// Why a selection is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// No list.
    #[error("`{text}`: {why}")]
    List {
        /// What was written.
        text: String,
        /// What is wrong with it.
        why: CpuListError,
    },
    /// Nothing is left.
    #[error("`{text}` selects no {what}; the machine's {what}s: {all}")]
    Empty {
        /// What was written.
        text: String,
        /// cpu or node.
        what: &'static str,
        /// Those that there are.
        all: IndexList<()>,
    },
    /// Not there.
    #[error("{what} {missing} does not exist; the machine's {what}s: {all}")]
    Missing {
        /// cpu or node.
        what: &'static str,
        /// What is not there.
        missing: IndexList<()>,
        /// Those that there are.
        all: IndexList<()>,
    },
    /// There, but not for the caller.
    #[error(
        "{what} {refused} may not be used here (cpuset, container or affinity); allowed are {allowed}. A number \
         after + counts within these: +0-{last}"
    )]
    Refused {
        /// cpu or node.
        what: &'static str,
        /// What is refused.
        refused: IndexList<()>,
        /// What is allowed.
        allowed: IndexList<()>,
        /// Highest relative number.
        last: usize,
    },
    /// A node of a selection has no cpus.
    #[error("node {0} has no cpus: nothing can run on it (its memory can be bound with --membind)")]
    NoCpus(NodeList),
    /// Not a way to lay out threads.
    #[error(
        "`{0}` is not a way to lay out threads; there are compact, scatter, close, spread, cpus in their order \
         (0,2,4-7), and cores of sockets or nodes by number (S0:0-3@S1:0-3, N0:0-1)"
    )]
    Layout(String),
    /// A part of likwid's notation is not there.
    #[error("`{part}`: {why}")]
    Part {
        /// `S1:0-3`.
        part: String,
        /// Why.
        why: String,
    },
}

/// `all`, `0-3,8`, `!0` (all but), `+0-1` (counted within what is allowed), in numactl's notation.
fn select<T: Clone>(
    text: &str,
    what: &'static str,
    all: &IndexList<T>,
    allowed: Option<&IndexList<T>>,
) -> Result<IndexList<T>, SelectError> {
    let usable: IndexList<T> = all.iter().filter(|i| allowed.is_none_or(|a| a.contains(*i))).collect();
    let (inverted, rest) = match text.trim().strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, text.trim()),
    };
    let (relative, rest) = match rest.strip_prefix('+') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let chosen: IndexList<T> = if rest == "all" {
        usable.clone()
    } else {
        rest.parse().map_err(|why| SelectError::List { text: text.to_owned(), why })?
    };
    let chosen = if relative && rest != "all" {
        let beyond: IndexList<T> = chosen.iter().filter(|&i| i as usize >= usable.len()).collect();
        if !beyond.is_empty() {
            let all = (0..usable.len() as u32).collect();
            return Err(SelectError::Missing { what, missing: beyond.numbers(), all });
        }
        chosen.iter().map(|i| usable.as_slice()[i as usize]).collect()
    } else {
        chosen
    };
    let missing: IndexList<T> = chosen.iter().filter(|&i| !all.contains(i)).collect();
    if !missing.is_empty() {
        return Err(SelectError::Missing { what, missing: missing.numbers(), all: all.numbers() });
    }
    let chosen = if inverted { usable.iter().filter(|&i| !chosen.contains(i)).collect() } else { chosen };
    let refused: IndexList<T> = chosen.iter().filter(|&i| !usable.contains(i)).collect();
    if !refused.is_empty() {
        let last = usable.len().saturating_sub(1);
        return Err(SelectError::Refused {
            what,
            refused: refused.numbers(),
            allowed: usable.numbers(),
            last,
        });
    }
    if chosen.is_empty() {
        return Err(SelectError::Empty { text: text.to_owned(), what, all: usable.numbers() });
    }
    Ok(chosen)
}

/// The cpus that `text` names. `allowed`: those that the caller may use, if that is known.
///
/// # Errors
/// If it names none, or one that is not there or not allowed.
pub fn cpus(text: &str, machine: &Machine, allowed: Option<&CpuList>) -> Result<CpuList, SelectError> {
    let all = machine.nodes.iter().flat_map(|n| n.cpus.iter()).collect();
    select(text, "cpu", &all, allowed)
}

/// The nodes that `text` names. `allowed`: those of which the caller may have memory, if that is known.
///
/// # Errors
/// As [`cpus`].
pub fn nodes(text: &str, machine: &Machine, allowed: Option<&NodeList>) -> Result<NodeList, SelectError> {
    let all = machine.nodes.iter().map(|n| n.id).collect();
    select(text, "node", &all, allowed)
}

/// The cpus of the nodes that `text` names, as far as they are allowed.
///
/// # Errors
/// As [`cpus`], and if nothing can run on one of the nodes.
pub fn cpus_of_nodes(
    text: &str,
    machine: &Machine,
    allowed: Option<&CpuList>,
) -> Result<CpuList, SelectError> {
    let chosen = nodes(text, machine, None)?;
    let own = |id: NodeId| machine.node(id).map(|n| n.cpus.clone()).unwrap_or_default();
    let without: NodeList = chosen.iter().filter(|&id| own(id).is_empty()).collect();
    if !without.is_empty() {
        return Err(SelectError::NoCpus(without));
    }
    let all: CpuList = chosen.iter().flat_map(|id| own(id).iter().collect::<Vec<_>>()).collect();
    let usable: CpuList = all.iter().filter(|c| allowed.is_none_or(|a| a.contains(*c))).collect();
    match allowed {
        Some(allowed) if usable.is_empty() => Err(SelectError::Refused {
            what: "cpu",
            refused: all.numbers(),
            allowed: allowed.numbers(),
            last: allowed.len().saturating_sub(1),
        }),
        _ => Ok(usable),
    }
}

/// The cpu of each thread, in the order in which threads are created.
///
/// `compact` and `scatter` are those of [`Bind`]: in blocks over all nodes, or in turns. `close`
/// fills a node before it takes the next, `spread` leaves equal gaps; both take a core's second
/// hardware thread after all cores. Further: cpus in the order in which they are written, and
/// cores of a socket or node by number, `S0:0-3@N1:0`. Where there are more threads than cpus,
/// the list begins anew. `threads`: `None` for as many as the list has. `packages`: each socket's number and
/// cpus; where there are none, those of its nodes.
///
/// # Errors
/// If that is not a layout, or names what is not there or not allowed.
pub fn thread_cpus(
    text: &str,
    threads: Option<usize>,
    machine: &Machine,
    packages: &[(u32, CpuList)],
    allowed: Option<&CpuList>,
) -> Result<Vec<u32>, SelectError> {
    let machine = usable(machine, allowed);
    let order = |machine: &Machine| -> Vec<u32> {
        let mut cores: Vec<(usize, usize, u32)> = Vec::new();
        for (at, node) in machine.nodes.iter().enumerate() {
            for (core, cpus) in machine.cores_of(node.id).iter().enumerate() {
                cores.extend(cpus.iter().enumerate().map(|(nth, cpu)| (nth, at << 16 | core, cpu)));
            }
        }
        cores.sort_unstable();
        cores.into_iter().map(|c| c.2).collect()
    };
    let all = order(&machine);
    let count = threads.unwrap_or(all.len());
    let list: Vec<u32> = match text {
        "compact" => return Ok(cpu_of(count, &machine, Bind::Compact)),
        "scatter" => return Ok(cpu_of(count, &machine, Bind::Scatter)),
        // A node's cores, then their second threads, then the next node.
        "close" => machine.nodes.iter().flat_map(|n| cores_first(&machine, n.id)).collect(),
        "spread" => {
            let cores = machine.nodes.iter().map(|n| machine.cores_of(n.id).len()).sum::<usize>();
            let among = if count <= cores { cores } else { all.len() };
            let step = |i: usize| all[i * among / count.max(1) % among.max(1)];
            if count <= among { (0..count).map(step).collect() } else { all.clone() }
        }
        _ if text.contains(':') => parts(text, &machine, packages)?,
        _ if text.starts_with(|c: char| c.is_ascii_digit()) => ordered(text)?,
        _ => return Err(SelectError::Layout(text.to_owned())),
    };
    let chosen: CpuList = list.iter().copied().collect();
    let there: CpuList = all.iter().copied().collect();
    let refused: CpuList = chosen.iter().filter(|&c| !there.contains(c)).collect();
    if !refused.is_empty() {
        let last = there.len().saturating_sub(1);
        return Err(SelectError::Refused {
            what: "cpu",
            refused: refused.numbers(),
            allowed: there.numbers(),
            last,
        });
    }
    let count = threads.unwrap_or(list.len());
    Ok(list.iter().copied().cycle().take(if list.is_empty() { 0 } else { count }).collect())
}

/// The machine with those cpus only.
pub(super) fn usable(machine: &Machine, allowed: Option<&CpuList>) -> Machine {
    let mut machine = machine.clone();
    if let Some(allowed) = allowed {
        for node in &mut machine.nodes {
            node.cpus = node.cpus.iter().filter(|&c| allowed.contains(c)).collect();
        }
    }
    machine
}

/// `0,4,1-2` in the order in which it is written.
fn ordered(text: &str) -> Result<Vec<u32>, SelectError> {
    let mut list = Vec::new();
    for part in text.split(',') {
        let part: CpuList =
            part.trim().parse().map_err(|why| SelectError::List { text: text.to_owned(), why })?;
        list.extend(part.iter());
    }
    Ok(list)
}

/// `S0:0-3@S1:0-3`: the cpus at these places of sockets (S), nodes (N, M) or of the whole machine (`A`).
fn parts(text: &str, machine: &Machine, packages: &[(u32, CpuList)]) -> Result<Vec<u32>, SelectError> {
    let mut list = Vec::new();
    for part in text.split('@') {
        let wrong = |why: String| SelectError::Part { part: part.to_owned(), why };
        let (domain, places) = part.split_once(':').ok_or_else(|| wrong("the : is missing".into()))?;
        let kind = domain.chars().next().unwrap_or(' ');
        let number = domain.get(1..).unwrap_or("");
        let every = || machine.nodes.iter().map(|n| n.id);
        let own = |id: u32| packages.iter().find(|p| p.0 == id).map(|p| &p.1);
        let mut cpus: Vec<u32> = match (kind, number.parse::<u32>()) {
            // A node may have cpus of several sockets, and a socket several nodes.
            ('S', Ok(package)) if !packages.is_empty() => {
                let all = every().flat_map(|n| cores_first(machine, n));
                all.filter(|&cpu| own(package).is_some_and(|cpus| cpus.contains(cpu))).collect()
            }
            ('S', Ok(package)) => {
                let nodes = machine.nodes.iter().filter(|n| n.package == Some(package));
                nodes.flat_map(|n| cores_first(machine, n.id)).collect()
            }
            ('N' | 'M', Ok(node)) => cores_first(machine, node),
            ('A', Err(_)) if number.is_empty() => every().flat_map(|n| cores_first(machine, n)).collect(),
            _ => return Err(SelectError::Layout(text.to_owned())),
        };
        // The first threads of all cores before any second one, over the nodes of a socket too.
        let nth = |cpu: u32| {
            let mut cores = every().flat_map(|n| machine.cores_of(n));
            cores.find_map(|core| core.iter().position(|c| c == cpu)).unwrap_or(0)
        };
        cpus.sort_by_key(|&cpu| nth(cpu));
        if cpus.is_empty() {
            return Err(wrong("no such socket or node has cpus that may be used".into()));
        }
        for place in ordered(places)? {
            let cpu = cpus.get(place as usize).ok_or_else(|| {
                wrong(format!("it has {} cpus, numbered from 0, and no number {place}", cpus.len()))
            })?;
            list.push(*cpu);
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list<T>(text: &str) -> IndexList<T> {
        text.parse().unwrap()
    }

    /// Two packages of one node: cpus 0-1,4-5 and 2-3,6-7, two threads per core (0 and 4 are one core).
    fn smt() -> Machine {
        let mut machine = Machine::from_shape("2x2").unwrap();
        machine.nodes[0].cpus = list("0-1,4-5");
        machine.nodes[1].cpus = list("2-3,6-7");
        machine.threads_per_core = 2;
        machine.figures.cores = ["0,4", "1,5", "2,6", "3,7"].map(list).to_vec();
        machine
    }

    #[test]
    fn numactls_notation_is_read() {
        let machine = smt();
        let of = |text: &str| cpus(text, &machine, Some(&list("2-7"))).map(|c| c.to_string());
        assert_eq!(of("2-3,6"), Ok("2-3,6".into()));
        assert_eq!(of("all"), Ok("2-7".into()));
        assert_eq!(of("+0-1"), Ok("2-3".into()));
        assert_eq!(of("!2-4"), Ok("5-7".into()));
        assert_eq!(of("!+0"), Ok("3-7".into()));
        let error = |text: &str| of(text).unwrap_err().to_string();
        assert!(
            error("0-2").contains("0-1 may not be used") && error("0-2").contains("+0-5"),
            "{}",
            error("0-2")
        );
        assert_eq!(error("2,9"), "cpu 9 does not exist; the machine's cpus: 0-7");
        assert_eq!(error("+6"), "cpu 6 does not exist; the machine's cpus: 0-5");
        assert!(error("!2-7").contains("selects no cpu"));
        assert!(error("x").contains("`x` is neither a number nor a range"));
        assert_eq!(nodes("!0", &machine, None).unwrap(), list("1"));
        assert_eq!(
            nodes("3", &machine, None).unwrap_err().to_string(),
            "node 3 does not exist; the machine's nodes: 0-1"
        );
    }

    #[test]
    fn nodes_without_cpus_cannot_run_anything() {
        let mut machine = smt();
        assert_eq!(cpus_of_nodes("1", &machine, Some(&list("0-3"))).unwrap(), list("2-3"));
        machine.nodes[1].cpus = CpuList::default();
        assert!(
            matches!(cpus_of_nodes("0-1", &machine, None), Err(SelectError::NoCpus(n)) if n == list("1"))
        );
        assert!(matches!(
            cpus_of_nodes("0", &machine, Some(&list("2"))),
            Err(SelectError::Refused { what: "cpu", .. })
        ));
    }

    #[test]
    fn threads_get_cpus_in_every_layout() {
        let machine = smt();
        let of = |text: &str, threads: usize| thread_cpus(text, Some(threads), &machine, &[], None).unwrap();
        assert_eq!(of("compact", 4), [0, 1, 2, 3]);
        assert_eq!(of("compact", 2), [0, 2]);
        assert_eq!(of("scatter", 4), [0, 2, 1, 3]);
        assert_eq!(of("close", 3), [0, 1, 4]);
        assert_eq!(of("close", 5), [0, 1, 4, 5, 2]);
        assert_eq!(of("spread", 2), [0, 2]);
        assert_eq!(of("spread", 4), [0, 1, 2, 3]);
        assert_eq!(of("spread", 8), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(of("5,0,2-3", 4), [5, 0, 2, 3]);
        assert_eq!(of("S0:0-1@S1:0-1", 4), [0, 1, 2, 3]);
        assert_eq!(of("S1:2@N0:0", 2), [6, 0]);
        assert_eq!(of("A:0-3", 4), [0, 1, 2, 3]);
        // More threads than cpus: from the start.
        assert_eq!(of("1,2", 5), [1, 2, 1, 2, 1]);
        // Without a number: as many as the list has.
        assert_eq!(thread_cpus("S1:0-1", None, &machine, &[], None).unwrap(), [2, 3]);
        assert_eq!(thread_cpus("close", None, &machine, &[], None).unwrap().len(), 8);
        // Sockets by their cpus: a node may have cpus of both.
        let packages = [(0, list("0,4,2,6")), (1, list("1,5,3,7"))];
        let of = |text: &str| thread_cpus(text, None, &machine, &packages, None).unwrap();
        assert_eq!((of("S0:0-3"), of("S1:0-1")), (vec![0, 2, 4, 6], vec![1, 3]));
        // Only what is allowed.
        let allowed = list("1,3,5");
        assert_eq!(thread_cpus("close", Some(3), &machine, &[], Some(&allowed)).unwrap(), [1, 5, 3]);
        let error =
            |text: &str| thread_cpus(text, Some(2), &machine, &[], Some(&allowed)).unwrap_err().to_string();
        assert!(error("0,1").contains("cpu 0 may not be used"), "{}", error("0,1"));
        assert!(error("S1:0-1").contains("it has 1 cpus"), "{}", error("S1:0-1"));
        assert!(error("S7:0").contains("no such socket"));
        assert!(error("tight").contains("compact, scatter, close, spread"));
    }
}
