//! The whole report for people, with evidence, notes and all tables (`--details`).
//!
//! Order: verdict, what it rests on, findings, objects, which threads used which node's
//! memory, functions, notes. It reads the same without colour.

use super::counted;
use super::layout::{Page, Style, count, percent, percent_ci, plural, units};
use super::sections;
use nearfar_analyze::{
    Basis, CpuTime, ExcerptCounts, Finding, Interval, MayNotWait, Region, Report, SourceUse, THRESHOLD,
    Verdict,
};
use nearfar_figures::percent::range;
use nearfar_machine::assumed::short;

/// The report as text of about `width` columns; `color` adds terminal styles. `name`: the recording's.
pub fn to_details(report: &Report, name: &str, width: usize, color: bool) -> String {
    let report = &super::paths::brief(report);
    let mut page = Page::new(width, color);
    verdict(&mut page, report);
    page.blank();
    run(&mut page, report, name);
    sections::findings(&mut page, report);
    super::whatif::section(&mut page, report);
    counted::sections(&mut page, report);
    // Without samples every share below would be a 0 that was never measured.
    if report.samples() > 0 {
        sections::objects(&mut page, report);
        sections::nodes(&mut page, report);
        sections::functions(&mut page, report);
    }
    super::along::section(&mut page, report);
    sections::notes(&mut page, report);
    page.finish()
}

/// A remote share; what was counted needs no interval, unless something of it is unknown.
pub(super) fn remote(share: Option<f64>, ci: Option<Interval>, exact: bool) -> String {
    match exact && ci.is_some_and(|i| i.high - i.low < 0.0005) {
        true => percent(share),
        false => percent_ci(share, ci),
    }
}

/// How many times farther the lower end of an interval is from the share than the upper end, from which on only the ends are shown. // chosen
const ONE_SIDED: f64 = 3.0;
/// Width of an interval up to which that makes no difference to a reader. // chosen
const NARROW: f64 = 0.05;

/// The share of the time that far memory takes. Samples on far pages that may be computing are in the share and not in the lower end of
/// its interval: where that is most of the interval, the ends say more than the share.
pub(super) fn of_time(r: &Report) -> String {
    match (r.remote_time_share, r.remote_time_share_ci) {
        (Some(share), Some(i))
            if r.basis == Basis::StallTime
                && share - i.low > ONE_SIDED * (i.high - share)
                && i.high - i.low > NARROW =>
        {
            range(i.low, i.high)
        }
        (share, ci) => remote(share, ci, r.remote_share_exact),
    }
}

fn verdict(page: &mut Page, r: &Report) {
    let remote = of_time(r);
    // Of all, unlike the remote share further down, which is of what has a known node: time that is
    // spent on computing or waiting for others is not time that placement could win.
    let shared = r.findings.first().is_some_and(Finding::shares_lines);
    let share = match (r.remote_time_share, r.basis) {
        _ if shared => ": its nodes take cache lines from each other".to_owned(),
        (Some(_), Basis::StallTime) => {
            let whole = if r.verdict == Verdict::Affected { "it" } else { "the time" };
            format!(": {remote} of {whole} goes to far memory")
        }
        (Some(_), Basis::DramLines | Basis::MemoryLoads) => {
            format!(": {remote} of {} is remote", r.basis.words())
        }
        (None, _) => String::new(),
    };
    // What was not measured on the machine that is judged is said as a forecast.
    let name = &r.machine.name;
    let (fine, costs) = match r.machine.assumed {
        true => (
            format!("On {name}, NUMA placement would be fine"),
            format!("On {name}, NUMA placement would cost this program time"),
        ),
        false => ("NUMA placement is fine".to_owned(), "NUMA placement costs this program time".to_owned()),
    };
    let (style, text) = match r.verdict {
        // Far lines that nothing waits for cost nothing, but a reader will want that said.
        Verdict::Clean if r.remote_time_share.is_some_and(|s| s > THRESHOLD) => {
            (Style::Good, format!("{fine}, although {remote} of {} is remote.", r.basis.words()))
        }
        Verdict::Clean => (Style::Good, format!("{fine}{share}.")),
        // Nearly all is near, and yet: the share would say the contrary of the verdict.
        Verdict::Affected if r.findings.first().is_some_and(|f| f.kind == "crowded_memory") => {
            let near = r.remote_time_share.is_some_and(|s| s < THRESHOLD);
            let share = if near {
                format!(", although only {remote} of {} is remote", r.basis.words())
            } else {
                share
            };
            (Style::Bad, format!("{costs}{share}: one node's memory has more to do than the others'."))
        }
        Verdict::Affected => (Style::Bad, format!("{costs}{share}.")),
        Verdict::Unknown if r.ended_early.is_some() => {
            (Style::Unsure, "No verdict on NUMA placement: the run ended early.".to_owned())
        }
        Verdict::Unknown => {
            let why = match r.open_because() {
                Some(MayNotWait::Cached(_)) => {
                    "No verdict on NUMA placement: caches may hold what is on far pages."
                }
                Some(MayNotWait::Computing(_)) => {
                    "No verdict on NUMA placement: code that uses far pages may not wait for them."
                }
                None => {
                    "No verdict: there is too little data to tell whether NUMA placement costs this program time."
                }
            };
            (Style::Unsure, why.to_owned())
        }
    };
    page.headline(style, &text);
    if let Some(early) = r.ended_early.as_deref().filter(|_| r.verdict == Verdict::Affected) {
        page.headline(
            Style::Unsure,
            &format!("The run ended early: {early}. This is about the time up to then."),
        );
    }
    page.item(0, "why", &r.verdict_why);
}

fn run(page: &mut Page, r: &Report, name: &str) {
    let exit = r.exit.as_deref().unwrap_or("exit status unknown");
    let lines = r.basis == Basis::DramLines;
    // The clock of an emulated machine says nothing of the program's own time.
    let length = if lines { String::new() } else { format!(", {:.1} s", r.seconds) };
    super::recorded::line(page, r, name, &format!(" ({exit}{length})"));
    let m = &r.machine;
    let nodes = plural(m.nodes, "node");
    let machine = if m.assumed {
        format!(
            "{} ({nodes}), assumed: threads mapped {}, pages on the node of their first toucher; \
             recorded on {}",
            m.name, m.binding, r.recorded_on
        )
    } else if lines {
        format!("{} ({nodes}), emulated; threads as recorded", m.name)
    } else {
        format!("{} ({nodes}), the one it ran on; threads as recorded", m.name)
    };
    page.item(0, "machine", &machine);
    if let Some(text) = sections::assumed_figures(r) {
        let known = |f: &nearfar_analyze::AssumedFigure| Some(format!("{} {}", f.name, short(f.value?)));
        let values: Vec<String> = m.assumed_figures.iter().filter_map(known).collect();
        page.item(0, "assumed", &format!("{text}: {}", values.join(", ")));
    }
    page.item(0, "basis", &basis_line(r));
    if let Some(cpu) = r.cpu {
        page.item(0, "cpu time", &cpu_line(&cpu));
    }
    if lines {
        counted::time(page, r);
        counted::roofline(page, r);
    }
    if r.samples() == 0 && r.counters.is_none() {
        return;
    }
    let known = remote(r.remote_share, r.remote_share_ci, r.remote_share_exact);
    let remote = match r.remote_share {
        Some(_) if r.remote_share_exact => format!("{known} of the lines from and to DRAM, counted"),
        Some(_) if r.caches.is_some() => {
            format!("{known} of {} are on pages of other nodes, but caches answered", units(r))
        }
        Some(_) => {
            let held = r.caches_may_hold.as_ref().map_or(String::new(), |held| {
                let share = percent(Some(held.far_share));
                format!("; {share} of all samples are on other nodes' pages that a cache may have held")
            });
            let computes = r.loops_may_compute.as_ref().map_or(String::new(), |computed| {
                let share = percent(Some(computed.far_share));
                format!("; {share} of all samples are on other nodes' pages in code that may compute")
            });
            format!("{known} of {} whose page's node is known{held}{computes}", units(r))
        }
        None if r.machine.node_ids.len() == 1 => "nothing can be remote on one node; \
             `nearfar report --as 2x22` judges the same recording on two"
            .to_owned(),
        None if r.counters.is_some() => "unknown: no line with a known node was counted".to_owned(),
        None if r.remote_share_ci.is_some() => format!("unknown: too few {}", units(r)),
        None => "unknown: no sample's page has a known node".to_owned(),
    };
    page.item(0, "remote", &format!("{remote}{}", sections::distances(r)));
    if r.samples() == 0 {
        return;
    }
    let unknown = percent(Some(r.page_node_unknown_share));
    let lost = format!("no object found {}", percent(Some(r.unattributed_share)));
    let rest = match r.basis {
        // Lines that moved touched memory, all of them.
        Basis::DramLines | Basis::MemoryLoads => {
            format!("of {}: page's node unknown {unknown}; {lost}", units(r))
        }
        Basis::StallTime => format!(
            "page's node unknown {unknown} of samples that touch memory; {lost}; computing {}; waiting for other threads {}",
            percent(Some(r.compute_share)),
            percent(Some(r.spinning_share))
        ),
    };
    page.item(0, "the rest", &rest);
    if let Some(excerpts) = &r.excerpts {
        page.item(0, "excerpts", &excerpts_line(excerpts));
    }
}

/// `6 of copies of the running program, 480 million instructions counted with modelled caches (2 more ended too early): at most 1.4 % of the time waits
/// for memory; they cover code with 97 % of the time`.
fn excerpts_line(e: &ExcerptCounts) -> String {
    let short = match e.too_short {
        0 => String::new(),
        n => format!(", and {n} that ended too early"),
    };
    let of = format!("{}{short}: {}; {} million instructions", e.count, e.source, e.instructions / 1_000_000);
    match (&e.waits_at_most_share, &e.why) {
        (Some(share), _) => format!(
            "{of}, in code with {} of the time. {} of the time waits for memory at most",
            percent(Some(e.covered_share)),
            percent(Some(*share))
        ),
        (None, why) => format!(
            "{of}. How much of the time waits is not known: {}",
            why.as_deref().unwrap_or("no reason is given")
        ),
    }
}

/// `4.4 s, of it 3.0 s (68 %) in the kernel with 262,144 page faults`: what shares are not of.
fn cpu_line(cpu: &CpuTime) -> String {
    let share = percent(Some(cpu.kernel_seconds / cpu.seconds));
    let faults = match cpu.page_faults {
        0 => String::new(),
        n => format!(" with {} page faults", count(n)),
    };
    format!(
        "{:.1} s, of it {:.1} s ({share}) in the kernel{faults}; shares are of the time outside the kernel",
        cpu.seconds, cpu.kernel_seconds
    )
}

/// `12 lost`; a recorder that was killed knows of some at most.
fn lost(source: &SourceUse) -> String {
    match (source.lost, source.lost_known) {
        (n, true) => format!("{} lost", count(n)),
        (0, false) => "an unknown number lost".to_owned(),
        (n, false) => format!("at least {} lost", count(n)),
    }
}

/// `share of working time, from 9,100 clock samples at 997 Hz, 0 lost; 94.2 % resolved`.
fn basis_line(r: &Report) -> String {
    let mut parts = Vec::new();
    for source in &r.sources {
        if source.source == "pages" {
            parts.push(format!("{} page events, {}", count(source.samples), lost(source)));
            continue;
        }
        let rate = match source.hz {
            Some(hz) => format!(" at {hz:.0} Hz"),
            None => String::new(),
        };
        let mut part = format!("{} {} samples{rate}, {}", count(source.samples), source.source, lost(source));
        // The virtual machine sees addresses, it need not find them out.
        if source.samples > 0 && source.resolved_share.is_some() && source.source != "simulated" {
            part.push_str(&format!("; {} resolved", percent(source.resolved_share)));
        }
        parts.push(part);
    }
    if parts.is_empty() {
        parts.push("nothing: no source is known to have worked".to_owned());
    }
    let counted = match (&r.counters, r.region) {
        (Some(_), Region::Marked) => ", counted in the region of interest; objects and code",
        (Some(_), Region::Whole) => ", counted in the whole run; objects and code",
        (None, _) => ",",
    };
    format!("share of {}{counted} from {}", r.basis.words(), parts.join("; "))
}
