//! Cases 7 to 9: what counters showed on two Xeons E5-2650 v3 (document 001).

use super::case::*;
use super::seen::*;

pub(super) fn draft(id: u8, sights: &Sights) -> Result<Draft, String> {
    let mut draft = Draft::default();
    match id {
        7 => {
            draft.about = Some("phase1-remote");
            let (far, near) = (sights.get("phase1-remote")?, sights.get("phase1-local")?);
            let idle = far.sum(|l| l.node != 0);
            draft.rows.push(relation(
                "lines moved by node 1's cores",
                "none",
                idle,
                "lines",
                idle < 1e-3 * far.sum(|_| true),
            ));
            let share = far.remote();
            draft.rows.push(relation(
                "remote lines, memory on node 1",
                "remote accesses",
                100.0 * share,
                "%",
                share > 0.95,
            ));
            let local = near.remote();
            draft.rows.push(relation(
                "the same, memory on node 0",
                "local only",
                100.0 * local,
                "%",
                local < 0.02,
            ));
            let (low, high) = (ipc(far)?, ipc(near)?);
            draft.rows.push(shown("instructions per cycle, memory on node 1", "about 0.5", low, "IPC"));
            draft.rows.push(relation("the same, memory on node 0", "up", high, "IPC", high > 1.03 * low));
            draft.notes.push(
                "The IPC itself depends on the instructions that a compiler makes of the loop, which are not published; \
                 ours has four elements per instruction.",
            );
        }
        8 => {
            draft.about = Some("phase2-remote");
            let seen = sights.get("phase2-remote")?;
            let lines = seen.lines();
            let of = |page_node: usize, f: fn(&Lines) -> f64| {
                lines.iter().filter(|l| l.page_node == page_node).map(f).sum::<f64>()
            };
            let (read, written) = (|l: &Lines| l.read, |l: &Lines| l.written + l.streamed);
            let here = of(0, written) / (of(0, written) + of(1, written));
            let claim = "on socket 0's controllers";
            draft.rows.push(relation("writes on socket 0", claim, 100.0 * here, "%", here > 0.9));
            let there = of(1, read) / (of(0, read) + of(1, read));
            let claim = "on socket 1's controllers";
            draft.rows.push(relation("reads on socket 1", claim, 100.0 * there, "%", there > 0.45));
            let only_read = of(1, read) / (of(1, read) + of(1, written));
            draft.rows.push(relation(
                "of socket 1's traffic, reads",
                "reads",
                100.0 * only_read,
                "%",
                only_read > 0.85,
            ));
            draft.notes.push(
                "Regular stores read a line before they write it, so socket 0 has as many reads as writes; the document's \
                 figure does not show them apart. What socket 1 writes are lines that phase 1 left dirty in the caches.",
            );
        }
        _ => {
            draft.about = Some("rows");
            let hits = |name| Ok::<f64, String>(100.0 * sights.get(name)?.second_level_hits());
            let rows = hits("rows")?;
            draft.rows.push(relation("L2 hits, by rows", "about 100", rows, "%", rows > 85.0));
            let column = hits("first-column")?;
            draft.rows.push(relation(
                "L2 hits, the document's columns",
                "about 0",
                column,
                "%",
                column < 10.0,
            ));
            let columns = hits("columns")?;
            draft.rows.push(relation("L2 hits, real columns", "about 0", columns, "%", columns < 10.0));
            draft.rows.push(shown(
                "L2 hits, by rows, without prefetcher",
                "",
                hits("rows-without-prefetcher")?,
                "%",
            ));
            for (what, name) in [("the document's columns", "first-column"), ("real columns", "columns")] {
                let third = 100.0 * sights.get(name)?.third_level_hits();
                draft.rows.push(shown(&format!("L3 hits, {what}"), "", third, "%"));
            }
            draft.notes.push(
                "The document's column loop leaves out the column: it reads the first one again and again, 3.2 MB of lines, \
                 which the L3 holds. And the hits by rows are the prefetcher's: without it there are none.",
            );
        }
    }
    Ok(draft)
}

/// Instructions per cycle of the cores that worked.
fn ipc(seen: &Seen) -> Result<f64, String> {
    let busy: f64 = seen.busy_seconds()?.iter().map(|(_, s)| s).sum();
    Ok(seen.instructions() / (busy * seen.time()?.clock_ghz * 1e9))
}
