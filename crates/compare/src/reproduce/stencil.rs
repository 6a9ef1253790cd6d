//! Cases 1 to 6: a stencil on two Xeons E5-2699 v4 (document 000).

use super::case::*;
use super::runs::{sweep, sweep_of_one_process};
use super::seen::*;
use nearfar_timing::Time;

/// Flops per point: 346.61 GFlops over 5682.07 MPoints/s, and 168.71 over 2765.70. From the document.
const FLOPS: f64 = 61.0;

pub(super) fn draft(id: u8, sights: &Sights) -> Result<Draft, String> {
    match id {
        1 => alone(sights, "iso3dfd-serial", "44 threads", 2765.70),
        2 => alone(sights, "iso3dfd-one-socket", "22 threads", 2948.22),
        3 => two_processes(sights),
        4 => {
            let mut draft = alone(sights, "iso3dfd-first-touch", "44 threads", 5682.07)?;
            draft.notes.push(
                "The document's grid is not that of case 1: 11694.4 MB against 10914.8 MB are 15/14, 480 x 2016 x 1056. A \
                 rate per point hardly depends on it.",
            );
            Ok(draft)
        }
        5 => traffic(sights),
        _ => schedules(sights),
    }
}

/// One process.
fn alone(sights: &Sights, name: &'static str, what: &str, published: f64) -> Result<Draft, String> {
    let seen = sights.get(name)?;
    let points = sweep(seen.full).points();
    let t = seen.time()?;
    let rate = points / t.seconds * seen.factor;
    let mut rows = vec![
        row(what, published, seen, points)?,
        shown("the same", &format!("{:.1}", 1e-3 * published * FLOPS), 1e-9 * rate * FLOPS, "GFlops"),
    ];
    for node in &t.nodes {
        let gbs = (node.read_gbs + node.write_gbs) * seen.factor;
        rows.push(shown(&format!("memory of node {}", node.node), "", gbs, "GB/s"));
    }
    rows.push(shown("QPI, both directions, with control bytes", "", link_gbs(&t, seen), "GB/s"));
    rows.push(shown("bytes per point", "", seen.sum(|_| true) * 64.0 / points, "B"));
    let notes = vec!["Interior points are counted, as in the document: all points would be 6 % more."];
    Ok(Draft { about: Some(name), rows, notes, ..Draft::default() })
}

fn two_processes(sights: &Sights) -> Result<Draft, String> {
    const NAME: &str = "iso3dfd-two-processes";
    let seen = sights.get(NAME)?;
    let points = sweep_of_one_process(seen.full).points();
    let mut rows = Vec::new();
    for (node, published) in [(0, 2996.78), (1, 2951.22)] {
        // Each by its own clock, as it prints its own time.
        let own = seen.of_cpus(|cpu| seen.node_of(cpu) == Some(node));
        rows.push(row(&format!("process on socket {node}"), published, &own, points)?);
    }
    rows.push(relation("remote lines", "none", 100.0 * seen.remote(), "%", seen.remote() < 0.01));
    Ok(Draft { about: Some(NAME), rows, ..Draft::default() })
}

fn traffic(sights: &Sights) -> Result<Draft, String> {
    let (before, after) = (sights.get("iso3dfd-serial")?, sights.get("iso3dfd-first-touch")?);
    let (b, a) = (before.time()?, after.time()?);
    let less = link_gbs(&b, before) / link_gbs(&a, after);
    let data = 1e-9 * b.links.iter().map(|l| l.carried.data_bytes).sum::<f64>() / b.seconds * before.factor;
    let first = |seen: &Seen| seen.sum(|l| l.page_node == 0) / seen.sum(|_| true);
    let (one, both) = (first(before), first(after));
    let rows = vec![
        relation("QPI traffic, before over after", "3 times lower after", less, "×", less >= 3.0),
        shown("QPI before, both directions", "up to 38", link_gbs(&b, before), "GB/s"),
        shown("of it cache lines", "", data, "GB/s"),
        shown("QPI after, both directions", "", link_gbs(&a, after), "GB/s"),
        relation("memory traffic on socket 0, before", "all of it", 100.0 * one, "%", one > 0.98),
        relation("the same, after", "half: balanced", 100.0 * both, "%", (both - 0.5).abs() < 0.05),
    ];
    let notes = vec![
        "Whether the document's 38 GB/s has control bytes and both directions in it is not said; it is a peak, ours a mean.",
    ];
    Ok(Draft { about: Some("iso3dfd-serial"), rows, notes, ..Draft::default() })
}

/// Above this a ratio of times is "clearly faster", below it a gain is "not prominent". // chosen
const PROMINENT: f64 = 1.25;

fn schedules(sights: &Sights) -> Result<Draft, String> {
    let (fixed, dynamic) = (sights.get("iso3dfd-first-touch")?, sights.get("iso3dfd-dynamic")?);
    let (s, d) = (fixed.time()?.seconds, dynamic.time()?.seconds);
    let serial = sights.get("iso3dfd-serial")?.time()?.seconds;
    let far = dynamic.remote();
    let gain = serial / d;
    let rows = vec![
        relation("time, dynamic over static", "static clearly faster", d / s, "×", d / s > PROMINENT),
        relation("remote lines, dynamic", "blocks change threads", 100.0 * far, "%", far > 0.25),
        shown("remote lines, static", "", 100.0 * fixed.remote(), "%"),
        shown("gain of first touch, static", "almost 2", serial / s, "×"),
        relation("gain of first touch, dynamic", "not prominent", gain, "×", gain < PROMINENT),
        shown("lines at the busier memory, by epoch, dynamic", "", 100.0 * dynamic.crowding(), "%"),
        shown("the same, static", "", 100.0 * fixed.crowding(), "%"),
    ];
    let notes = vec![
        "Why so little is left: first touch laid the blocks out in their order, and a dynamic schedule hands them out in \
         their order, so that all threads are at one node's memory at a time, first at the one, then at the other.",
        "One sweep instead of 10 times 100.",
    ];
    Ok(Draft { about: Some("iso3dfd-dynamic"), rows, notes, ..Draft::default() })
}

/// MPoints/s of the whole machine, with its range.
fn row(what: &str, published: f64, seen: &Seen, points: f64) -> Result<Row, String> {
    let t = seen.time()?;
    let of = |seconds: f64| 1e-6 * points / seconds * seen.factor;
    Ok(number(what, published, of(t.seconds), "MPoints/s").within(of(t.high), of(t.low)))
}

/// GB/s over all links of the whole machine.
fn link_gbs(t: &Time, seen: &Seen) -> f64 {
    t.links.iter().map(|l| l.gbs).sum::<f64>() * seen.factor
}
