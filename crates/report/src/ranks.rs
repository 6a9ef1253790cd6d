//! A run of several ranks, for people and for programs.

use super::layout::*;
use nearfar_analyze::Verdict;
use nearfar_compare::ranks::{RankRow, Run, Spread, State};
use std::collections::BTreeMap;

/// Rows of a list at most; the JSON has them all.
const ROWS: usize = 20;
/// Objects that cost less far time than this in every rank are not listed. // chosen
const LEAST: f64 = 0.01;
/// Columns of a name beside its figures at least.
const NAME: usize = 14;

/// As JSON, indented, with a final line feed.
pub fn to_json(run: &Run) -> String {
    nearfar_figures::json::pretty(run)
}

/// As text of about `width` columns; `color` adds terminal styles. `name` is what the run is called on the command line.
pub fn to_text(run: &Run, name: &str, width: usize, color: bool) -> String {
    let mut page = Page::new(width, color);
    headline(&mut page, run);
    page.blank();
    head(&mut page, run);
    dead(&mut page, run);
    differing(&mut page, run);
    table(&mut page, run);
    classes(&mut page, run);
    objects(&mut page, run);
    phases(&mut page, run);
    counted(&mut page, run);
    if !run.notes.is_empty() {
        page.heading("Notes");
        run.notes.iter().for_each(|note| page.bullet(note));
    }
    page.blank();
    let name = nearfar_figures::shell::quoted(name);
    page.paragraph(&format!(
        "One rank: nearfar report {name} --rank N. All figures: nearfar report {name} --json."
    ));
    page.finish()
}

fn headline(page: &mut Page, run: &Run) {
    let of = |verdict| -> Vec<u32> {
        run.ranks.iter().filter(|r| r.verdict == Some(verdict)).map(|r| r.rank).collect()
    };
    let (affected, clean, unknown) = (of(Verdict::Affected), of(Verdict::Clean), of(Verdict::Unknown));
    let judged = affected.len() + clean.len() + unknown.len();
    let count = |ranks: &[u32]| format!("{} of {judged} ranks", ranks.len());
    let (style, text) = if judged == 0 {
        (Style::Unsure, "No verdict: no rank has a summary.".to_owned())
    } else if !affected.is_empty() {
        (
            Style::Bad,
            format!("Affected: far memory costs {} time (rank {}).", count(&affected), list(&affected)),
        )
    } else if run.verdict() == Verdict::Clean {
        (Style::Good, format!("Clean: {}.", count(&clean)))
    } else if unknown.is_empty() {
        let known = plural(clean.len(), "rank");
        (
            Style::Unsure,
            format!(
                "No verdict for the run: what is known of {known} is clean; others ended early, are missing or unknown."
            ),
        )
    } else if clean.is_empty() {
        let why = run.ranks.iter().find_map(|r| r.verdict_why.as_deref()).unwrap_or_default();
        (Style::Unsure, format!("No verdict for any rank. Rank {}: {why}", unknown[0]))
    } else {
        (
            Style::Unsure,
            format!("No verdict for {} (rank {}); the others are clean.", count(&unknown), list(&unknown)),
        )
    };
    page.headline(style, &text);
}

fn head(page: &mut Page, run: &Run) {
    let hosts = hosts(run).len();
    let command = match run.command.split_first() {
        None => "unknown".to_owned(),
        Some((program, words)) => {
            let all = format!("{} {}", nearfar_analyze::base(program), words.join(" "));
            shorten(all.trim_end(), page.width.saturating_sub(12).max(30))
        }
    };
    page.item(0, "command", &command);
    let size = run.size.map_or("an unknown number of".to_owned(), |n| n.to_string());
    page.item(
        0,
        "ranks",
        &format!(
            "{} of {size} recorded, on {}; {} {}",
            run.ranks.len(),
            plural(hosts, "host"),
            run.launcher,
            run.launch
        ),
    );
    if let Some(machine) = &run.judged_on {
        page.item(0, "machine", &format!("{machine}{}", if run.assumed { ", assumed" } else { "" }));
    }
    let seconds = |x: f64| format!("{x:.2} s");
    spread(page, "time", run.seconds, seconds, run.ranks.len());
    spread(page, "cpu time", run.cpu_seconds, seconds, run.ranks.len());
    spread(page, "at risk", run.far_share, |x| percent(Some(x)), run.ranks.len());
    waiting(page, run);
}

/// Ranks that wait for others at least so long are said to. // chosen: as in a report of one
const WAITING: f64 = 0.05;

/// How long ranks wait for each other, and who is waited for: the rank that waits least has most to do, or is late.
fn waiting(page: &mut Page, run: &Run) {
    let Some(share) = run.waiting_share.filter(|share| share.max >= WAITING) else { return };
    let by = |most: bool| {
        let known = run.ranks.iter().filter_map(|rank| Some((rank.rank, rank.waiting_share?)));
        let key = |x: f64| if most { -x } else { x };
        known.min_by(|a, b| key(a.1).total_cmp(&key(b.1))).map(|(rank, _)| rank)
    };
    let who = match (by(false), by(true)) {
        (Some(least), Some(most)) if share.max - share.min >= WAITING => {
            format!(", least in rank {least}, most in rank {most}")
        }
        _ => String::new(),
    };
    let [min, median, max] = [share.min, share.median, share.max].map(|x| percent(Some(x)));
    page.item(
        0,
        "waiting",
        &format!("for other threads or ranks: min {min}, median {median}, max {max} of the time{who}"),
    );
}

fn spread(page: &mut Page, label: &str, spread: Option<Spread>, word: impl Fn(f64) -> String, ranks: usize) {
    let text = match spread {
        None => "unknown".to_owned(),
        Some(s) => {
            let unknown = ranks as u64 - s.ranks.min(ranks as u64);
            let more = if unknown > 0 {
                format!("; unknown of {}", plural(unknown as usize, "rank"))
            } else {
                String::new()
            };
            match [s.min, s.median, s.max].map(word) {
                [min, _, max] if min == max => format!("{min} in each{more}"),
                [min, median, max] => format!("min {min}, median {median}, max {max}{more}"),
            }
        }
    };
    page.item(0, label, &text);
}

/// What was counted of each host, and by which rank.
fn counted(page: &mut Page, run: &Run) {
    let counted: Vec<_> = run.hosts.iter().filter(|host| !host.by.is_empty()).collect();
    if counted.is_empty() {
        return;
    }
    page.heading("Counted of each host, with all other programs");
    for host in counted.iter().take(ROWS) {
        let by: Vec<String> =
            host.by.iter().map(|by| format!("rank {} for {:.1} s", by.rank, by.seconds)).collect();
        page.item(0, &host.host, &format!("counted by {}", by.join(", then ")));
        let known = host.values.iter().filter(|v| v.value.is_some_and(|n| n > 0.0));
        let words: Vec<String> = known.take(ROWS).map(super::along::placed).collect();
        let unknown: Vec<&str> =
            host.values.iter().filter(|v| v.value.is_none()).map(|v| v.name.as_str()).collect();
        if !words.is_empty() {
            page.item(3, "", &words.join("; "));
        }
        if !unknown.is_empty() {
            page.item(3, "unknown", &unknown.join(", "));
        }
        // One of the ranks that counted in turn could not.
        let partly = host.values.iter().filter(|v| v.value.is_some() && v.why.is_some());
        let partly: Vec<&str> = partly.map(|v| v.name.as_str()).collect();
        if !partly.is_empty() {
            page.item(3, "partly known", &partly.join(", "));
        }
    }
    if counted.len() > ROWS {
        page.line(&format!("   and {} more hosts in the JSON", counted.len() - ROWS));
    }
}

/// Ranks without a complete recording, by what became of them.
fn dead(page: &mut Page, run: &Run) {
    let mut by_end: BTreeMap<(State, &str), Vec<u32>> = BTreeMap::new();
    for row in run.ranks.iter().filter(|r| r.state != State::Complete) {
        by_end.entry((row.state, &row.end)).or_default().push(row.rank);
    }
    let missing = run.missing_count.unwrap_or(0);
    if by_end.is_empty() && missing == 0 {
        return;
    }
    page.heading("Ranks that did not end well");
    for ((state, end), ranks) in by_end {
        let word = match state {
            State::Complete | State::Failed => "failed",
            State::Killed => "killed",
            State::Unfinished => "unfinished",
            State::Running => "running",
            State::OtherVersion => "not readable by this version",
            State::Damaged => "damaged",
        };
        page.bullet(&format!("{word}: rank {} ({end})", list(&ranks)));
    }
    if missing > 0 {
        let more = missing - run.missing.len() as u64;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        page.bullet(&format!("missing: rank {}{more} (no recording)", list(&run.missing)));
    }
}

fn differing(page: &mut Page, run: &Run) {
    let rows: Vec<&RankRow> = run.ranks.iter().filter(|r| !r.differs.is_empty()).collect();
    if rows.is_empty() {
        return;
    }
    page.heading("Ranks that differ from most");
    for row in rows.iter().take(ROWS) {
        page.bullet(&format!("rank {} ({}): {}", row.rank, row.host, row.differs.join("; ")));
    }
    if rows.len() > ROWS {
        page.bullet(&format!("and {} more", rows.len() - ROWS));
    }
}

fn hosts(run: &Run) -> BTreeMap<&str, Vec<&RankRow>> {
    let mut hosts: BTreeMap<&str, Vec<&RankRow>> = BTreeMap::new();
    for row in &run.ranks {
        hosts.entry(&row.host).or_default().push(row);
    }
    hosts
}

/// Hosts by ranks: a character a rank.
fn table(page: &mut Page, run: &Run) {
    page.heading("Time at risk on far memory, by host and rank");
    let hosts = hosts(run);
    let name = hosts.keys().map(|h| columns(h)).max().unwrap_or(0).clamp(4, 24);
    let numbers = 14;
    let room = page.width.saturating_sub(name + numbers + 4).max(16);
    for (host, rows) in &hosts {
        for (i, part) in rows.chunks(room).enumerate() {
            let host = if i == 0 { shorten(host, name) } else { String::new() };
            let ranks: Vec<u32> = part.iter().map(|r| r.rank).collect();
            let cells: String = part.iter().map(|r| cell(r)).collect();
            page.line(&format!(
                "{}  {}  {cells}",
                left(&host, name),
                left(&shorten(&list(&ranks), numbers), numbers)
            ));
        }
    }
    page.paragraph(
        "One character a rank: . below 1 %, - below 10 %, 1 to 9 tens of percent, ? unknown, x no summary.",
    );
}

fn cell(row: &RankRow) -> char {
    match (row.verdict, row.far_share) {
        (None, _) => 'x',
        (Some(_), None) => '?',
        (_, Some(share)) if share < 0.01 => '.',
        (_, Some(share)) if share < 0.1 => '-',
        (_, Some(share)) => char::from_digit(((share * 10.0) as u32).min(9), 10).unwrap_or('?'),
    }
}

fn classes(page: &mut Page, run: &Run) {
    if run.classes.len() < 2 {
        return;
    }
    page.heading("Ranks that are alike");
    for class in run.classes.iter().take(ROWS) {
        let text = format!(
            "{}: rank {}: {}",
            plural(class.ranks.len(), "rank"),
            list(&class.ranks),
            nearfar_compare::ranks::words_of(class)
        );
        page.bullet(&text);
    }
    if run.classes.len() > ROWS {
        page.bullet(&format!("and {} more", run.classes.len() - ROWS));
    }
}

/// `0.08 / 0.32 / 0.56`: minimum, median and maximum over the ranks; one figure where they are the same.
fn over(spread: Option<Spread>, word: &dyn Fn(f64) -> String) -> String {
    let Some(s) = spread else { return "unknown".to_owned() };
    let all = [s.min, s.median, s.max].map(word);
    if all[0] == all[2] { all[0].clone() } else { all.join(" / ") }
}

/// `10 / 12 / 15 %`.
fn percents(spread: Option<Spread>) -> String {
    let text = over(spread, &|x| percent(Some(x)));
    // The unit once: it is the same for all.
    let units = text.matches(" %").count();
    text.replacen(" %", "", units.saturating_sub(1))
}

/// Names on the left, their figures on the right. A name that has no room beside them has lines of its own.
fn figures(page: &mut Page, heads: &[&str], rows: &[(String, Vec<String>)]) {
    let widest =
        |i: usize| rows.iter().map(|row| columns(&row.1[i])).max().unwrap_or(0).max(columns(heads[i + 1]));
    let widths: Vec<usize> = (0..heads.len() - 1).map(|i| widest(i) + 2).collect();
    let longest = rows.iter().map(|row| columns(&row.0)).max().unwrap_or(0);
    let name = page.width.saturating_sub(widths.iter().sum()).min(longest.max(columns(heads[0]))).max(NAME);
    let line = |what: &str, figures: &[String]| {
        let figures: String = figures.iter().zip(&widths).map(|(text, &width)| right(text, width)).collect();
        format!("{}{figures}", left(what, name))
    };
    let head: Vec<String> = heads[1..].iter().map(|head| head.to_string()).collect();
    page.line(&line(heads[0], &head));
    for (what, cells) in rows {
        let mut lines = wrap(what, name);
        let last = shorten(&lines.pop().unwrap_or_default(), name);
        lines.iter().for_each(|text| page.line(&shorten(text, page.width)));
        page.line(&line(&last, cells));
    }
}

/// What is only of some ranks.
fn among(ranks: u64, run: &Run) -> String {
    match ranks as usize == run.ranks.len() {
        true => String::new(),
        false => format!(" (in {} of {})", ranks, plural(run.ranks.len(), "rank")),
    }
}

fn rank(number: Option<u32>) -> String {
    number.map_or("unknown".to_owned(), |rank| rank.to_string())
}

fn objects(page: &mut Page, run: &Run) {
    let costs =
        |o: &&nearfar_compare::ranks::CommonObject| o.far_time_share.is_some_and(|far| far.max >= LEAST);
    let rows: Vec<(String, Vec<String>)> = run
        .objects
        .iter()
        .filter(costs)
        .take(ROWS / 2)
        .map(|o| {
            let at = o.allocated_at.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
            let figures = vec![percents(Some(o.time_share)), percents(o.far_time_share), rank(o.worst_rank)];
            (format!("{}{at}{}", o.name, among(o.ranks, run)), figures)
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    page.heading("Objects on far pages, over ranks: min / median / max");
    figures(page, &["", "time", "at risk", "most in rank"], &rows);
}

fn phases(page: &mut Page, run: &Run) {
    if run.phases.is_empty() {
        return;
    }
    page.heading("Phases, over ranks: min / median / max");
    let seconds = |s: Option<Spread>| over(s, &|x| format!("{x:.2}"));
    let shown = &run.phases[..run.phases.len().min(ROWS / 2)];
    // Of phases with none inside both are the same.
    let nested = shown.iter().any(|p| seconds(p.own_seconds) != seconds(p.seconds));
    let rows: Vec<(String, Vec<String>)> = shown
        .iter()
        .map(|phase| {
            let mut figures = vec![seconds(phase.own_seconds)];
            if nested {
                figures.push(seconds(phase.seconds));
            }
            figures.push(over(phase.calls, &|x| count(x.round() as u64)));
            figures.push(percents(phase.far_share));
            figures.push(rank(phase.longest_rank));
            (format!("{}{}", phase.name, among(phase.seconds.map_or(0, |s| s.ranks), run)), figures)
        })
        .collect();
    let mut heads = vec!["", "own time, s", "calls", "far", "longest in rank"];
    if nested {
        heads.insert(2, "in all, s");
    }
    figures(page, &heads, &rows);
    if run.phases.len() > shown.len() {
        page.line(&format!("and {} more in the JSON", run.phases.len() - shown.len()));
    }
}

/// `0-3,7`.
fn list(ranks: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match parts.last_mut() {
            Some(part) if part.1.checked_add(1) == Some(rank) => part.1 = rank,
            _ => parts.push((rank, rank)),
        }
    }
    let word = |&(from, to): &(u32, u32)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    parts.iter().map(word).collect::<Vec<_>>().join(",")
}
