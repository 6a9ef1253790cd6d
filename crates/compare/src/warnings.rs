//! What makes two recordings hard to compare.

use super::SAME_RUN;
use super::value::{Side, TimeChange};
use nearfar_analyze::{Region, Report};

/// A sentence for each thing that differs and should not.
pub fn warnings(before: &Report, after: &Report) -> Vec<String> {
    let mut found = Vec::new();
    if before.machine.name != after.machine.name {
        found.push(format!(
            "the machines differ, {} and {}: so may times and shares, whatever the program does",
            before.machine.name, after.machine.name
        ));
    } else if before.machine.assumed != after.machine.assumed
        || before.machine.binding != after.machine.binding
    {
        found.push(format!(
            "threads are placed differently: {} and {}",
            before.machine.binding, after.machine.binding
        ));
    }
    found.extend(commands(&before.command, &after.command));
    for (which, r) in [("first", before), ("second", after)] {
        if let Some(exit) = r.exit.as_deref().filter(|e| *e != "exit 0") {
            found.push(format!(
                "the {which} recording's program ended with {exit}: it may not have done all its work"
            ));
        }
    }
    if before.region != after.region {
        let words = |r: &Report| match r.region {
            Region::Marked => "a region that the program marks",
            Region::Whole => "the whole run",
        };
        found.push(format!(
            "the first is of {}, the second of {}: --whole takes all of both",
            words(before),
            words(after)
        ));
    }
    let (b, a) = (sources(before), sources(after));
    if before.basis != after.basis {
        found.push(format!(
            "shares are of different things, {} and {}: they are not compared",
            before.basis.words(),
            after.basis.words()
        ));
    } else if b != a && before.samples() > 0 && after.samples() > 0 {
        found.push(format!(
            "samples come from different sources, {} and {}",
            b.join(" and "),
            a.join(" and ")
        ));
    }
    let threads = (before.threads.len(), after.threads.len());
    if threads.0 != threads.1 {
        found.push(format!("the program had {} threads before and {} after", threads.0, threads.1));
    }
    found
}

/// Modelled times below this, in seconds, differ most from run to run …
const SHORT: f64 = 0.01;
/// … and by this part and less between two runs of one program (docs/check.md: 5.1 and 6.5 ms).
const SEEN: f64 = 0.28;

/// That a difference is one that short runs have been seen to have.
pub fn short(before: &Side, after: &Side, t: TimeChange) -> Option<String> {
    let (b, a) = (before.time.as_ref()?, after.time.as_ref()?);
    let by = t.ratio.max(1.0 / t.ratio) - 1.0;
    (b.seconds.max(a.seconds) < SHORT && by > SAME_RUN && by < SEEN).then(|| {
        "short runs of one program have been seen to differ by as much (5.1 and 6.5 ms, docs/check.md): record \
         more work, or each twice"
            .to_owned()
    })
}

/// Sources that gave samples.
pub fn sources(r: &Report) -> Vec<String> {
    r.sources.iter().filter(|u| u.source != "pages" && u.samples > 0).map(|u| u.source.clone()).collect()
}

/// That nodes have other numbers.
pub fn renumbered(pairs: &[(u32, u32)]) -> String {
    let moved = pairs.iter().filter(|p| p.0 != p.1);
    let list: Vec<String> = moved.map(|(b, a)| format!("{a} as {b}")).collect();
    format!(
        "nodes have exchanged their parts between the runs; the second's are shown by the first's numbers: {}",
        list.join(", ")
    )
}

/// Which words differ, the folder of the program aside.
fn commands(before: &[String], after: &[String]) -> Option<String> {
    let (b, a) = (compared(before), compared(after));
    if b == a {
        return None;
    }
    if b.is_empty() || a.is_empty() {
        return Some("of one of them no command is known: it was attached to".to_owned());
    }
    let mut changes: Vec<String> = Vec::new();
    if b.len() == a.len() {
        changes.extend(b.iter().zip(&a).filter(|(x, y)| x != y).map(|(x, y)| format!("`{x}` is now `{y}`")));
    } else {
        let missing = |from: &[String], of: &[String]| -> Vec<String> {
            let mut rest = of.to_vec();
            let gone = from.iter().filter(|w| match rest.iter().position(|r| r == *w) {
                Some(i) => {
                    rest.remove(i);
                    false
                }
                None => true,
            });
            gone.map(|w| format!("`{w}`")).collect()
        };
        for (words, what) in [(missing(&b, &a), "is gone"), (missing(&a, &b), "is new")] {
            if !words.is_empty() {
                changes.push(format!("{} {what}", words.join(" ")));
            }
        }
    }
    Some(format!("the commands differ: {}", changes.join(", ")))
}

/// Commands that run another one.
const LAUNCHERS: [&str; 14] = [
    "numactl", "env", "taskset", "nice", "chrt", "setarch", "stdbuf", "time", "timeout", "mpirun", "mpiexec",
    "srun", "nearfar", "sh",
];

/// The words of a command as they are compared: the program without its folder, since a repaired program may be in
/// another; arguments with theirs, as written except for `./` and doubled slashes.
pub fn compared(command: &[String]) -> Vec<String> {
    let program = program(command);
    let word = |(i, word): (usize, &String)| {
        let word = tidy(word);
        match i == 0 || i == program {
            true => word.rsplit('/').find(|part| !part.is_empty()).unwrap_or(&word).to_owned(),
            false => word,
        }
    };
    command.iter().enumerate().map(word).collect()
}

/// Which word is the program: behind a launcher, the first that is a path and no option or assignment.
fn program(command: &[String]) -> usize {
    let first = command.first().map_or("", |w| w.rsplit('/').next().unwrap_or(w));
    if !LAUNCHERS.contains(&first) {
        return 0;
    }
    let path = |w: &String| w.contains('/') && !w.starts_with('-') && !w.contains('=');
    command.iter().skip(1).position(path).map_or(0, |i| i + 1)
}

/// A path without what says nothing: `./a//b` is `a/b`.
fn tidy(word: &str) -> String {
    let (key, value) = match word.split_once('=') {
        Some((key, value)) if key.starts_with('-') => (format!("{key}="), value),
        _ => (String::new(), word),
    };
    if !value.contains('/') || value.contains("://") {
        return key + value;
    }
    let root = if value.starts_with('/') { "/" } else { "" };
    let parts: Vec<&str> = value.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    key + root + &parts.join("/")
}
