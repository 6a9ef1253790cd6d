//! What `nearfar fix` has to say: in messages as it comes, or all of it as JSON.

use super::fix_flags::FixArgs;
use super::show;
use anyhow::{Result, ensure};
use nearfar_figures::json::pretty;
use nearfar_machine::cpulist::RankList;
use nearfar_report::placement::Placement;
use serde::Serialize;
use std::path::Path;

/// What was said.
#[derive(Serialize)]
pub(super) struct Said<'a> {
    #[serde(skip)]
    args: &'a FixArgs,
    /// Files that were written.
    files: Vec<Written>,
    /// What no file can say, with the reason.
    not_in_a_file: Vec<String>,
    /// Why nothing is placed, of the program or of some of its ranks.
    nothing_to_place: Vec<String>,
    /// Command lines that apply what was written.
    next: Vec<Next>,
}

#[derive(Serialize)]
struct Written {
    file: String,
    /// The ranks that it is for; null where the recording is not of several.
    ranks: Option<RankList>,
    places: Vec<String>,
    /// What is predicted, in words.
    gain: String,
}

#[derive(Serialize)]
struct Next {
    /// Where the line is for.
    on: &'static str,
    command: String,
}

impl Said<'_> {
    /// Nothing yet.
    ///
    /// # Errors
    /// If JSON and a file are to go to standard output.
    pub(super) fn new(args: &FixArgs) -> Result<Said<'_>> {
        ensure!(
            !args.json
                || args.output.as_deref() != Some(Path::new("-"))
                    && (args.to.is_none() || args.output.is_some()),
            "--json and what is written both go to standard output: name a file with -o"
        );
        let (files, next) = (Vec::new(), Vec::new());
        Ok(Said { args, files, not_in_a_file: Vec::new(), nothing_to_place: Vec::new(), next })
    }

    fn say(&self, text: &str) {
        if !self.args.json {
            self.args.look.say(text);
        }
    }

    /// What no file can say, of ranks that `whose` names.
    pub(super) fn left(&mut self, whose: &str, line: String) {
        let not = if whose.is_empty() { "not in the file" } else { "not in a file" };
        self.say(&format!("{whose}{not}: {line}"));
        self.not_in_a_file.push(format!("{whose}{line}"));
    }

    /// That nothing is written, and why; the reason is recorded, all of it is said.
    pub(super) fn nothing(&mut self, said: &str, why: String) {
        self.say(said);
        self.nothing_to_place.push(why);
    }

    /// A file that was written.
    pub(super) fn file(&mut self, file: &Path, ranks: Option<&[u32]>, placement: &Placement) {
        let places: Vec<String> = placement.file.objects.iter().map(|o| o.label().to_owned()).collect();
        let ranks: Option<RankList> = ranks.map(|ranks| ranks.iter().copied().collect());
        let whose = ranks.as_ref().map_or(String::new(), |ranks| format!("rank {ranks}: "));
        let (file, gain) = (file.display().to_string(), placement.predicted.clone());
        self.say(&format!("{file}: {whose}places {}; gain {gain}", places.join(", ")));
        self.files.push(Written { file, ranks, places, gain });
    }

    /// A file that was written for another tool, with the policy in words.
    pub(super) fn policy(&mut self, file: &Path, policy: String, gain: String) {
        let file = file.display().to_string();
        self.say(&format!("{file}: {policy}; gain {gain}"));
        self.files.push(Written { file, ranks: None, places: vec![policy], gain });
    }

    /// A line to type, `on` a machine of that kind, which `words` introduce.
    pub(super) fn next(&mut self, words: &str, on: &'static str, command: String) {
        if !self.args.json {
            self.args.look.say_line(&format!("{words}: {command}"));
        }
        self.next.push(Next { on, command });
    }

    /// The end: all of it, if it was asked for as JSON.
    ///
    /// # Errors
    /// Those of standard output.
    pub(super) fn end(self) -> Result<()> {
        if self.args.json {
            show::page(&pretty(&self))?;
        }
        Ok(())
    }
}
