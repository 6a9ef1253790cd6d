//! Which figures of two reports can be compared.

use nearfar_analyze::{Basis, Report};

/// What of two reports may be compared; an error says why not.
pub(super) struct Comparable {
    /// Remote shares.
    pub(super) shares: Result<(), String>,
    /// Times, and counts of lines.
    pub(super) time: Result<(), String>,
    /// Whether the machine is the same.
    pub(super) machine: bool,
    /// Whether the work is the same.
    pub(super) work: Result<(), String>,
}

impl Comparable {
    pub(super) fn new(before: &Report, after: &Report, work: Result<(), String>) -> Comparable {
        let shares = match (before.basis, after.basis) {
            (b, a) if b == a => Ok(()),
            (b, a) => Err(format!(
                "shares of {} and shares of {} cannot be compared: record both in the same way",
                b.words(),
                a.words()
            )),
        };
        let time = match before.region == after.region {
            true => shares.clone(),
            false => Err("one is of a region that the program marks, the other of the whole run: --whole \
                          takes all of both"
                .to_owned()),
        };
        // Regions and ways of recording that differ are reported themselves.
        let work = if time.is_ok() { work } else { Ok(()) };
        Comparable { shares, time, machine: before.machine.name == after.machine.name, work }
    }
}

/// CPU time of the samples, seconds.
pub(super) fn cpu_seconds(r: &Report) -> Option<f64> {
    let timed: Vec<f64> = r.sources.iter().filter_map(|u| Some(u.samples as f64 / u.hz?)).collect();
    (r.basis == Basis::StallTime && !timed.is_empty()).then(|| timed.iter().sum())
}
