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

/// Those machines.
fn all_described() -> Result<Vec<Machine>> {
    DESCRIBED.iter().map(of_description).collect()
}

/// A shape with the figures that an emulation and a judgement need: medians of the machines that come with nearfar, each
/// marked as assumed.
fn shape_with_figures(shape: &str) -> Result<Machine> {
    Ok(Machine::from_shape_assumed(shape, &all_described()?)?)
}

/// The machine to emulate or to judge by: that of [`machine_from_argument`], a shape with assumed figures.
pub fn machine_with_figures(argument: &str) -> Result<Machine> {
    match Machine::from_shape(argument) {
        Ok(_) => shape_with_figures(argument),
        Err(_) => machine_from_argument(argument),
    }
}

/// The machine that needs no file: a shape, with assumed figures, or the name of one that comes with nearfar. Anything else is
/// `None`. What a recording names goes through here: it must not have files of this host opened.
pub fn machine_without_a_file(argument: &str) -> Option<Result<Machine>> {
    match Machine::from_shape(argument) {
        Ok(_) => Some(shape_with_figures(argument)),
        Err(e @ ShapeError::Size { .. }) => Some(Err(e.into())),
        Err(ShapeError::Form(_)) => described(argument).map(of_description),
    }
}

/// The machine of a command-line argument: a shape (`2x22`) of which no figure is known, the name of a
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

    #[test]
    fn a_shape_can_be_emulated_and_timed_by_medians_that_are_marked_as_assumed() {
        let described = all_described().unwrap();
        for shape in ["1x1", "2x2", "2x4", "8x1", "2x4x14"] {
            let machine = machine_with_figures(shape).unwrap();
            assert_eq!(machine.missing_to_simulate(), [], "{shape}");
            assert_eq!(machine.missing_to_time(), [], "{shape}");
            // What the file format forbids, such as memory that is nearer than a node's own, is found when it is read.
            let written = machine.to_toml();
            assert_eq!(Machine::from_toml(&written).unwrap(), machine, "{written}");
            assert!(machine.caches_are_assumed());
            let confidences: Vec<&str> =
                written.split("confidence = ").skip(1).map(|rest| &rest[..9]).collect();
            assert!(
                confidences.iter().all(|c| *c == "\"assumed\"" || c.starts_with("\"assumed")),
                "{written}"
            );
        }
        let near = |m: &Machine| m.figures.latency_ns.as_ref().and_then(|l| l.get(0, 0)).unwrap();
        let mut known: Vec<f64> = described.iter().map(near).collect();
        known.sort_by(f64::total_cmp);
        assert_eq!(known.len() % 2, 0);
        let middle = (known[known.len() / 2 - 1] + known[known.len() / 2]) / 2.0;
        let machine = machine_with_figures("2x4x14").unwrap();
        // Machines whose nodes differ among themselves count by their middle one, so only near.
        assert!((near(&machine) - middle).abs() < 2.0, "{} {middle}", near(&machine));
        let latency = |to| machine.figures.latency_ns.as_ref().unwrap().get(0, to).unwrap();
        assert!(latency(0) < latency(1) && latency(1) < latency(4));
        let read = |shape: &str| {
            let bandwidth = machine_with_figures(shape).unwrap().figures.bandwidth;
            bandwidth[0].read_gbs.as_ref().unwrap().value
        };
        assert!((read("2x4") - 2.0 * read("2x2")).abs() < 1e-9);
        // What only names nodes and cpus stays without.
        assert!(machine_from_argument("2x4").unwrap().figures.latency_ns.is_none());
    }
}
