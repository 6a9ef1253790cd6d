//! What Intel's Memory Latency Checker prints, as figures of a machine.
//!
//! Read are the two matrices by node: idle latencies (`mlc --latency_matrix`) and bandwidths between nodes
//! (`mlc --bandwidth_matrix`); rows are the nodes whose cpus access, columns the nodes of the memory. Its other tables are
//! not of single nodes.

use super::figures::own_is_nearest;
use nearfar_machine::figures::{Cell, Confidence, Figure, Matrix};
use nearfar_machine::file::NodeBandwidth;
use nearfar_machine::{Machine, NodeId};

/// Rows and columns of a table that are believed: as nodes of a recording.
const MOST_NODES: usize = 1024;

/// A matrix by node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Nodes of the columns: of the memory.
    pub memories: Vec<NodeId>,
    /// Nodes of the rows, whose cpus access, with a value for each column; `None` where none was printed.
    pub rows: Vec<(NodeId, Vec<Option<f64>>)>,
}

/// What a text of it says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mlc {
    /// Its version, such as `v3.10`.
    pub version: String,
    /// Latencies by random access, so that translation of addresses is in them.
    pub random: bool,
    /// Latencies, ns.
    pub latency: Table,
    /// Bandwidths of reads between nodes, GB/s.
    pub bandwidth: Table,
    /// Lines of the tables that could not be read, by number.
    pub damage: Vec<String>,
}

/// Whether the text is one of it.
pub fn is_mlc(text: &str) -> bool {
    text.lines().take(20).any(|line| line.contains("Memory Latency Checker"))
}

/// Reads its text.
pub fn read(text: &str) -> Mlc {
    let mut found = Mlc::default();
    // Factor from what is printed, while a table is read.
    let mut reading: Option<(bool, f64)> = None;
    let mut columns = 0;
    for (line, number) in text.lines().zip(1..) {
        if let Some(at) = line.find("Memory Latency Checker") {
            let version = line[at..].split_ascii_whitespace().last().unwrap_or_default();
            found.version = version.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '.').collect();
            continue;
        }
        if line.starts_with("Measuring ") {
            reading = match () {
                () if line.contains("idle latencies") => Some((true, 1.0)),
                () if line.contains("Bandwidths between nodes") => Some((false, 1e-3)),
                () => None,
            };
            found.random |= line.contains("idle latencies") && line.contains("random");
            columns = 0;
            continue;
        }
        let Some((is_latency, factor)) = reading else { continue };
        let table = if is_latency { &mut found.latency } else { &mut found.bandwidth };
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if let Some(nodes) = line.trim_start().strip_prefix("Numa node") {
            let nodes: Option<Vec<NodeId>> = nodes.split_ascii_whitespace().map(|w| w.parse().ok()).collect();
            if let Some(nodes) = nodes.filter(|n| !n.is_empty() && n.len() <= MOST_NODES) {
                columns = nodes.len();
                *table = Table { memories: nodes, rows: Vec::new() };
            }
            continue;
        }
        if columns == 0 || words.is_empty() || words[0].parse::<NodeId>().is_err() {
            // Comments stand before the header, and the table ends at the first line that is no row.
            if columns > 0 && !words.is_empty() {
                reading = None;
            }
            continue;
        }
        let from: NodeId = words[0].parse().unwrap_or(NodeId::MAX);
        let value =
            |word: &&str| word.parse::<f64>().ok().filter(|v| v.is_finite() && *v > 0.0).map(|v| v * factor);
        let values: Vec<Option<f64>> = words[1..].iter().map(value).collect();
        let wrong = words[1..].iter().zip(&values).any(|(word, value)| value.is_none() && *word != "-");
        if values.len() != columns || wrong || table.rows.len() >= MOST_NODES {
            found.damage.push(format!("line {number}: not a row of {columns} numbers"));
            continue;
        }
        table.rows.push((from, values));
    }
    found
}

impl Table {
    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.memories.iter().copied().chain(self.rows.iter().map(|r| r.0))
    }

    fn get(&self, from: NodeId, memory: NodeId) -> Option<f64> {
        let column = self.memories.iter().position(|&m| m == memory)?;
        self.rows.iter().find(|r| r.0 == from)?.1[column]
    }

    fn matrix(&self, machine: &Machine, source: &str) -> Option<Matrix> {
        let row = |from| machine.nodes.iter().map(|m| Cell(self.get(from, m.id))).collect();
        let rows: Vec<Vec<Cell>> = machine.nodes.iter().map(|from| row(from.id)).collect();
        let any = rows.iter().flatten().any(|cell| cell.0.is_some());
        any.then(|| Matrix { rows, source: source.to_owned(), confidence: Confidence::H })
    }
}

impl Mlc {
    /// The machine with what was measured in place of what it had; `file` names where it was read.
    ///
    /// # Errors
    /// If it has a node that the machine has not, or no matrix.
    pub fn into_machine(&self, mut machine: Machine, file: &str) -> Result<Machine, String> {
        if self.latency.is_empty() && self.bandwidth.is_empty() {
            return Err("it has neither a matrix of latencies nor one of bandwidths by node: run `mlc --latency_matrix` and \
                        `mlc --bandwidth_matrix`, or mlc without options"
                .into());
        }
        if let Some(id) =
            self.latency.nodes().chain(self.bandwidth.nodes()).find(|&id| machine.position(id).is_none())
        {
            return Err(format!(
                "it has a node {id}, and {} has the nodes {}: name the machine on which it ran with --as",
                machine.name,
                machine.nodes.iter().map(|n| n.id.to_string()).collect::<Vec<_>>().join(", ")
            ));
        }
        let source = format!("Intel MLC {} ({file})", self.version);
        let how = if self.random {
            "random access, address translation included"
        } else {
            "sequential access, prefetchers off"
        };
        let latency = self.latency.matrix(&machine, &format!("{source}, idle latency, {how}"));
        let read =
            self.bandwidth.matrix(&machine, &format!("{source}, reads by all threads of the row's node"));
        let own: Vec<NodeBandwidth> = machine
            .nodes
            .iter()
            .filter(|node| !node.cpus.is_empty())
            .filter_map(|node| {
                let value = self.bandwidth.get(node.id, node.id)?;
                let source = format!("{source}, reads by all threads of the node");
                let read = Figure { value, source, confidence: Confidence::H };
                // What is known of its writes stays.
                let before = machine.figures.bandwidth.iter().find(|b| b.nodes.contains(node.id));
                Some(NodeBandwidth {
                    nodes: std::iter::once(node.id).collect(),
                    read_gbs: Some(read),
                    peak_gbs: before.and_then(|b| b.peak_gbs.clone()),
                    update_gbs: before.and_then(|b| b.update_gbs.clone()),
                    triad_gbs: before.and_then(|b| b.triad_gbs.clone()),
                })
            })
            .collect();
        if let Some(latency) = latency {
            machine.figures.latency_ns = Some(own_is_nearest(latency));
        }
        if let Some(read) = read {
            machine.figures.pair_read_gbs = Some(read);
        }
        if !own.is_empty() {
            let replaced =
                |b: &NodeBandwidth| own.iter().any(|o| o.nodes.iter().all(|n| b.nodes.contains(n)));
            let kept: Vec<NodeBandwidth> =
                machine.figures.bandwidth.iter().filter(|b| !replaced(b)).cloned().collect();
            machine.figures.bandwidth = own.into_iter().chain(kept).collect();
        }
        Ok(machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As version 3 prints them, with figures of our own.
    const TEXT: &str = "Intel(R) Memory Latency Checker - v3.10\n\
        Measuring idle latencies for random access (in ns)...\n\
        \t\tNuma node\nNuma node\t     0\t     1\t\n       0\t  90.5\t 140.5\t\n       1\t 141.0\t  -\t\n\n\
        Measuring Peak Injection Memory Bandwidths for the system\nALL Reads        :\t350000.0\t\n\n\
        Measuring Memory Bandwidths between nodes within system \n\
        Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)\n\
        \t\tNuma node\nNuma node\t     0\t     1\t\n       0\t175000.0\t55000.0\t\n       1\t55500.0\tx\t\n\n\
        Measuring Loaded Latencies for the system\n 00000\t264.04\t 351871.6\n";

    #[test]
    fn both_matrices_are_read_and_nothing_else() {
        let found = read(TEXT);
        assert!(is_mlc(TEXT) && found.random);
        assert_eq!(found.version, "v3.10");
        assert_eq!(found.latency.rows, [(0, vec![Some(90.5), Some(140.5)]), (1, vec![Some(141.0), None])]);
        assert_eq!(found.bandwidth.rows, [(0, vec![Some(175.0), Some(55.0)])]);
        assert_eq!(found.damage, ["line 16: not a row of 2 numbers"]);
    }

    #[test]
    fn a_machine_gets_its_figures_and_keeps_what_was_not_measured() {
        let machine = Machine::from_shape("2x4").unwrap();
        let with = read(TEXT).into_machine(machine.clone(), "mlc.txt").unwrap();
        let latency = with.figures.latency_ns.as_ref().unwrap();
        assert_eq!(
            (latency.get(0, 1), latency.get(1, 0), latency.get(1, 1)),
            (Some(140.5), Some(141.0), None)
        );
        assert!(latency.source.contains("MLC v3.10 (mlc.txt)"), "{}", latency.source);
        assert_eq!(with.figures.pair_read_gbs.as_ref().unwrap().get(0, 1), Some(55.0));
        let own = with.figures.bandwidth.iter().find(|b| b.nodes.contains(0)).unwrap();
        assert_eq!(own.read_gbs.as_ref().unwrap().value, 175.0);
        assert_eq!(Machine::from_toml(&with.to_toml()).unwrap(), with);
        let of_four = read(&TEXT.replace("     1\t\n", "     3\t\n"));
        assert!(of_four.into_machine(machine.clone(), "f").unwrap_err().contains("a node 3"));
        assert!(read("Intel(R) Memory Latency Checker - v3").into_machine(machine, "f").is_err());
    }
}
