//! Windows of simulated time in which accesses are counted: how long they are, and how often one comes.

use anyhow::bail;
use nearfar_machine::Machine;

/// How long accesses are counted in a window, µs. // chosen
const COUNTED_US: u32 = 1000;
/// How often the largest cache could be filled while accesses are looked up and not yet counted. // chosen
const FILLS: f64 = 2.0;
/// The least time for that, µs. // chosen
const LEAST_WARMING_US: u32 = 500;
/// The same where the machine's file does not say how long that takes, µs. // chosen
const UNKNOWN_WARMING_US: u32 = 2000;
/// At most one part in so many of a run is looked up, or little is gained. // chosen
const LEAST_GAIN: u32 = 2;

/// Windows in which accesses are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// One comes in so much simulated time, µs.
    period_us: u32,
    /// Caches are filled for so long before, µs.
    warming_us: u32,
}

impl Windows {
    /// A window in each `period_ms` on that machine.
    ///
    /// # Errors
    /// If the caches would be filled for most of the time.
    pub fn new(period_ms: u32, machine: &Machine) -> anyhow::Result<Windows> {
        let warming_us = warming_us(machine);
        let period_us = period_ms.saturating_mul(1000);
        let least_us = LEAST_GAIN * (warming_us + COUNTED_US);
        if period_us < least_us {
            bail!(
                "--sample-windows={period_ms}: accesses are counted in 1 ms of each {period_ms} ms, and before that the caches of {} are filled for \
                 {:.1} ms. So that it saves time, give {} or more, or leave it out: then everything is counted.",
                machine.name,
                f64::from(warming_us) / 1e3,
                least_us.div_ceil(1000)
            );
        }
        Ok(Windows { period_us, warming_us })
    }

    /// As the plugin reads them.
    pub(super) fn argument(&self) -> String {
        format!("{}:{}:{COUNTED_US}", self.period_us, self.warming_us)
    }

    /// For the list of how a recording was made.
    pub(super) fn words(&self) -> String {
        format!(
            "user accesses counted in 1 ms of each {} ms of simulated time, after {:.1} ms in which the caches are filled",
            self.period_us / 1000,
            f64::from(self.warming_us) / 1e3
        )
    }
}

/// How long a node's memory takes to fill the largest cache [`FILLS`] times, µs.
fn warming_us(machine: &Machine) -> u32 {
    let bytes = machine.figures.caches.iter().map(|cache| cache.size_bytes.value).fold(0.0, f64::max);
    let rates = machine.figures.bandwidth.iter().filter_map(|node| node.read_gbs.as_ref());
    let gbs = rates.map(|rate| rate.value).fold(f64::INFINITY, f64::min);
    if !gbs.is_finite() || gbs <= 0.0 {
        return UNKNOWN_WARMING_US;
    }
    // Bytes in GB/s are ns.
    let us = (FILLS * bytes / gbs / 1e3).ceil();
    (us as u32).max(LEAST_WARMING_US)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_machine::scale::{ScaleOptions, scale};

    #[test]
    fn caches_are_filled_twice_and_that_is_less_than_half_of_the_time() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/xeon-e5-2699v4-2s.toml");
        let machine = Machine::from_toml(&std::fs::read_to_string(file).unwrap()).unwrap();
        let machine =
            scale(&machine, &ScaleOptions { cpus_per_node: Some(4), ..Default::default() }).unwrap();
        let bytes = machine.figures.caches.iter().map(|c| c.size_bytes.value).fold(0.0, f64::max);
        let gbs = machine.figures.bandwidth[0].read_gbs.as_ref().unwrap().value;
        let windows = Windows::new(20, &machine).unwrap();
        assert!((f64::from(windows.warming_us) - 2e-3 * bytes / gbs).abs() <= 1.0, "{windows:?}");
        assert_eq!(windows.argument(), format!("20000:{}:1000", windows.warming_us));
        let least = 2 * (windows.warming_us + 1000).div_ceil(1000);
        let refused = Windows::new(2, &machine).unwrap_err().to_string();
        assert!(refused.contains("give") && least > 2, "{refused}");
        assert_eq!(warming_us(&Machine::unknown()), UNKNOWN_WARMING_US);
    }
}
