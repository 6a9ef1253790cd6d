//! All that a report knows of one object or one function: its own rows, on one page. Nothing is calculated anew.

mod page;

pub use page::to_text;

use super::placement::places;
use nearfar_analyze::{
    CallPath, DramLines, Finding, FunctionRow, NotWorth, ObjectRow, RepairPart, RepairRow, Report, ThreadRow,
    base,
};
use serde::Serialize;
use std::collections::BTreeSet;

/// What is asked about, by its position in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An object.
    Object(usize),
    /// A function.
    Function(usize),
    /// An object without a row, as only those with most samples have one: its position among all names that findings and
    /// predictions mention.
    Mentioned(usize),
}

/// Which of them a name may mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Only {
    /// Either.
    #[default]
    Any,
    /// Objects.
    Objects,
    /// Functions.
    Functions,
}

/// Why a name leads to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// Nothing has it.
    Unknown,
    /// Several have it; each as it is typed to mean that one.
    Several(Vec<String>),
}

/// A name that leads to a subject, as it is typed.
#[derive(Clone, Debug)]
pub struct Named {
    /// The subject.
    pub subject: Subject,
    /// Its name, as the text report prints it.
    pub name: String,
    /// `file:line` of an object's allocation.
    at: Option<String>,
    /// The same with whole paths, as the JSON has them.
    whole: (String, Option<String>),
}

impl Named {
    /// What is typed for this one where others have the same name.
    fn exactly(&self) -> String {
        match &self.at {
            Some(at) if !self.name.ends_with(at.as_str()) => format!("{}@{at}", self.name),
            _ => self.whole.0.clone(),
        }
    }

    /// Whether `typed` is its name, the line of its allocation, or both.
    fn is(&self, typed: &str) -> bool {
        let of = |name: &str, at: Option<&str>| {
            let line = at == Some(typed) || at.is_some_and(|at| base(at) == typed);
            let both = typed.strip_prefix(name).and_then(|rest| rest.strip_prefix('@'));
            name == typed || line || both.is_some_and(|rest| at == Some(rest))
        };
        of(&self.name, self.at.as_deref()) || of(&self.whole.0, self.whole.1.as_deref())
    }

    /// Whether `typed` is a part of its name.
    fn has(&self, typed: &str) -> bool {
        self.name.to_lowercase().contains(&typed.to_lowercase())
    }
}

/// All names of a report.
pub fn names(report: &Report, only: Only) -> Vec<Named> {
    let brief = super::paths::brief(report);
    let objects = report.objects.iter().zip(&brief.objects).enumerate().map(|(i, (whole, brief))| Named {
        subject: Subject::Object(i),
        name: brief.name.clone(),
        at: brief.allocated_at.clone(),
        whole: (whole.name.clone(), whole.allocated_at.clone()),
    });
    let functions = report.functions.iter().enumerate().map(|(i, f)| Named {
        subject: Subject::Function(i),
        name: f.function.clone(),
        at: None,
        whole: (f.function.clone(), None),
    });
    let mut seen: BTreeSet<&str> = report.objects.iter().map(|o| o.name.as_str()).collect();
    let both = mentions(report).zip(mentions(&brief)).enumerate();
    let rowless = both.filter(|(_, (whole, _))| seen.insert(*whole)).map(|(i, (whole, name))| {
        let at = part_of(report, whole, None).and_then(|part| part.allocated_at.clone());
        Named {
            subject: Subject::Mentioned(i),
            name: name.to_owned(),
            at: at.as_deref().map(|at| base(at).to_owned()),
            whole: (whole.to_owned(), at),
        }
    });
    let wanted = |n: &Named| match n.subject {
        Subject::Object(_) | Subject::Mentioned(_) => only != Only::Functions,
        Subject::Function(_) => only != Only::Objects,
    };
    objects.chain(functions).chain(rowless).filter(wanted).collect()
}

/// All names of objects that findings and predictions mention, in the same order in a report and in its brief copy.
fn mentions(r: &Report) -> impl Iterator<Item = &str> {
    let w = r.what_if.as_ref();
    let found = r.findings.iter().flat_map(|f| &f.objects);
    let tried = w.into_iter().flat_map(|w| &w.repairs).flat_map(|row| &row.objects);
    let small = w.into_iter().flat_map(|w| &w.not_worth).flat_map(|n| &n.objects);
    found.chain(tried).chain(small).map(String::as_str)
}

/// What a placement file can say of an object. `allocated_at`: its line, where that is known; others may have its name.
fn part_of<'a>(r: &'a Report, name: &str, allocated_at: Option<&str>) -> Option<&'a RepairPart> {
    let w = r.what_if.as_ref();
    let best = w.and_then(|w| w.placeable.as_ref()).into_iter().flat_map(|c| &c.parts);
    let suggested = r.findings.iter().filter(|_| w.is_none()).flat_map(|f| &f.repairs);
    best.chain(suggested).find(|p| {
        let other = |at: &str| allocated_at.is_some_and(|own| own != at);
        p.object == name && !p.allocated_at.as_deref().is_some_and(other)
    })
}

/// What a name means: what is called so, or else the one whose name has it as a part.
///
/// # Errors
/// If that is nothing or several.
pub fn find(names: &[Named], typed: &str) -> Result<Subject, NotFound> {
    let one = |found: Vec<&Named>| match found.as_slice() {
        [] => None,
        [one] => Some(Ok(one.subject)),
        several => Some(Err(NotFound::Several(several.iter().map(|n| listed(n)).collect()))),
    };
    // A mapped file is printed by its base name, which a variable may have, too.
    let whole = one(names.iter().filter(|n| n.whole.0 == typed).collect());
    let exact = || one(names.iter().filter(|n| n.is(typed)).collect());
    let part = || one(names.iter().filter(|n| !typed.is_empty() && n.has(typed)).collect());
    whole.or_else(exact).or_else(part).unwrap_or(Err(NotFound::Unknown))
}

fn listed(n: &Named) -> String {
    match n.subject {
        Subject::Object(_) | Subject::Mentioned(_) => format!("{} (object)", n.exactly()),
        Subject::Function(_) => format!("{} (function)", n.name),
    }
}

/// Rows of a report that are about a subject, as JSON has them; each as `report --json` has it.
#[derive(Serialize)]
pub struct About<'a> {
    /// Version of this form; it rises as the report's does.
    schema: u32,
    /// The object; null of a function, and of an object without a row.
    object: Option<&'a ObjectRow>,
    /// The name of an object without a row, as only those with most samples have one; null of others.
    mentioned: Option<&'a str>,
    /// The function; null of an object.
    function: Option<&'a FunctionRow>,
    /// Threads that were seen at addresses of the object.
    threads: Vec<&'a ThreadRow>,
    /// Of a function: the objects that it uses, with its own lines of each.
    uses: Vec<Use<'a>>,
    /// Findings that name it.
    findings: Vec<&'a Finding>,
    /// What was tried with the object, alone or with others.
    repairs: Vec<&'a RepairRow>,
    /// Causes that were found, of which the repair would gain too little.
    not_worth: Vec<&'a NotWorth>,
    /// Its part in what a placement file can say; null if it has none.
    placement: Option<&'a RepairPart>,
    /// Paths of calls that lead to the function.
    call_paths: Vec<&'a CallPath>,
    /// The line that writes the repair as a placement file; null where the object has none.
    fix: Option<String>,
}

/// An object that a function uses.
#[derive(Serialize)]
struct Use<'a> {
    object: &'a str,
    allocated_at: Option<&'a str>,
    /// `file:line` of the use; null if unknown.
    at: Option<&'a str>,
    /// Share of all samples.
    share: f64,
    /// Remote, of those whose page's node is known; null if none is known.
    remote_share: Option<f64>,
    dram: Option<&'a DramLines>,
}

/// All rows about a subject. `again`: what is typed behind `nearfar fix` to judge the recording in the same way.
pub fn about<'a>(r: &'a Report, subject: Subject, again: &str) -> About<'a> {
    let mut about = About {
        schema: 1,
        object: None,
        mentioned: None,
        function: None,
        threads: Vec::new(),
        uses: Vec::new(),
        findings: Vec::new(),
        repairs: Vec::new(),
        not_worth: Vec::new(),
        placement: None,
        call_paths: Vec::new(),
        fix: None,
    };
    match subject {
        Subject::Object(i) => of_object(&mut about, r, &r.objects[i], again),
        Subject::Function(i) => of_function(&mut about, r, &r.functions[i]),
        Subject::Mentioned(i) => {
            about.mentioned = mentions(r).nth(i);
            about.mentioned.into_iter().for_each(|name| told_of(&mut about, r, name, None, again));
        }
    }
    about
}

fn of_object<'a>(about: &mut About<'a>, r: &'a Report, o: &'a ObjectRow, again: &str) {
    about.object = Some(o);
    let seen = |t: &&ThreadRow| o.thread_ranges.iter().any(|range| range.thread == t.tid);
    about.threads = r.threads.iter().filter(seen).collect();
    told_of(about, r, &o.name, o.allocated_at.as_deref(), again);
}

/// What findings and predictions tell of an object.
fn told_of<'a>(about: &mut About<'a>, r: &'a Report, name: &str, allocated_at: Option<&str>, again: &str) {
    let names = |objects: &[String]| objects.iter().any(|o| o == name);
    about.findings = r.findings.iter().filter(|f| names(&f.objects)).collect();
    let w = r.what_if.as_ref();
    about.repairs = w.iter().flat_map(|w| &w.repairs).filter(|row| names(&row.objects)).collect();
    about.not_worth = w.iter().flat_map(|w| &w.not_worth).filter(|n| names(&n.objects)).collect();
    about.placement = part_of(r, name, allocated_at);
    about.fix = places(r, &[name.to_owned()]).then(|| format!("nearfar fix {again}"));
}

fn of_function<'a>(about: &mut About<'a>, r: &'a Report, f: &'a FunctionRow) {
    about.function = Some(f);
    for o in &r.objects {
        let own = o.accessed_at.iter().filter(|u| u.function.as_deref() == Some(&f.function));
        about.uses.extend(own.map(|u| Use {
            object: &o.name,
            allocated_at: o.allocated_at.as_deref(),
            at: u.at.as_deref(),
            share: u.stall_share,
            remote_share: u.remote_share,
            dram: u.dram.as_ref(),
        }));
    }
    about.uses.sort_by(|a, b| b.share.total_cmp(&a.share));
    let lines: Vec<&str> = f.lines.iter().filter_map(|l| l.at.as_deref()).collect();
    let named = |finding: &&Finding| {
        let at = finding.cause.at.as_deref();
        finding.cause.function.as_deref() == Some(&f.function) || at.is_some_and(|at| lines.contains(&at))
    };
    // The function that placed the pages, and those that use the objects of a finding.
    let uses = |finding: &&Finding| about.uses.iter().any(|u| finding.objects.iter().any(|o| o == u.object));
    about.findings = r.findings.iter().filter(|finding| named(finding) || uses(finding)).collect();
    let leads = |p: &&CallPath| {
        p.frames.iter().any(|frame| {
            frame
                .strip_prefix(f.function.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("))
        })
    };
    about.call_paths = r.call_paths.iter().filter(leads).collect();
}

/// The rows as JSON, indented, with a final line feed.
pub fn to_json(r: &Report, subject: Subject, again: &str) -> String {
    nearfar_figures::json::pretty(&about(r, subject, again))
}
