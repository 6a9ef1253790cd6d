//! The report as one HTML file: no network, no other file, readable for years.
//!
//! The page is built from `web/` and checked in (`page.html`), so that cargo needs no Node. The report's JSON goes in as
//! data that no browser runs, and the page computes nothing that the JSON does not have. Its content-security policy
//! names the one script and the one style by their hashes: a name in a recording that closes a tag or calls itself a
//! script stays a name.

use super::sections::kind;
use super::to_details;
use nearfar_analyze::{Report, Verdict};
use nearfar_compare::ranks::Run;
use nearfar_compare::{Comparison, Difference};
use nearfar_figures::escape;
use serde::Serialize;
use std::fmt::Write as _;

/// What `web/build.mjs` made.
const PAGE: &str = include_str!("page.html");
const TITLE: &str = "<!--nearfar:title-->";
const TEXT: &str = "<!--nearfar:text-->";
const DATA: &str = "<!--nearfar:data-->";
/// Columns of the text for readers without scripts.
const WIDTH: usize = 100;
/// Wider than any headline: it stays one line.
const WIDE: usize = 10_000;

/// A command that the reader can type next.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// What it does, in a few words.
    pub what: String,
    /// The line to type.
    pub command: String,
}

/// What a page says that is not in the report.
#[derive(Clone, Debug, Default, Serialize)]
pub struct About {
    /// Name of the recording.
    pub recording: String,
    /// Commands that apply the repair and prove it, in order.
    pub steps: Vec<Step>,
    /// Lines of the program's source, where they were asked for.
    pub sources: Vec<Source>,
    /// What of it is missing, in words.
    pub sources_missing: Vec<String>,
    /// The machine's instructions around the hottest ones, where source lines were asked for.
    pub code: Vec<Listing>,
    /// What of it is missing, and which files were built anew since the recording, in words.
    pub code_missing: Vec<String>,
}

/// Some instructions of a function.
#[derive(Clone, Debug, Serialize)]
pub struct Listing {
    /// The function.
    pub function: String,
    /// The line of the hottest instruction.
    pub at: Option<String>,
    /// The file that it is in.
    pub module: String,
    /// The instructions, in order.
    pub lines: Vec<ListingLine>,
}

/// An instruction.
#[derive(Clone, Debug, Serialize)]
pub struct ListingLine {
    /// Its address as the file names it.
    pub address: u64,
    /// The instruction, in the syntax of objdump.
    pub text: String,
    /// Position in `pictures.instructions`; null if it has no samples there.
    pub instruction: Option<usize>,
}

/// Some lines of a source file.
#[derive(Clone, Debug, Serialize)]
pub struct Source {
    /// Its name, as in `at`.
    pub file: String,
    /// Whether it was changed since the recording; null if unknown.
    pub changed: Option<bool>,
    /// The lines, ascending.
    pub lines: Vec<SourceLine>,
}

/// A line of a source file.
#[derive(Clone, Debug, Serialize)]
pub struct SourceLine {
    /// Its number, from 1.
    pub line: u32,
    /// The line.
    pub text: String,
}

#[derive(Serialize)]
struct Data<'a> {
    report: &'a Report,
    about: &'a About,
    words: Words,
}

/// Sentences that the text report has, too.
#[derive(Serialize)]
struct Words {
    version: &'static str,
    headline: String,
    /// A title for each finding.
    findings: Vec<String>,
}

/// The report as a page.
pub fn to_html(report: &Report, about: &About) -> String {
    let headline =
        to_details(report, &about.recording, WIDE, false).lines().next().unwrap_or_default().to_owned();
    let words = Words {
        version: env!("CARGO_PKG_VERSION"),
        headline,
        findings: report.findings.iter().map(|f| kind(&f.kind)).collect(),
    };
    let command = report.command.first().map_or(about.recording.as_str(), String::as_str);
    fill(
        &format!("{command}: nearfar"),
        &to_details(report, &about.recording, WIDTH, false),
        &Data { report, about, words },
    )
}

/// Runs with and without the repair, as `cure` makes them.
#[derive(Clone, Debug, Serialize)]
pub struct Proof {
    /// `modelled` or `measured`.
    pub how: &'static str,
    /// Runs.
    pub runs: usize,
    /// More speed: 0.1 is ten percent; null if it cannot be said.
    pub gain: Option<Difference>,
    /// What that means.
    pub words: String,
}

#[derive(Serialize)]
struct Compared<'a> {
    comparison: &'a Comparison,
    before: &'a Report,
    after: &'a Report,
    about: &'a About,
    proof: Option<&'a Proof>,
    words: Words,
}

/// Two reports and what differs between them as a page. `text` is what a terminal would show; its first line, at this
/// or a larger width, is the headline.
pub fn compared(
    comparison: &Comparison,
    (before, after): (&Report, &Report),
    about: &About,
    proof: Option<&Proof>,
    text: impl Fn(usize) -> String,
) -> String {
    let words = Words {
        version: env!("CARGO_PKG_VERSION"),
        headline: text(WIDE).lines().next().unwrap_or_default().to_owned(),
        findings: before.findings.iter().map(|f| kind(&f.kind)).collect(),
    };
    let command = before.command.first().map_or(about.recording.as_str(), String::as_str);
    let data = Compared { comparison, before, after, about, proof, words };
    fill(&format!("{command}, before and after: nearfar"), &text(WIDTH), &data)
}

#[derive(Serialize)]
struct Ranks<'a> {
    run: &'a Run,
    verdict: Verdict,
    about: &'a About,
    words: Words,
}

/// A run of several ranks as a page; `name` is what it is called on the command line.
pub fn ranks(run: &Run, name: &str) -> String {
    let text = |width| super::ranks::to_text(run, name, width, false);
    let words = Words {
        version: env!("CARGO_PKG_VERSION"),
        headline: text(WIDE).lines().next().unwrap_or_default().to_owned(),
        findings: Vec::new(),
    };
    let about = About { recording: name.to_owned(), ..About::default() };
    let command = run.command.first().map_or(name, String::as_str);
    let data = Ranks { run, verdict: run.verdict(), about: &about, words };
    fill(&format!("{command}, {} ranks: nearfar", run.ranks.len()), &text(WIDTH), &data)
}

/// The page with its title, its text for readers without scripts, and its data.
fn fill(title: &str, text: &str, data: &impl Serialize) -> String {
    // Only a map with keys that are not strings could fail, and none of the values has one.
    let json = escape::json(serde_json::to_string(data).unwrap_or_default());
    let mut page = String::with_capacity(PAGE.len() + text.len() + json.len());
    let mut rest = PAGE;
    for (mark, content) in [
        (TITLE, escape::xml(&escape::line(title))),
        (TEXT, escape::xml(&escape::page(text))),
        (DATA, inert(&json)),
    ] {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(&content);
        rest = after;
    }
    page.push_str(rest);
    page
}

/// JSON that no parser of HTML sees a tag or a comment in. Such characters stand in strings only.
fn inert(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_each_mark_once_in_order() {
        let at: Vec<usize> = [TITLE, TEXT, DATA].iter().map(|mark| PAGE.find(mark).unwrap()).collect();
        assert!(at.is_sorted());
        for mark in [TITLE, TEXT, DATA] {
            assert_eq!(PAGE.matches(mark).count(), 1, "{mark}");
        }
    }

    #[test]
    fn data_closes_no_element_and_opens_no_comment() {
        let hostile = ["</script><script>alert(1)</script>", "<!--<script>", "&lt;", DATA, TITLE];
        let page = fill(hostile[0], hostile[1], &hostile);
        assert_eq!(page.matches("<script").count(), PAGE.matches("<script").count());
        assert_eq!(page.matches("</script").count(), PAGE.matches("</script").count());
        assert_eq!(page.matches("<!--").count(), 0, "every mark was filled, and none came with a name");
        let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
        assert_eq!(serde_json::from_str::<Vec<String>>(data).unwrap(), hostile);
    }
}
