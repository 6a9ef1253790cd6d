//! The machine that `--as` or `--on` names.

use crate::input;
use anyhow::{Context, Result, bail};
use nearfar_machine::Machine;
use nearfar_machine::shape::ShapeError;
use std::path::Path;

macro_rules! described {
    ($($name:literal)*) => {
        /// The files of machines/, in the binary so that it needs no data folder.
        const DESCRIBED: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../machines/", $name, ".toml")))),*];
    };
}
described! {
    "altra-q80-2s"
    "epyc-7763-2s"
    "epyc-9224-2s-nps2-cxl"
    "epyc-9654-2s"
    "epyc-9654-2s-nps4"
    "grace-2s"
    "opteron-285-2s"
    "opteron-6174-4s"
    "opteron-6276-2s"
    "xeon-8480p-2s"
    "xeon-8480p-2s-snc4"
    "xeon-e5-2650v3-2s"
    "xeon-e5-2699v4-2s"
    "xeon-x5570-2s"
}

/// Names of the machines that come with nearfar.
pub fn described_machines() -> impl Iterator<Item = &'static str> {
    DESCRIBED.iter().map(|(name, _)| *name)
}

fn described(argument: &str) -> Option<&'static (&'static str, &'static str)> {
    let name = argument.strip_suffix(".toml").unwrap_or(argument);
    DESCRIBED.iter().find(|(n, _)| *n == name)
}

fn of_description((name, text): &(&str, &str)) -> Result<Machine> {
    Machine::from_toml(text).with_context(|| format!("the machine {name} that comes with nearfar"))
}

/// The machine that needs no file: a shape, or the name of one that comes with nearfar. Anything else is `None`.
/// What a recording names goes through here: it must not have files of this host opened.
pub fn machine_without_a_file(argument: &str) -> Option<Result<Machine>> {
    match Machine::from_shape(argument) {
        Ok(machine) => Some(Ok(machine)),
        Err(e @ ShapeError::Size { .. }) => Some(Err(e.into())),
        Err(ShapeError::Form(_)) => described(argument).map(of_description),
    }
}

/// The machine of a command-line argument: a shape (`2x22`), the name of a
/// machine that comes with nearfar, or the path of a machine file. Write `./2x22`
/// for a file whose name looks like a shape.
pub fn machine_from_argument(argument: &str) -> Result<Machine> {
    match Machine::from_shape(argument) {
        Ok(machine) => return Ok(machine),
        Err(e @ ShapeError::Size { .. }) => return Err(e.into()),
        Err(ShapeError::Form(_)) => {}
    }
    let by_name = described(argument);
    match (input::read_text(Path::new(argument), input::MOST_WRITTEN), by_name) {
        // A file that was named is meant, even beside a machine of the same name.
        (Ok(text), _) => Machine::from_toml(&text).with_context(|| format!("the machine file {argument}")),
        (Err(_), Some(described)) => of_description(described),
        (Err(error), None) => bail!(
            "no machine `{argument}`. Tried:\n  \
             as a shape: expected NODESxCPUS such as 2x22, or PACKAGESxNODESxCPUS such as 2x4x14\n  \
             as a machine file: {argument}: {error}\n  \
             as a machine that comes with nearfar: there are {}",
            described_machines().collect::<Vec<_>>().join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_that_comes_with_nearfar_is_in_the_binary() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines");
        let mut files: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".toml")?.to_owned()))
            .collect();
        files.sort();
        assert_eq!(files, described_machines().collect::<Vec<_>>());
        for name in files {
            machine_from_argument(&name).unwrap();
        }
    }
}
