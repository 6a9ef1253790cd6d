//! Case 17: copies from each cpu with memory of each cpu's node, two Opterons 285 (document 004).

use super::case::*;
use super::seen::*;

/// The document's times, s: mean of local copies 7.88 to 7.97, of remote ones 10.26 to 10.35; and lines from a
/// memory to the other node's cpus in a remote test: 3 for each of the 40 · 2^22 copied.
const LOCAL: f64 = 7.94;
const REMOTE: f64 = 10.31;
const TRANSFERS: f64 = 5.04e8;

pub(super) fn draft(sights: &Sights) -> Result<Draft, String> {
    let (mut near, mut far) = (Vec::new(), Vec::new());
    let (mut moved, mut kept) = (Vec::new(), Vec::new());
    for memory in 0..4u16 {
        let seen = sights.get(&format!("copy-{memory}"))?;
        for cpu in 0..4u16 {
            let own = seen.of_cpus(|c| c == cpu);
            let t = own.time()?;
            let seconds = [t.low, t.seconds, t.high].map(|s| s * seen.repeat);
            let lines = own.sum(Lines::is_remote) * seen.repeat;
            let is_near = seen.node_of(cpu) == seen.node_of(memory);
            if is_near { &mut near } else { &mut far }.push(seconds);
            if is_near { &mut kept } else { &mut moved }.push(lines);
        }
    }
    let mean = |of: &[[f64; 3]], at: usize| of.iter().map(|s| s[at]).sum::<f64>() / of.len() as f64;
    let row = |what: &str, published, of: &[[f64; 3]]| {
        number(what, published, mean(of, 1), "s").within(mean(of, 0), mean(of, 2))
    };
    let lines = moved.iter().sum::<f64>() / moved.len() as f64;
    let most = kept.iter().copied().fold(0.0, f64::max);
    let rows = vec![
        row("8 local tests, mean", LOCAL, &near),
        row("8 remote tests, mean", REMOTE, &far),
        number("remote over local", REMOTE / LOCAL, mean(&far, 1) / mean(&near, 1), "×"),
        number("lines to and from the other node, remote test", TRANSFERS, lines, "lines"),
        relation("the same, local test, most", "at most 7E6", most, "lines", most < 7.1e6),
    ];
    Ok(Draft {
        about: Some("copy-0"),
        rows,
        notes: vec![
            "5.05E8 are three lines per line copied: read, read for ownership, written back. Today's memcpy streams large \
             copies and moves two.",
        ],
        explained: None,
    })
}
