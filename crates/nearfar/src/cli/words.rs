//! The words of a command line: where the recorded or started program begins.
//!
//! One rule for all commands that run a program: it begins with the first word that is not an option, and everything
//! behind that word is the program's. `--` before it is allowed everywhere, and needed only for a program whose name
//! begins with `-` (or, for `where`, is a number). The definitions of the commands ask for `--`, so that an unknown
//! option before the program is refused with the nearest name; here it is put in where it was left out.

pub(super) use nearfar_host::out::quoted;

use clap::{Arg, Command};
use std::ffi::{OsStr, OsString};

/// The words with `--` before the program.
pub(super) fn separated(mut words: Vec<OsString>, definition: &Command) -> Vec<OsString> {
    if let Some(at) = program(&words, definition) {
        words.insert(at, "--".into());
    }
    words
}

/// Which word is the program's name; `None` if there is none, or `--` stands before it.
fn program(words: &[OsString], definition: &Command) -> Option<usize> {
    let sub = definition.find_subcommand(words.get(1)?)?;
    let programs = |arg: &&Arg| arg.get_id() == "command";
    sub.get_positionals().find(programs)?;
    // `where PID`
    let takes_number = sub.get_positionals().any(|arg| !programs(&arg));
    let mut at = 2;
    while let Some(word) = words.get(at) {
        let bytes = word.as_encoded_bytes();
        match bytes {
            b"--" => return None,
            [b'-', _, ..] => at += usize::from(takes_next(sub, word.to_str()?)?),
            // `where 1234`, `top 0.5`
            _ if takes_number && is_number(word) => {}
            _ => return Some(at),
        }
        at += 1;
    }
    None
}

/// `1234`, `0.5`, `1e-3`; whether it is a sensible one is for the parser to say. `inf` may as well be a program.
fn is_number(word: &OsStr) -> bool {
    word.to_str()
        .is_some_and(|w| w.starts_with(|c: char| c.is_ascii_digit() || c == '.') && w.parse::<f64>().is_ok())
}

/// Whether the word behind this option is its value; `None` if no such option exists: the parser reports it.
fn takes_next(sub: &Command, word: &str) -> Option<bool> {
    // A value that needs its `=` is never the next word.
    let takes = |arg: &Arg| arg.get_action().takes_values() && !arg.is_require_equals_set();
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, false), |(name, _)| (name, true));
        let named = |arg: &&Arg| {
            arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|all| all.contains(&name))
        };
        return match sub.get_arguments().find(named) {
            Some(arg) => Some(takes(arg) && !value),
            None => (name == "help").then_some(false),
        };
    }
    let mut letters = word.chars().skip(1);
    while let Some(letter) = letters.next() {
        let named = |arg: &&Arg| {
            arg.get_short() == Some(letter)
                || arg.get_all_short_aliases().is_some_and(|all| all.contains(&letter))
        };
        match sub.get_arguments().find(named) {
            // The rest of the word is the value, or the next word.
            Some(arg) if takes(arg) => return Some(letters.next().is_none()),
            Some(_) => {}
            None if letter == 'h' => {}
            None => return None,
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_dashes(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let words = separated(words, &super::super::command());
        words.iter().map(|w| w.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_first_word_that_is_no_option_begins_the_program() {
        for (typed, read) in [
            ("nearfar record ./app -o x --json", "nearfar record -- ./app -o x --json"),
            ("nearfar record -o x ./app", "nearfar record -o x -- ./app"),
            ("nearfar record -ox --frequency=99 ./app", "nearfar record -ox --frequency=99 -- ./app"),
            ("nearfar record -qo x ./app -- y", "nearfar record -qo x -- ./app -- y"),
            ("nearfar check --runs 3 ./app --runs 4", "nearfar check --runs 3 -- ./app --runs 4"),
            ("nearfar cure --on m --smt ./app", "nearfar cure --on m --smt -- ./app"),
            ("nearfar record --sample-windows ./app", "nearfar record --sample-windows -- ./app"),
            ("nearfar record --sample-windows=5 -q ./app", "nearfar record --sample-windows=5 -q -- ./app"),
            ("nearfar run -c 0 -m 0 ./app -x", "nearfar run -c 0 -m 0 -- ./app -x"),
            ("nearfar run --cpubind 0 ./app", "nearfar run --cpubind 0 -- ./app"),
            ("nearfar run -C -1 ./app", "nearfar run -C -1 -- ./app"),
            ("nearfar layout -n 2 ./app", "nearfar layout -n 2 -- ./app"),
            ("nearfar where 3d ./x", "nearfar where -- 3d ./x"),
            ("nearfar where -i 5 ./app 7", "nearfar where -i 5 -- ./app 7"),
        ] {
            assert_eq!(with_dashes(typed), read);
        }
    }

    #[test]
    fn what_has_no_program_or_its_dashes_stays_as_it_is() {
        for line in [
            "nearfar",
            "nearfar --version",
            "nearfar report r",
            "nearfar record -p 7",
            "nearfar record -o x -- -app",
            "nearfar run -- --membind",
            "nearfar where 7 -i 5",
            "nearfar top 1e-3",
            "nearfar top 1e308",
            "nearfar record --no-such-option ./app",
            "nearfar run -Z ./app",
            "nearfar diff a b",
        ] {
            assert_eq!(with_dashes(line), line);
        }
    }
}
