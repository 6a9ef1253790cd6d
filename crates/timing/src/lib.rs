//! From traffic to time: how long the counted lines take on a machine, and which
//! resource makes them take that long. docs/time-model.md has formulas and sources.
//!
//! The tables come from the virtual machine, whose clocks know latencies but no
//! saturation. [`time`] adds it: [`work`] sums the rows by core and epoch,
//! neighbouring epochs that are alike become one phase, [`epoch_time`] times
//! each, and the range comes from moving the machine's figures by what their
//! confidence allows.
#![forbid(unsafe_code)]

mod demand;
mod epoch;
mod group;
mod network;
mod parameters;
mod phases;
mod range;
mod routes;
mod stations;
mod timeline;
mod unwaited;
mod value;
pub mod work;

pub use epoch::epoch_time;
pub use parameters::{Parameters, tolerance};
pub use timeline::{Comparison, Estimated, Ratio, Timeline};
pub use value::*;

use nearfar_machine::Machine;
use nearfar_recording::{CpuEpochs, EpochTraffics};
use work::Work;

/// The time of a run on `machine`, of its region of interest if it has one.
///
/// Fails with what the machine does not say and the model needs, or where there is
/// nothing to time. What is not known is not guessed.
pub fn time(machine: &Machine, cpus: &CpuEpochs, traffic: &EpochTraffics) -> Result<Time, Unknown> {
    Timeline::new(machine, cpus, traffic)?.time()
}

/// The time of threads that all do their work at once, each on its cpu and to the nodes of the pages at the
/// positions of the machine's nodes; threads of one core share it. Cpus that the machine does
/// not have are [`Unknown::NoTraffic`].
pub fn steady(machine: &Machine, threads: &[(u32, Vec<work::NodeWork>)]) -> Result<Steady, Unknown> {
    let parameters = Parameters::new(machine).map_err(Unknown::Machine)?;
    let work = Work::steady(&parameters, threads).ok_or(Unknown::NoTraffic)?;
    let timed = epoch_time(&parameters, &work);
    let (ns, binds) = (timed.ns, timed.binds);
    let (low_ns, high_ns) = range::range(machine, &[work], &[timed]).map_err(Unknown::Machine)?;
    Ok(Steady { ns, low_ns, high_ns, binds })
}
