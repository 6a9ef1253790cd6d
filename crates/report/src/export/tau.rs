//! TAU's profiles: a file `profile.NODE.CONTEXT.THREAD` for each thread, in a folder `MULTI__NAME` for each quantity, with
//! a row for each path of phases (`a => b => c`) and, for readers of flat profiles, one for each name.
//!
//! The layout is that of TAU's documentation (profile format) and of what hatchet and ParaProf read. Times are whole
//! microseconds; what is exclusive is what is left of the rounded inclusive times, so that it still adds up.

use super::ExportFile;
use crate::phases::{Quantity, flat};
use nearfar_analyze::{Basis, PhaseFigures, PhaseReport, Report};
use std::fmt::Write as _;

/// What TAU calls a thread as a whole.
const ROOT: &str = ".TAU application";

/// The name of a quantity's folder.
fn folder(quantity: Quantity, basis: Basis) -> &'static str {
    match (quantity, basis) {
        (Quantity::Time, _) => "TIME",
        (Quantity::Far, Basis::DramLines) => "HT_LR_MEM_XFR",
        (Quantity::Far, Basis::MemoryLoads) => "FAR_MEMORY_LOADS",
        (Quantity::Near, Basis::DramLines) => "HT_LL_MEM_XFR",
        (Quantity::Near, Basis::MemoryLoads) => "NEAR_MEMORY_LOADS",
        (Quantity::Far, Basis::StallTime) => "FAR_MEMORY_USEC",
        (Quantity::Near, Basis::StallTime) => "NEAR_MEMORY_USEC",
        (Quantity::Samples, _) => "SAMPLES",
        (Quantity::Faults, _) => "PAGE_FAULTS",
        (Quantity::Bytes, _) => "BYTES_ALLOCATED",
    }
}

/// How many of a quantity's units are one of TAU's.
fn unit(quantity: Quantity, basis: Basis) -> u64 {
    match (quantity, basis) {
        (Quantity::Time, _) | (Quantity::Far | Quantity::Near, Basis::StallTime) => 1000,
        _ => 1,
    }
}

/// A name without what ends it or parts it.
fn name(text: &str) -> String {
    text.replace('"', "'").replace("=>", "->").replace(['\n', '\r'], " ")
}

/// The files; `rank`: TAU's node of the first process. Without phases there are none.
pub fn files(report: &Report, rank: u32) -> Vec<ExportFile> {
    let Some(phases) = &report.phases else { return Vec::new() };
    let mut files = Vec::new();
    let mut processes: Vec<u32> = Vec::new();
    let mut threads_of: Vec<usize> = Vec::new();
    for (t, thread) in phases.threads.iter().enumerate() {
        let context = processes.iter().position(|&p| p == thread.pid).unwrap_or_else(|| {
            processes.push(thread.pid);
            threads_of.push(0);
            processes.len() - 1
        });
        let number = threads_of[context];
        threads_of[context] += 1;
        let mut own: Vec<Option<PhaseFigures>> = vec![None; phases.nodes.len()];
        phases.rows.iter().filter(|r| r.thread == t).for_each(|r| own[r.node] = Some(r.figures));
        // A thread's row may be left out of a long table; what is missing is none of its own then.
        own[0] = own[0].or(Some(PhaseFigures::default()));
        for quantity in Quantity::ALL {
            let folder = folder(quantity, phases.basis);
            files.push(ExportFile {
                path: format!("MULTI__{folder}/profile.{rank}.{context}.{number}"),
                bytes: profile(phases, &own, quantity, folder, &thread.name).into_bytes(),
            });
        }
    }
    files
}

fn profile(
    phases: &PhaseReport,
    figures: &[Option<PhaseFigures>],
    quantity: Quantity,
    folder: &str,
    thread: &str,
) -> String {
    let unit = unit(quantity, phases.basis);
    let inclusive: Vec<u64> =
        figures.iter().map(|f| f.map_or(0, |f| quantity.of(&f.inclusive) / unit)).collect();
    let mut inside = vec![0u64; phases.nodes.len()];
    for (i, node) in phases.nodes.iter().enumerate().skip(1) {
        inside[node.parent.unwrap_or(0)] += inclusive[i];
    }
    let mut rows = String::new();
    let mut count = 0;
    let mut row = |text: &str, calls: u64, subrs: u64, exclusive: u64, inclusive: u64, group: &str| {
        count += 1;
        let _ = writeln!(rows, "\"{text}\" {calls} {subrs} {exclusive} {inclusive} 0 GROUP=\"{group}\"");
    };
    let mut paths: Vec<String> = Vec::new();
    for (i, node) in phases.nodes.iter().enumerate() {
        paths.push(match node.parent {
            None => ROOT.to_owned(),
            Some(parent) => format!("{}  => {}", paths[parent], name(&node.name)),
        });
        if let Some(f) = figures[i] {
            let group = if i == 0 { "TAU_DEFAULT" } else { "TAU_CALLPATH|TAU_USER" };
            row(&paths[i], f.calls, f.subrs, inclusive[i].saturating_sub(inside[i]), inclusive[i], group);
        }
    }
    for flat in flat(phases, figures).iter().filter(|r| !r.pair && r.name != crate::phases::WHOLE) {
        let (exclusive, inclusive) =
            (quantity.of(&flat.exclusive) / unit, quantity.of(&flat.inclusive) / unit);
        row(&name(&flat.name), flat.calls, flat.subrs, exclusive, inclusive, "TAU_USER");
    }
    let thread: String =
        thread.chars().filter(|c| !matches!(c, '<' | '>' | '&' | '"') && !c.is_control()).collect();
    format!(
        "{count} templated_functions_MULTI_{folder}\n# Name Calls Subrs Excl Incl ProfileCalls # <metadata><attribute>\
         <name>Metric Name</name><value>{folder}</value></attribute><attribute><name>Executable</name><value>{thread}\
         </value></attribute></metadata>\n{rows}0 aggregates\n0 userevents\n"
    )
}
