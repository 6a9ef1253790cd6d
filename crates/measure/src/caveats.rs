//! What to keep in mind about a measurement.

use nearfar_figures::percent::percent;
use nearfar_machine::topology::Topology;
use nearfar_observed::measured::{Found, Measured};

/// In the order of their weight; `load` is the load at the start.
pub fn of(topology: &Topology, measured: &Measured, load: Option<f64>) -> Vec<String> {
    let mut list = Vec::new();
    if let Some(load) = load.filter(|&l| l > 0.5) {
        list.push(format!(
            "other programs were running (load {load:.1} at the start): figures are of what they left"
        ));
    }
    if let Some(share) = measured.steal_share.filter(|&s| s > 0.01) {
        list.push(format!("the hypervisor took {:.0} % of the time for others", share * 100.0));
    }
    if topology.virtual_machine == Some(true) {
        list.push(
            "a virtual machine: the hypervisor's page tables are part of each latency, and its neighbours of each \
             bandwidth"
                .into(),
        );
    }
    let governor = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    match governor.as_deref().map(str::trim) {
        Ok("performance") => {}
        Ok(other) => list.push(format!("the clock may change while measuring (governor {other})")),
        Err(_) => list.push("whether the clock changes while measuring is unknown (no cpufreq here)".into()),
    }
    for (what, held) in [("chain", measured.cached.chain_share), ("arrays", measured.cached.array_share)] {
        let Some(share) = held else { continue };
        let of = if what == "chain" { "latencies and lines in flight" } else { "bandwidths" };
        let cure = match what {
            _ if !measured.quick => "leave --array out, or ask for larger ones",
            "arrays" => "without --quick and --array they are four times the caches",
            _ => "without --quick it is eight times the cache",
        };
        list.push(format!(
            "the last-level caches can hold {} of the {what}: {of} may be better than the memory's ({cure})",
            percent(share)
        ));
    }
    let wide = spreads(measured).filter(|&s| s > 0.1).count();
    if wide > 0 {
        list.push(format!("{wide} of the figures spread by more than 10 % over their repetitions"));
    }
    list
}

/// The spread of every figure, as a share of its median.
fn spreads(m: &Measured) -> impl Iterator<Item = f64> {
    let pairs = m.latency.iter().flat_map(|l| &l.pairs).chain(m.bandwidth.iter().flat_map(|b| &b.pairs));
    let mut all: Vec<_> = pairs.filter_map(|p| p.value).collect();
    all.extend(m.loaded.iter().flat_map(|l| &l.points).map(|p| p.latency_ns));
    let mut found: Vec<&Found> = m.scaling.iter().map(|s| &s.gb_per_s).collect();
    found.extend(m.copies.iter().map(|c| &c.seconds));
    found.extend(m.flops.iter().flat_map(|f| [&f.f64_gflops, &f.f32_gflops]));
    found.extend(m.gpu.iter().flat_map(|g| [&g.to_gbs, &g.from_gbs]));
    if let Some(core) = &m.core {
        found.extend([&core.clock_ghz, &core.ipc, &core.lines_in_flight, &core.read_gbs, &core.update_gbs]);
        found.extend(core.caches.iter().map(|c| &c.ns));
    }
    all.extend(found.into_iter().filter_map(|f| f.value));
    all.into_iter().map(|v| v.relative())
}

/// Runnable tasks, averaged over the last minute.
pub fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}
