//! Files by their base name: on a terminal `iso3dfd.cpp:71` says what the whole path says.
//! Two files of the same base name keep one parent directory. The JSON has the full paths.

use nearfar_analyze::{RepairPart, Report};
use std::collections::{BTreeMap, BTreeSet};

/// A copy of the report in which every text names files briefly.
pub(super) fn brief(report: &Report) -> Report {
    let names = Names::new(&files(report));
    let mut r = report.clone();
    names.each(&mut r);
    r
}

/// The file of `file:line`, or of a path that stands alone; nothing for `module+0xoffset`.
fn file(text: &str) -> Option<&str> {
    let path = match text.rsplit_once(':') {
        Some((file, line)) if !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit()) => file,
        _ => text,
    };
    (path.contains('/') && !path.contains(' ')).then_some(path)
}

fn files(r: &Report) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = BTreeSet::new();
    let mut add = |text: Option<&String>| {
        if let Some(path) = text.and_then(|t| file(t)) {
            found.insert(path.to_owned());
        }
    };
    for o in &r.objects {
        // `allocation at src/a.c:12`; a mapped file's own path.
        add(o.name.strip_prefix("allocation at ").map(str::to_owned).as_ref().or(Some(&o.name)));
        add(o.allocated_at.as_ref());
        add(o.allocated_for.as_ref());
        o.first_touch.iter().for_each(|t| add(t.at.as_ref()));
        o.accessed_at.iter().for_each(|u| add(u.at.as_ref()));
    }
    for f in &r.functions {
        add(f.module.as_ref());
        f.lines.iter().for_each(|u| add(u.at.as_ref()));
    }
    for f in &r.findings {
        add(f.cause.at.as_ref());
        f.objects.iter().for_each(|o| add(Some(o)));
    }
    found
}

/// Full path and what stands for it, longest path first.
struct Names(Vec<(String, String)>);

impl Names {
    fn new(files: &BTreeSet<String>) -> Names {
        let tail = |path: &str, parts: usize| -> String {
            let mut at: Vec<&str> = path.rsplit('/').take(parts).collect();
            at.reverse();
            at.join("/")
        };
        let count = |parts: usize| {
            let mut same: BTreeMap<String, usize> = BTreeMap::new();
            files.iter().for_each(|f| *same.entry(tail(f, parts)).or_default() += 1);
            same
        };
        let (one, two) = (count(1), count(2));
        let name = |path: &String| {
            let (base, parent) = (tail(path, 1), tail(path, 2));
            match (one[&base], two[&parent]) {
                (1, _) => base,
                (_, 1) => parent,
                _ => path.clone(),
            }
        };
        let mut names: Vec<(String, String)> = files.iter().map(|f| (f.clone(), name(f))).collect();
        // A path may be the end of a longer one.
        names.sort_by_key(|n| std::cmp::Reverse(n.0.len()));
        Names(names)
    }

    fn text(&self, text: &mut String) {
        for (path, name) in &self.0 {
            if path != name && text.contains(path.as_str()) {
                *text = text.replace(path.as_str(), name);
            }
        }
    }

    fn some(&self, text: &mut Option<String>) {
        if let Some(text) = text {
            self.text(text);
        }
    }

    /// The object's name, and the line that allocates it: other objects may have the name.
    fn part(&self, part: &mut RepairPart) {
        self.text(&mut part.object);
        self.some(&mut part.allocated_at);
    }

    fn each(&self, r: &mut Report) {
        self.text(&mut r.verdict_why);
        r.notes.iter_mut().for_each(|n| self.text(n));
        for o in &mut r.objects {
            self.text(&mut o.name);
            self.some(&mut o.allocated_at);
            self.some(&mut o.allocated_for);
            o.allocated_through.iter_mut().for_each(|h| self.text(h));
            o.first_touch.iter_mut().for_each(|t| self.some(&mut t.at));
            o.accessed_at.iter_mut().for_each(|u| self.some(&mut u.at));
        }
        for f in &mut r.functions {
            self.some(&mut f.module);
            f.lines.iter_mut().for_each(|u| self.some(&mut u.at));
        }
        r.call_paths.iter_mut().flat_map(|p| &mut p.frames).for_each(|f| self.text(f));
        if let Some(w) = &mut r.what_if {
            w.repairs.iter_mut().flat_map(|row| &mut row.objects).for_each(|o| self.text(o));
            let combinations = [&mut w.best, &mut w.placeable].into_iter().flatten();
            combinations.flat_map(|c| &mut c.parts).for_each(|p| self.part(p));
            w.not_worth.iter_mut().flat_map(|n| &mut n.objects).for_each(|o| self.text(o));
        }
        for f in &mut r.findings {
            f.repairs.iter_mut().for_each(|p| self.part(p));
            f.objects.iter_mut().for_each(|o| self.text(o));
            self.some(&mut f.cause.at);
            self.text(&mut f.cause.text);
            f.evidence.iter_mut().for_each(|e| self.text(e));
            self.text(&mut f.advice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_base_name_keep_a_parent() {
        let all = ["/w/a/src/grid.c", "/w/b/lib/grid.c", "/w/main.c", "/x/p/one.c", "/y/p/one.c"];
        let names = Names::new(&all.iter().map(|s| s.to_string()).collect());
        let mut text = "at /w/main.c:7, /w/a/src/grid.c:1, /w/b/lib/grid.c:2, /x/p/one.c:3".to_owned();
        names.text(&mut text);
        assert_eq!(text, "at main.c:7, src/grid.c:1, lib/grid.c:2, /x/p/one.c:3");
        assert_eq!(file("src/a.c:12"), Some("src/a.c"));
        assert_eq!(file("libgomp.so+0x12"), None);
    }
}
