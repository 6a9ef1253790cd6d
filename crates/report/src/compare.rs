//! Two recordings side by side, for people and for programs.

use super::counted::{many, resource, seconds, volume};
use super::layout::*;
use nearfar_analyze::{Basis, Interval, Region, base};
use nearfar_compare::{Change, Comparison, NodeChange, PhaseChange, PhaseSide, RowChange, RowSide, Side};

/// Rows have at least this share on one side; the JSON has them all.
const LEAST: f64 = 0.01;
/// Rows of a table at most.
const ROWS: usize = 10;
/// Columns of the shares, of the remote shares (with intervals), of the far lines or bytes, and of the word.
const SHARE: usize = 17;
const REMOTE: usize = 18;
const REMOTE_CI: usize = 41;
const FAR: usize = 20;
const WORD: usize = 13;

/// As JSON, indented, with a final line feed.
pub fn to_json(c: &Comparison) -> String {
    nearfar_figures::json::pretty(c)
}

/// As text of about `width` columns; `color` adds terminal styles.
pub fn to_text(c: &Comparison, width: usize, color: bool) -> String {
    let mut page = Page::new(width, color);
    let (style, word) = match c.verdict {
        Change::Repaired => (Style::Good, "Repaired"),
        Change::Better => (Style::Good, "Better"),
        Change::Worse => (Style::Bad, "Worse"),
        Change::NoEffect => (Style::Heading, "No effect"),
        _ => (Style::Unsure, "Unknown whether it is better or worse"),
    };
    // `< 0.1 %` stays together.
    page.headline(style, &format!("{word}: {}.", c.why).replace("< ", "<\u{a0}"));
    page.blank();
    head(&mut page, c);
    if !c.warnings.is_empty() {
        page.heading("Mind");
        c.warnings.iter().for_each(|w| page.bullet(w));
    }
    let table = Columns::new(page.width, c);
    rows(&mut page, &table, "Objects, before → after", &c.objects);
    nodes(&mut page, &table, &c.nodes);
    rows(&mut page, &table, "Functions", &c.functions);
    phases(&mut page, c);
    page.finish()
}

fn head(page: &mut Page, c: &Comparison) {
    let (b, a) = (&c.before, &c.after);
    for (label, s) in [("before", b), ("after", a)] {
        let name = if s.recording.is_empty() { String::new() } else { format!("{}: ", s.recording) };
        let command = match s.command.split_first() {
            None => "(attached)".to_owned(),
            Some((program, words)) => {
                let room = page.width.saturating_sub(10 + columns(&name)).max(30);
                shorten(&format!("{} {}", base(program), words.join(" ")), room)
            }
        };
        page.item(0, label, &format!("{name}{}", command.trim_end()));
    }
    let machine = |s: &Side| format!("{}{}", s.machine, if s.assumed { ", assumed" } else { "" });
    page.item(0, "machine", &both(machine(b), machine(a)));
    page.item(0, "basis", &both(basis(b), basis(a)));
    page.item(0, "time", &time(c));
    let of = match b.basis {
        Basis::DramLines => "of the lines from and to DRAM",
        Basis::MemoryLoads => "of the loads that memory answered",
        Basis::StallTime => "of all working time",
    };
    let remote = match &c.remote_why {
        Some(why) => format!("not compared: {why}"),
        None => format!("{} {of}", arrow(share_ci(b), share_ci(a))),
    };
    page.item(0, "remote", &remote);
    if let (Some(x), Some(y)) = (b.dram, a.dram) {
        let text = format!(
            "{} within nodes, {} between nodes",
            arrow(volume(x.local), volume(y.local)),
            arrow(volume(x.remote), volume(y.remote))
        );
        page.item(0, "traffic", &text);
    }
}

/// Once if it is the same.
fn both(before: String, after: String) -> String {
    if before == after { before } else { arrow(before, after) }
}

fn arrow(before: String, after: String) -> String {
    format!("{before} → {after}")
}

fn share_ci(s: &Side) -> String {
    with_ci(s.remote_share, s.remote_share_ci)
}

/// A counted share needs no interval.
fn with_ci(share: Option<f64>, ci: Option<Interval>) -> String {
    super::text::remote(share, ci, true)
}

/// `share of DRAM traffic in the marked region, from simulated samples`.
fn basis(s: &Side) -> String {
    let what = s.basis.words();
    let region = match s.region {
        Region::Marked => "the region of interest that the program marks",
        Region::Whole => "the whole run",
    };
    let sources = if s.sources.is_empty() { "no".to_owned() } else { s.sources.join(" and ") };
    format!("{what} of {region}, {sources} samples")
}

fn time(c: &Comparison) -> String {
    let (b, a) = (&c.before, &c.after);
    if let (Some(x), Some(y)) = (&b.time, &a.time) {
        let times = arrow(seconds(x.seconds, x.low, x.high), seconds(y.seconds, y.low, y.high));
        let bound = both(resource(x.binds), resource(y.binds));
        let compared = match (&c.time_why, b.machine == a.machine) {
            (Some(why), _) => format!("not compared: {why}"),
            (None, true) => {
                "the ranges are of the machine's figures, which move both alike: best guesses are \
                             compared"
                    .to_owned()
            }
            (None, false) => "the ranges are of each machine's figures".to_owned(),
        };
        return format!("{times}, bound by {bound}; {compared}");
    }
    let clock = |of: fn(&Side) -> Option<f64>, what: &str| {
        let (x, y) = (of(b)?, of(a)?);
        Some(format!("{what} {x:.1} → {y:.1} s"))
    };
    let parts: Vec<String> =
        [clock(|s| s.wall_seconds, "wall"), clock(|s| s.cpu_seconds, "CPU of the samples")]
            .into_iter()
            .flatten()
            .collect();
    let why = c.time_why.as_deref().unwrap_or("unknown");
    match parts.is_empty() {
        true => format!("not compared: {why}"),
        false => format!(
            "{}; one run of each proves nothing: `nearfar check` times a program again and again",
            parts.join(", ")
        ),
    }
}

/// What fits beside the names.
struct Columns {
    name: usize,
    remote: usize,
    far: bool,
}

impl Columns {
    fn new(width: usize, c: &Comparison) -> Columns {
        let lines = c.before.dram.is_some() && c.after.dram.is_some();
        let remote = match lines {
            true => REMOTE,
            false if width >= 96 => REMOTE_CI,
            false => REMOTE,
        };
        let far = lines && width >= 88;
        let taken = SHARE + remote + WORD + if far { FAR } else { 0 };
        Columns { name: width.saturating_sub(taken).clamp(12, 48), remote, far }
    }

    fn heading(&self, page: &mut Page, what: &str, far: &str) {
        page.heading(&format!(
            "{}{}{}{}",
            left(what, self.name),
            right("share", SHARE),
            right("remote", self.remote),
            if self.far { right(far, FAR) } else { String::new() },
        ));
    }

    fn line(&self, page: &mut Page, name: &str, [share, remote, far]: [String; 3], change: Change) {
        let far = if self.far { right(&far, FAR) } else { String::new() };
        page.line(&format!(
            "{}{}{}{far}  {}",
            left(&shorten(name, self.name - 1), self.name),
            right(&share, SHARE),
            right(&remote, self.remote),
            change.words()
        ));
    }

    fn remote(&self, share: Option<f64>, ci: Option<Interval>) -> String {
        // Intervals of rows are for what is sampled, where there is room.
        match self.remote == REMOTE_CI {
            true => with_ci(share, ci),
            false => percent(share),
        }
    }
}

/// `12.3 → 4.5 %`; a side without it is a dash.
fn sides(before: Option<String>, after: Option<String>) -> String {
    let text = |s: Option<String>| s.unwrap_or_else(|| "–".to_owned());
    let (b, a) = (text(before), text(after));
    // The unit once.
    match (b.strip_suffix(" %"), a.ends_with(" %")) {
        (Some(number), true) => format!("{number} → {a}"),
        _ => format!("{b} → {a}"),
    }
}

fn rows(page: &mut Page, columns: &Columns, what: &str, all: &[RowChange]) {
    let share =
        |r: &RowChange| [&r.before, &r.after].into_iter().flatten().fold(0.0, |m: f64, s| m.max(s.share));
    let large: Vec<&RowChange> = all.iter().filter(|r| share(r) >= LEAST).collect();
    if large.is_empty() {
        return;
    }
    columns.heading(page, what, "remote lines");
    for r in large.iter().take(ROWS) {
        let of = |f: &dyn Fn(&RowSide) -> String| sides(r.before.as_ref().map(f), r.after.as_ref().map(f));
        let cells = [
            of(&|s| percent(Some(s.share))),
            of(&|s| columns.remote(s.remote_share, s.remote_share_ci)),
            of(&|s| s.remote_lines.map_or("unknown".to_owned(), many)),
        ];
        columns.line(page, &named(r), cells, r.change);
    }
    let rest = all.len() - large.len().min(ROWS);
    if rest > 0 {
        let most = if large.len() > ROWS { String::new() } else { " with less than 1 % each".to_owned() };
        page.line(&format!("and {rest} more{most} (--json)"));
    }
}

/// `a (triad.cpp:109)`, files without their folders.
fn named(r: &RowChange) -> String {
    let name = match r.name.strip_prefix("allocation at ") {
        // The name says where.
        Some(at) => return format!("allocation at {}", base(at)),
        None if r.name.starts_with('/') => base(&r.name).to_owned(),
        None => r.name.clone(),
    };
    r.at.as_deref().map_or(name.clone(), |at| format!("{name} ({})", base(at)))
}

fn nodes(page: &mut Page, columns: &Columns, all: &[NodeChange]) {
    columns.heading(page, "Memory of", "from other nodes");
    for n in all {
        let name = match (n.node, n.node_after) {
            (Some(b), Some(a)) if b != a => format!("node {b} ({a} after)"),
            (Some(id), _) | (None, Some(id)) => format!("node {id}"),
            (None, None) => continue,
        };
        let threads = |s: &Option<nearfar_compare::NodeSide>| s.as_ref().map_or(0, |s| s.threads);
        let (b, a) = (threads(&n.before), threads(&n.after));
        let threads = if b == a { plural(b, "thread") } else { format!("{b} → {a} threads") };
        let of = |f: &dyn Fn(&nearfar_compare::NodeSide) -> String| {
            sides(n.before.as_ref().map(f), n.after.as_ref().map(f))
        };
        // Without traffic no remote share exists: a dash, as it is not unknown.
        let remote = |s: &nearfar_compare::NodeSide| match s.remote_share {
            None if s.share == 0.0 => "–".to_owned(),
            share => columns.remote(share, s.remote_share_ci),
        };
        let cells = [
            of(&|s| percent(Some(s.share))),
            of(&remote),
            of(&|s| s.dram.map_or("unknown".to_owned(), |d| volume(d.remote))),
        ];
        columns.line(page, &format!("{name}, {threads}"), cells, n.change);
    }
}

/// Most phases that are printed; the JSON has all.
const MOST_PHASES: usize = 12;
/// Columns of a phase's figures, and fewest of its path beside them.
const PHASE_FIGURES: usize = 58;
const LEAST_PATH: usize = 24;

/// Calls, time and far memory of the phases that took most of the time.
fn phases(page: &mut Page, c: &Comparison) {
    if c.phases.is_empty() {
        return;
    }
    let longest = |p: &PhaseChange| {
        let own = |s: &Option<PhaseSide>| s.as_ref().map_or(0.0, |s| s.exclusive_s);
        own(&p.before).max(own(&p.after))
    };
    let mut order: Vec<usize> = (0..c.phases.len()).collect();
    order.sort_by(|&a, &b| longest(&c.phases[b]).total_cmp(&longest(&c.phases[a])));
    order.truncate(MOST_PHASES);
    order.sort_unstable();
    let narrow = page.width < PHASE_FIGURES + 3 + LEAST_PATH;
    let name = if narrow { "" } else { "   phase" };
    page.heading(&format!("{}{}{}{name}", right("calls", 16), right("own time", 22), right("far", 20)));
    for i in order {
        let p = &c.phases[i];
        let text = |of: &dyn Fn(&PhaseSide) -> String| {
            let side = |s: &Option<PhaseSide>| s.as_ref().map_or("-".to_owned(), of);
            arrow(side(&p.before), side(&p.after))
        };
        let figures = format!(
            "{}{}{}",
            right(&text(&|s| s.calls.to_string()), 16),
            right(&text(&|s| format!("{:.3} s", s.exclusive_s)), 22),
            right(&text(&|s| percent(s.far_share)), 20),
        );
        if narrow {
            // A narrow page has the name above its figures.
            page.line(&shorten(&p.path, page.width));
            page.line(&figures);
        } else {
            page.line(&format!("{figures}   {}", shorten(&p.path, page.width - PHASE_FIGURES - 3)));
        }
    }
}
