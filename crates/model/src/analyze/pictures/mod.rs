//! Data of pictures: each is aggregated to a fixed number of bins.

mod machine;

use super::input::Judge;
use super::value::Pictures;

/// Gathers them.
pub fn pictures(judge: &Judge) -> Pictures {
    Pictures { machine: machine::picture(&judge.machine) }
}
