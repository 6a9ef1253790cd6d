//! vCPUs keep pace with each other in simulated time.
//!
//! A host with fewer cores than the machine lets one vCPU run for milliseconds while others wait. Where work
//! goes to whoever comes first (dynamic schedules, locks, queues), the program would see that. So
//! whoever is ahead naps, and the host has its cores for the others. It is a matter of the host's time only:
//! nobody's clock is changed, and nobody waits for one that does not get on.

use crate::world::World;
use std::collections::HashMap;
use std::time::Duration;

/// How far ahead of the slowest a vCPU may be, ns: a fraction of what a block of a dynamic schedule takes. // chosen
const LEAD_NS: f64 = 10_000.0;

/// How long it naps on the host before it looks again.
const NAP: Duration = Duration::from_micros(50);

/// After so many naps it goes on whatever the others do: they may need it for an exclusive moment of QEMU.
const NAPS: u32 = 40;

/// What a vCPU knows of the others' pace.
#[derive(Debug, Default)]
pub struct Pace {
    /// vCPUs for which it napped in vain, and where their clocks stood.
    stuck: HashMap<usize, f64>,
}

impl Pace {
    /// Naps while this clock is far ahead of others that go on.
    #[inline]
    pub fn keep(&mut self, world: &World, clock_ns: f64) {
        if self.slowest(world).is_some_and(|(_, ns)| ns + LEAD_NS < clock_ns) {
            self.nap(world, clock_ns);
        }
    }

    #[cold]
    fn nap(&mut self, world: &World, clock_ns: f64) {
        let mut first = None;
        for _ in 0..NAPS {
            match self.slowest(world).filter(|(_, ns)| ns + LEAD_NS < clock_ns) {
                None => return,
                Some(slowest) => {
                    first.get_or_insert(slowest);
                }
            }
            std::thread::sleep(NAP);
        }
        if let (Some(before), Some(now)) = (first, self.slowest(world))
            && before == now
            && let (Some(cpu), ns) = now
        {
            self.stuck.insert(cpu, ns);
        }
    }

    /// The slowest of those that run and of those that will go on in a moment; of the former also which it is.
    fn slowest(&self, world: &World) -> Option<(Option<usize>, f64)> {
        let running = world.running_ns().filter(|(cpu, ns)| self.stuck.get(cpu) != Some(ns));
        let running = running.map(|(cpu, ns)| (Some(cpu), ns));
        let due = world.wakes().due_ns(|vcpu| world.is_free(vcpu));
        let due = due.is_finite().then_some((None, due));
        running.chain(due).min_by(|a, b| a.1.total_cmp(&b.1))
    }
}
