//! What `numastat` prints: hits and misses by node, and with `-m` and `-p` memory by node, in MiB (numastat(8) calls them
//! MBs; they are 2²⁰ bytes).

use super::value::{Place, Reading, Readings, number};
use nearfar_machine::NodeId;

/// Bytes of what it calls a MB.
const MB: f64 = (1 << 20) as f64;
/// Nodes of a heading that are believed. // chosen: the kernel's MAX_NUMNODES
const MOST_NODES: usize = 1024;

/// What a table is of.
#[derive(Clone, Copy, PartialEq)]
enum Table {
    /// Events of the page allocator since the machine was started.
    Events,
    /// Memory of the machine.
    Machine,
    /// Memory of processes; whether a row is a process or a kind of memory of one.
    Processes,
}

/// Reads its text; `None` if no line of the first heads a table of nodes.
pub fn read(text: &str) -> Option<Readings> {
    let begins = |line: &str| {
        line.starts_with("Per-node system memory usage") || line.starts_with("Per-node process memory usage")
    };
    let known = text.lines().take(20).any(|line| begins(line) || is_plain(line));
    known.then(|| tables(text))
}

/// The heading of the table of events: `node0 node1`.
fn is_plain(line: &str) -> bool {
    let plain = |word: &str| word.strip_prefix("node").is_some_and(|n| n.parse::<NodeId>().is_ok());
    !line.trim().is_empty() && line.starts_with(' ') && line.split_whitespace().all(plain)
}

/// The nodes of a heading, `node0 node1`, `Node 0 Node 1 Total` or `PID Node 0 Total`; `None` if it is none.
fn heading(line: &str) -> Option<Vec<NodeId>> {
    if is_plain(line) {
        return line.split_whitespace().map(|w| w["node".len()..].parse().ok()).collect();
    }
    let mut words = line.split_whitespace().filter(|w| !matches!(*w, "PID" | "Total"));
    let mut nodes = Vec::new();
    while let Some(word) = words.next() {
        if word != "Node" {
            return None;
        }
        nodes.push(words.next()?.parse().ok()?);
    }
    (!nodes.is_empty()).then_some(nodes)
}

fn tables(text: &str) -> Readings {
    let mut found = Readings::new("numastat");
    let (mut table, mut nodes) = (Table::Events, Vec::new());
    let mut process = None;
    for (line, at) in text.lines().zip(1..) {
        let trimmed = line.trim();
        if line.starts_with("Per-node ") {
            table = if line.contains("process") { Table::Processes } else { Table::Machine };
            process = line.split_once("for PID ").map(|(_, whose)| format!("process {whose}"));
            nodes.clear();
            continue;
        }
        // Lines between, and what it says of fields of the kernel that it does not know.
        let rule = trimmed.chars().all(|c| c == '-' || c.is_whitespace());
        if rule || trimmed.ends_with("not in hash table.") {
            continue;
        }
        if let Some(found) = heading(line).filter(|nodes| nodes.len() <= MOST_NODES) {
            nodes = found;
            continue;
        }
        if nodes.is_empty() {
            found.damaged(at, "a line before the heading with the nodes");
            continue;
        }
        let columns = nodes.len() + usize::from(table != Table::Events);
        let words: Vec<&str> = line.split_whitespace().collect();
        let split = words.len().checked_sub(columns).filter(|&n| n > 0);
        let values: Option<Vec<f64>> =
            split.and_then(|n| words[n..].iter().map(|w| number(w).filter(|v| *v >= 0.0)).collect());
        let (Some(split), Some(values)) = (split, values) else {
            found.damaged(at, &format!("not a name with {columns} numbers"));
            continue;
        };
        let name = words[..split].join(" ");
        let name = match (table, &process) {
            (Table::Processes, Some(process)) => format!("{name} of {process}"),
            (Table::Processes, None) if name == "Total" => "memory of all these processes".to_owned(),
            (Table::Processes, None) => format!("memory of process {name}"),
            _ => name,
        };
        let (scale, unit) = if table == Table::Events { (1.0, "pages") } else { (MB, "bytes") };
        // The total is the sum of the nodes.
        for (node, value) in nodes.iter().zip(values) {
            let (place, value) = (Place::Node(*node), Some(value * scale));
            let unit = if name.starts_with("HugePages_") { "MB of pages" } else { unit };
            found.push(Reading {
                place,
                name: name.clone(),
                value,
                unit: unit.to_owned(),
                ..Reading::default()
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<(Place, String, f64, String)> {
        let found = read(text).unwrap();
        assert_eq!(found.damage, []);
        found.rows.into_iter().map(|r| (r.place, r.name, r.value.unwrap(), r.unit)).collect()
    }

    #[test]
    fn the_plain_table_has_events_of_each_node() {
        let text = "                           node0           node1\nnuma_hit               581744039        92126519\n";
        let expected = [(0, 581_744_039.0), (1, 92_126_519.0)]
            .map(|(n, v)| (Place::Node(n), "numa_hit".to_owned(), v, "pages".to_owned()));
        assert_eq!(values(text), expected);
    }

    #[test]
    fn memory_of_the_machine_and_of_processes_is_in_bytes() {
        let machine = "\nPer-node system memory usage (in MBs):\nToken X not in hash table.\n                          \
                       Node 0           Total\n                 --------------- ---------------\nMemTotal                   \
                       96.50           96.50\n";
        assert_eq!(values(machine), [(Place::Node(0), "MemTotal".into(), 96.5 * MB, "bytes".into())]);
        let one = "\nPer-node process memory usage (in MBs) for PID 7 (my app)\n  Node 0 Node 1 Total\n  --- --- ---\n\
                   Heap 0.50 1.00 1.50\n---- --- --- ---\nTotal 0.50 1.00 1.50\n";
        let rows = values(one);
        assert_eq!(rows[1], (Place::Node(1), "Heap of process 7 (my app)".into(), MB, "bytes".into()));
        assert_eq!(rows.len(), 4);
        let many = "Per-node process memory usage (in MBs)\nPID Node 0 Node 1 Total\n------- --- --- ---\n\
                    7 (my app) 1.00 2.00 3.00\nTotal 1.00 2.00 3.00\n";
        assert_eq!(
            values(many)[0],
            (Place::Node(0), "memory of process 7 (my app)".into(), MB, "bytes".into())
        );
    }

    #[test]
    fn damaged_lines_are_named() {
        let text = "        node0 node1\nnuma_hit 1 2\nnuma_miss 1\nnuma_foreign x 2\nother_node 3 4\n";
        let found = read(text).unwrap();
        assert_eq!(found.rows.len(), 4);
        assert_eq!(found.damage.iter().map(|d| d.0).collect::<Vec<_>>(), [3, 4]);
    }
}
