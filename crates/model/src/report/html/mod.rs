//! The report as one HTML file: no network, no other file, readable for years.
//!
//! The page is built from `web/` and checked in (`page.html`), so that cargo needs no Node. The report's JSON goes in as
//! data that no browser runs, and the page computes nothing that the JSON does not have. Its content-security policy
//! names the one script and the one style by their hashes: a name in a recording that closes a tag or calls itself a
//! script stays a name.

use super::sections::kind;
use super::to_text;
use crate::analyze::Report;
use crate::plain;
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
    let headline = to_text(report, WIDE, false).lines().next().unwrap_or_default().to_owned();
    let words = Words {
        version: env!("CARGO_PKG_VERSION"),
        headline,
        findings: report.findings.iter().map(|f| kind(&f.kind)).collect(),
    };
    let command = report.command.first().map_or(about.recording.as_str(), String::as_str);
    fill(&format!("{command}: nearfar"), &to_text(report, WIDTH, false), &Data { report, about, words })
}

/// The page with its title, its text for readers without scripts, and its data.
fn fill(title: &str, text: &str, data: &impl Serialize) -> String {
    // Only a map with keys that are no strings could fail, and none of the values has one.
    let json = plain::json(serde_json::to_string(data).unwrap_or_default());
    let mut page = String::with_capacity(PAGE.len() + text.len() + json.len());
    let mut rest = PAGE;
    for (mark, content) in
        [(TITLE, escaped(&plain::line(title))), (TEXT, escaped(&plain::page(text))), (DATA, inert(&json))]
    {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(&content);
        rest = after;
    }
    page.push_str(rest);
    page
}

/// Text as HTML that shows it.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
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
