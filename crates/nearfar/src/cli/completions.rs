//! Completions of shells: clap's, which know commands and options, and the names of the machines that come with nearfar.

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;
use nearfar_host::discover::described_machines;

/// The script of a shell.
pub(super) fn script(shell: Shell, command: Command) -> String {
    let mut command = command.mut_subcommands(|sub| sub.mut_args(with_names));
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "nearfar", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    // A machine may also be a file, which clap leaves out beside names.
    let names = names().join(" ");
    match shell {
        Shell::Bash => {
            script.replace(&format!("compgen -W \"{names}\""), &format!("compgen -f -W \"{names}\""))
        }
        Shell::Zsh => script.replace(
            &format!(":MACHINE:({names})"),
            &format!(
                ":MACHINE:{{_alternative \"machines:machine:({names})\" \"files:machine file:_files\"}}"
            ),
        ),
        Shell::Fish => {
            let machines = |line: &str| line.contains(names.split(' ').next().unwrap_or_default());
            let lines = script.lines().map(|line| match machines(line) {
                true => line.replace(" -r -f -a ", " -r -F -a ") + "\n",
                false => format!("{line}\n"),
            });
            lines.collect()
        }
        _ => script,
    }
}

fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = described_machines().collect();
    names.push("here");
    names
}

/// The argument with the words that may stand there.
fn with_names(argument: Arg) -> Arg {
    let value = argument.get_value_names().and_then(|names| names.first()).map(|name| name.to_string());
    match value.as_deref() {
        Some("MACHINE") => argument.value_parser(PossibleValuesParser::new(names())),
        // A recording is a directory.
        Some("REC") if argument.is_positional() => argument.value_hint(ValueHint::DirPath),
        _ => argument,
    }
}
