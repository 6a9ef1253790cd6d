//! The time of one piece of work.

use super::demand::{self, demands};
use super::network;
use super::parameters::Parameters;
use super::value::{Binding, Carried, EpochTime, Moved};
use super::work::Work;

/// The time of one piece of work, and what binds it. Depends on nothing else, so
/// that work with other nodes of pages can be timed in the same way.
pub fn epoch_time(parameters: &Parameters, work: &Work) -> EpochTime {
    let d = demands(parameters, work);
    let solved = network::run(&parameters.ways, &d.classes, d.stations.len());
    let most = |f: fn(&demand::Class) -> f64| d.classes.iter().map(f).fold(0.0, f64::max);
    let core = (Binding::Core, most(|c| c.core_ns));
    let concurrency = (Binding::Concurrency, most(|c| c.latency_ns.max(c.walk_ns)));
    let mut bounds = vec![core, concurrency];
    bounds.extend(d.stations.iter().map(|s| (s.binds, s.busy_ns)));
    // The last of equals: a shared resource rather than a core.
    let (binds, bound) = bounds.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(core);
    let finish = solved.finish_ns.iter().copied().fold(0.0, f64::max);
    let alone = solved.alone_ns.iter().copied().fold(0.0, f64::max);
    EpochTime {
        ns: finish.max(bound).max(alone * work.wait_factor()),
        binds,
        bound_ns: bound,
        core_ns: core.1,
        concurrency_ns: concurrency.1,
        finish_ns: solved.finish_ns,
        memory: d.memory.iter().map(|&(read_bytes, write_bytes)| Moved { read_bytes, write_bytes }).collect(),
        links: d.links.iter().map(|l| Carried { data_bytes: l.data, bytes: l.all }).collect(),
    }
}
