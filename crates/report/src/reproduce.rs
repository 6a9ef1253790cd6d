//! Published results beside ours, for people and for programs.

use super::counted::{digits, resource};
use super::layout::{Page, Style, columns, left, right};
use nearfar_compare::reproduce::{Case, Kind, Reproduction, Row, TOLERANCE, Value};
use nearfar_figures::json::pretty;

/// Columns of published, obtained and error.
const PUBLISHED: usize = 11;
const OBTAINED: usize = 31;
const ERROR: usize = 11;

/// As JSON, indented, with a final line feed.
pub fn to_json(r: &Reproduction) -> String {
    pretty(r)
}

/// As text of about `width` columns; `color` adds terminal styles.
pub fn to_text(r: &Reproduction, width: usize, color: bool) -> String {
    let mut page = Page::new(width, color);
    let held = r.cases.iter().filter(|c| c.holds).count();
    let explained = r.cases.iter().filter(|c| !c.holds && c.explained.is_some()).count();
    let failed = r.cases.len() - held - explained;
    let style = if failed == 0 { Style::Good } else { Style::Bad };
    let mut text = format!("{held} of {} cases hold", r.cases.len());
    if explained > 0 {
        text +=
            &format!(", {explained} {} not, which is explained", if explained == 1 { "does" } else { "do" });
    }
    if failed > 0 {
        text += &format!(", {failed} {} not", if failed == 1 { "does" } else { "do" });
    }
    page.headline(style, &(text + "."));
    page.paragraph(&format!(
        "Numbers hold within {:.0} % of the published ones. Counts are exact; times are of the time model, with the range \
         of the machine's figures.",
        100.0 * TOLERANCE
    ));
    r.cases.iter().for_each(|c| case(&mut page, c));
    page.finish()
}

/// What became of the cases that were made wrong: all must have failed.
pub fn mutated_to_text(pairs: &[(Case, Case)], width: usize, color: bool) -> String {
    let mut page = Page::new(width, color);
    let failed = pairs.iter().filter(|(right, wrong)| right.lost_in(wrong).next().is_some()).count();
    let style = if failed == pairs.len() { Style::Good } else { Style::Bad };
    page.headline(style, &format!("{failed} of {} cases fail when they are made wrong.", pairs.len()));
    page.blank();
    for (right, wrong) in pairs {
        let lost = right.lost_in(wrong).next();
        let text = match lost {
            Some((mine, theirs)) => format!(
                "{}: fails. {}: {} → {} {}",
                right.mutation,
                mine.what,
                value(&mine.obtained),
                value(&theirs.obtained),
                mine.unit
            ),
            None => format!("{}: HOLDS ALL THE SAME", right.mutation),
        };
        page.item(0, &format!("case {}", right.id), &text);
    }
    page.finish()
}

fn case(page: &mut Page, c: &Case) {
    let kind = match c.kind {
        Kind::Number => "number",
        Kind::Relation => "relation",
        Kind::Arithmetic => "arithmetic",
    };
    let word = match (c.holds, &c.explained) {
        (true, _) => "holds",
        (false, Some(_)) => "off, explained",
        (false, None) => "DOES NOT HOLD",
    };
    page.heading(&format!("{}. {} — {}: {kind}, {word}", c.id, c.title, c.document.name()));
    if c.rows.is_empty() {
        page.item(1, "obtained", &value(&c.obtained));
        return;
    }
    let words = page.width.saturating_sub(PUBLISHED + OBTAINED + ERROR + 2).max(24);
    page.line(&format!(
        "  {}{}{}{}",
        left("", words),
        right("published", PUBLISHED),
        right("here", OBTAINED),
        right("off", ERROR)
    ));
    for row in &c.rows {
        self::row(page, row, words);
    }
    if !c.machine.is_empty() {
        page.item(1, "machine", &format!("{}; smaller: {}", c.machine, c.scale));
    }
    if let Some(binds) = c.binds {
        page.item(1, "binds", &resource(binds));
    }
    let fitted = if c.fitted.is_empty() { "nothing".to_owned() } else { c.fitted.join(", ") };
    page.item(1, "fitted", &fitted);
    if let Some(why) = &c.explained {
        page.item(1, "off", why);
    }
    for note in &c.notes {
        page.item(1, "note", note);
    }
}

fn row(page: &mut Page, r: &Row, words: usize) {
    let number = matches!(r.published, Value::Number(_));
    let published = value(&r.published);
    let range = r.range.map_or_else(String::new, |[low, high]| format!(" ({}–{})", short(low), short(high)));
    let obtained = format!("{}{range} {}", value(&r.obtained), r.unit);
    let off = match (r.error, r.holds) {
        (Some(e), Some(holds)) => format!("{:+.1} %{}", 100.0 * e, if holds { "" } else { " !" }),
        (_, Some(true)) => "holds".into(),
        (_, Some(false)) => "NO".into(),
        (_, None) => String::new(),
    };
    let short_claim = number || columns(&published) <= PUBLISHED;
    let beside = if short_claim { published.as_str() } else { "" };
    // A claim too long for its column goes after the name.
    let name = if short_claim || published.is_empty() {
        r.what.clone()
    } else {
        format!("{} [{published}]", r.what)
    };
    let mut rest = name.as_str();
    let mut lines = Vec::new();
    while columns(rest) > words {
        let at =
            rest.char_indices().take(words).filter(|(_, c)| *c == ' ').last().map_or(rest.len(), |(i, _)| i);
        lines.push(&rest[..at]);
        rest = rest[at..].trim_start();
    }
    lines.push(rest);
    let last = lines.len() - 1;
    for (i, line) in lines.into_iter().enumerate() {
        let indent = if i == 0 { "  " } else { "    " };
        let mut text = format!("{indent}{line}");
        if i == last {
            text = left(&text, words + 2)
                + &right(beside, PUBLISHED)
                + &right(&obtained, OBTAINED)
                + &right(&off, ERROR);
        }
        page.line(text.trim_end());
    }
}

fn value(v: &Value) -> String {
    match v {
        Value::Number(n) => short(*n),
        Value::Words(words) => words.clone(),
    }
}

/// Four digits where there are many, as published rates have; large ones with an exponent, as counters print them.
fn short(n: f64) -> String {
    match n.abs() {
        a if a.is_finite() && a >= 1e6 => format!("{n:.2E}"),
        a if a.is_finite() && a >= 1000.0 => format!("{n:.0}"),
        _ => digits(n),
    }
}
