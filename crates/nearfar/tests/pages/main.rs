//! Every command of the documents is typed here, in a directory of its own with a small program, and ends as it should.
//!
//! `NEARFAR_PAGE=faq cargo test -p nearfar --test pages -- --nocapture` tries the pages whose name has that in it.

mod block;
mod help;
mod scene;

use block::{Block, blocks};
use scene::{Outcome, Props, play, root};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

/// A page: its name, and its blocks.
type Page = (String, Vec<Block>);

/// The README and all pages of the site.
fn pages() -> Vec<Page> {
    let mut names = vec!["README.md".to_owned()];
    for folder in ["docs", "docs/commands", "docs/documents", "docs/findings"] {
        let Ok(files) = fs::read_dir(root().join(folder)) else { continue };
        let files = files.flatten().map(|e| format!("{folder}/{}", e.file_name().to_string_lossy()));
        names.extend(files.filter(|name| name.ends_with(".md")));
    }
    names.sort();
    names
        .into_iter()
        .map(|name| (name.clone(), blocks(&fs::read_to_string(root().join(name)).unwrap())))
        .collect()
}

/// Whether the virtual machine can run here; if not, reports it.
fn guest_works() -> bool {
    let why = nearfar_guest::Setup::find(&mut |_| {}).err().map(|e| e.to_string());
    let why = why.or_else(|| nearfar_record::collect::on::parts::parts().err().map(|e| e.to_string()));
    if let Some(why) = &why {
        assert!(std::env::var_os("NEARFAR_NEEDS_GUEST").is_none(), "{why}");
        eprintln!("skipped: {why}");
    }
    why.is_none()
}

/// Plays pages beside each other, says what each took and what was left out, and fails for what was wrong; how many
/// commands ran.
fn tried(pages: Vec<Page>) -> usize {
    let only = std::env::var("NEARFAR_PAGE").unwrap_or_default();
    let pages: Vec<Page> = pages.into_iter().filter(|(name, _)| name.contains(&only)).collect();
    let (props, guest) = (Props::new(), guest_works());
    let next = Mutex::new(pages.iter());
    let all: Mutex<Vec<(&str, Outcome)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cpus.min(4) {
            scope.spawn(|| {
                loop {
                    let Some((name, blocks)) = next.lock().unwrap().next() else { break };
                    let begun = Instant::now();
                    let outcome = play(blocks, &props, guest);
                    if outcome.ran > 0 {
                        eprintln!("{name}: {} commands, {:.1} s", outcome.ran, begun.elapsed().as_secs_f64());
                    }
                    all.lock().unwrap().push((name, outcome));
                }
            });
        }
    });
    let (mut ran, mut wrong) = (0, Vec::new());
    for (name, outcome) in all.into_inner().unwrap() {
        ran += outcome.ran;
        outcome.left_out.iter().for_each(|what| eprintln!("not run: {name}, {what}"));
        wrong.extend(outcome.wrong.iter().map(|what| format!("{name}, {what}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    ran
}

#[test]
fn every_command_of_the_pages_runs() {
    let ran = tried(pages());
    assert!(ran > 40 || std::env::var_os("NEARFAR_PAGE").is_some(), "{ran}");
}

#[test]
fn every_example_of_the_help_runs() {
    let ran = tried(help::pages());
    assert!(ran > 30 || std::env::var_os("NEARFAR_PAGE").is_some(), "{ran}");
}

/// Else a command would be in a block that nobody runs.
#[test]
fn blocks_name_their_language_and_commands_are_in_blocks_of_shell() {
    let (mut of_shell, mut left_out) = (0, 0);
    for (name, blocks) in pages() {
        for block in blocks {
            let place = format!("{name}:{}", block.line);
            assert!(!block.language.is_empty(), "{place}: the block has no language: sh, text, toml …");
            if block.language == "sh" {
                of_shell += 1;
                left_out += usize::from(block.marks("not run").next().is_some());
            } else {
                let begins = ["nearfar ", "./", "cargo ", "mpirun ", "srun ", "$ "];
                let command = block.body.lines().find(|line| begins.iter().any(|b| line.starts_with(b)));
                assert!(
                    command.is_none(),
                    "{place}: a command in a block of {}: {command:?}",
                    block.language
                );
            }
            for (key, text) in &block.marks {
                let key = key.split(' ').next().unwrap();
                let known = ["not", "needs", "first", "here", "exit", "interrupted", "skipped", "shown"];
                assert!(known.contains(&key), "{place}: no such comment: {key}");
                let reason = text.split(": ").last().unwrap();
                assert!(
                    !["not", "skipped"].contains(&key) || reason.split(' ').count() > 2,
                    "{place}: {text}"
                );
            }
        }
    }
    assert!(of_shell > 25 && left_out * 2 < of_shell, "{left_out} of {of_shell} blocks of shell are not run");
}

/// The program of all pages is the one that a reader is given.
#[test]
fn the_program_of_the_pages_is_shown_in_the_first_of_them() {
    let page = fs::read_to_string(root().join("docs/first-five-minutes.md")).unwrap();
    assert!(page.contains(&format!("```c\n{}```", scene::APP)));
}

/// What this file would be worth if it could not fail.
#[test]
fn a_wrong_command_a_wrong_status_and_wrong_output_are_found() {
    let props = Props::new();
    let wrong = |page: &str| play(&blocks(page), &props, false).wrong.join("\n");
    assert_eq!(wrong("```sh\nnearfar topo   # this machine\nnearfar list\n```\n"), "");
    assert!(
        wrong("```sh\nnearfar list\nnearfar topo --no-such\n```\n")
            .contains("line 3: nearfar topo --no-such\nended with 2")
    );
    assert!(wrong("<!-- exit 1: nearfar list -->\n```sh\nnearfar list\n```\n").contains("ended with 0"));
    assert!(wrong("```sh\nnearfar report nowhere.nearfar\n```\n").contains("nowhere.nearfar"));
    let shown = |text: &str| {
        wrong(&format!(
            "```sh\nprintf 'CLEAN by 3\\nwhy   x\\n'\n```\nSaid:\n<!-- shown -->\n```text\n{text}\n```\n"
        ))
    };
    assert_eq!(shown("CLEAN by 7\nwhy   y"), "");
    assert!(shown("AFFECTED by 7\nwhy   y").contains("no \"AFFECTED\""));
    assert!(shown("CLEAN by 7\nbecause   y").contains("no \"because\""));
    // What may not be here is left out, and said.
    let page = blocks(
        "<!-- needs: no-such-tool -->\n```sh\nfalse\n```\n<!-- skipped: false: it fails -->\n```sh\nfalse\ntrue\n```\n",
    );
    let outcome = play(&page, &props, false);
    assert_eq!(
        (outcome.ran, outcome.left_out.len(), outcome.wrong.len()),
        (1, 2, 0),
        "{:?}",
        outcome.left_out
    );
    assert!(Path::new(env!("CARGO_BIN_EXE_nearfar")).exists());
}
