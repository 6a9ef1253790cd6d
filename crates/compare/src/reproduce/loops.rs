//! Cases 10 to 12: OpenMP on Opterons of four sockets (document 002).

use super::case::*;
use super::runs::{EXAMPLES, stream};
use super::seen::*;
use nearfar_machine::LINE_BYTES;
use nearfar_timing::steady;
use nearfar_timing::work::NodeWork;

/// The run that only has a machine: what case 10 is calculated for.
pub const CALCULATED: &str = "magny-cours";

pub(super) fn draft(id: u8, sights: &Sights) -> Result<Draft, String> {
    let mut draft = Draft::default();
    match id {
        10 => arithmetic(&mut draft, sights)?,
        11 => rates(&mut draft, sights)?,
        _ => examples(&mut draft, sights)?,
    }
    Ok(draft)
}

/// The document's rates of a node's own memory and of another's, GB/s, and its number of nodes.
const LOCAL: f64 = 12.0;
const REMOTE: f64 = 5.0;
const NODES: f64 = 8.0;

fn arithmetic(draft: &mut Draft, sights: &Sights) -> Result<(), String> {
    let machine = &sights.get(CALCULATED)?.machine;
    let lines = 1e7;
    let reads = |n: f64| NodeWork { reads: n, prefetches: n, ..NodeWork::default() };
    let mut near = Vec::new();
    let mut spread = Vec::new();
    let count = machine.nodes.len();
    for (at, node) in machine.nodes.iter().enumerate() {
        for cpu in node.cpus.iter() {
            let mut page_nodes = vec![NodeWork::default(); count];
            page_nodes[at] = reads(lines);
            near.push((cpu, page_nodes));
            spread.push((cpu, vec![reads(lines / count as f64); count]));
        }
    }
    let gbs = |threads: &[(u32, Vec<NodeWork>)]| {
        let t = steady(machine, threads).map_err(|e| e.to_string())?;
        let bytes = lines * LINE_BYTES as f64 * threads.len() as f64;
        Ok::<_, String>((bytes / t.ns, bytes / t.high_ns, bytes / t.low_ns))
    };
    let (local, low, high) = gbs(&near)?;
    draft.rows.push(number("local: 8 · 12", NODES * LOCAL, local, "GB/s").within(low, high));
    let (interleaved, low, high) = gbs(&spread)?;
    let sum = NODES * (LOCAL / NODES + (1.0 - 1.0 / NODES) * REMOTE);
    let what = "interleaved: 8 · (1/8 · 12 + 7/8 · 5)";
    draft.rows.push(number(what, sum, interleaved, "GB/s").within(low, high));
    draft.rows.push(shown("the same, as the document adds it up", "35", interleaved, "GB/s"));
    let harmonic = NODES / ((1.0 / NODES) / LOCAL + (1.0 - 1.0 / NODES) / REMOTE);
    draft.rows.push(shown("the harmonic mean of the two rates, 8 times", "", harmonic, "GB/s"));
    draft.notes.push(
        "The document's sum, 8 · (0.125 · 12 + 0.875 · 5) = 8 · 4.375 = 35, leaves out its first term: the formula gives \
         47. Neither is a measurement. The model's machine has its remote lines in flight from the document's 5 to 7 GB/s.",
    );
    Ok(())
}

fn rates(draft: &mut Draft, sights: &Sights) -> Result<(), String> {
    draft.about = Some("stream-triad");
    for (name, what, bytes, published) in [
        ("stream-copy", "Copy", 16.0, 35_966.0),
        ("stream-scale", "Scale", 16.0, 35_870.0),
        ("stream-add", "Add", 24.0, 32_750.0),
        ("stream-triad", "Triad", 24.0, 32_601.0),
    ] {
        let seen = sights.get(name)?;
        let (elements, repetitions) = stream(seen.full);
        let t = seen.time()?;
        let of = |seconds: f64| 1e-6 * elements * repetitions * bytes / seconds;
        draft.rows.push(number(what, published, of(t.seconds), "MB/s").within(of(t.high), of(t.low)));
    }
    let far = sights.get("stream-triad")?.remote();
    draft.rows.push(relation("remote lines", "each thread's own", 100.0 * far, "%", far < 0.01));
    draft.notes.push(
        "The machine is not that of case 10: caches of 16 KiB and of 2 MiB per two cores are the next generation, eight \
         cores per node, so that the cpus lie on two nodes. Its type, clock and memory are not published. 36 GB/s from \
         four channels leave no room for lines read before they are written, so stores are non-temporal.",
    );
    draft.explained = Some(
        "The memory's rate is not published. The machine file has 15 GB/s per node, 59 % of two channels of DDR3-1600, which is \
         what AMD's STREAM of the generation before had of its own channels. Tried: 17 GB/s, as remembered of other machines \
         with this part, leaves triad 6 % and copy 10 % too slow, which would just hold, but has no source. \
         The document's copy is 10 % faster than its triad, where the \
         model has one rate, since no source gives this memory's by mix of reads and writes. A rate that meets all \
         four would be fitted to them.",
    );
    Ok(())
}

fn examples(draft: &mut Draft, sights: &Sights) -> Result<(), String> {
    draft.about = Some("openmp-1");
    let nodes = NODES;
    // Elements on the wrong side of the nodes' borders when the loop leaves out a halo at both ends; halo and arrays
    // are of twice the published size.
    let (elements, halo) = (2e6, 2000.0);
    let shifted: f64 = (1..8).map(|j| (halo - 2.0 * halo * f64::from(j) / nodes).abs()).sum();
    let expected = [
        (1.0 - 1.0 / nodes, 0.03, "most threads remote"),
        (0.5 * (1.0 - 1.0 / nodes), 0.03, "a remote, b local"),
        // A chunk goes to any thread; which, no arithmetic says.
        (1.0 - 1.0 / nodes, 0.20, "lots of remote"),
        (shifted / (elements - 2.0 * halo), 0.007, "no longer only local"),
    ];
    for (example, &(share, off, claim)) in expected.iter().enumerate() {
        let remote = |name: &str| Ok::<f64, String>(sights.get(name)?.remote_reads());
        let (bad, good) = (remote(EXAMPLES[2 * example])?, remote(EXAMPLES[2 * example + 1])?);
        let number = example + 1;
        let what = format!("example {number}, remote reads; arithmetic {:.1}", 100.0 * share);
        let close = (bad - share).abs() <= off && bad > 0.0005;
        draft.rows.push(relation(&what, claim, 100.0 * bad, "%", close));
        let what = format!("example {number}, repaired");
        draft.rows.push(relation(&what, "local", 100.0 * good, "%", good <= 0.01));
    }
    draft.notes.push(
        "Lines read are compared: among those written are some that the initialisation left in the caches.",
    );
    draft.notes.push(
        "Example 4 costs little at one thread per node: 0.3 % by arithmetic, more with whole pages. The published repair \
         lets neighbours write each other's halo a second time; ours uses the same bounds for both loops.",
    );
    draft
        .notes
        .push("Example 3: \"the same schedule\" must be static; two dynamic loops do not agree either.");
    Ok(())
}
