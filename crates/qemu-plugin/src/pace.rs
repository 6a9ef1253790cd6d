//! vCPUs keep pace with each other in simulated time.
//!
//! A host with fewer cores than the machine lets one vCPU run for milliseconds while others wait. Where work
//! goes to whoever comes first (dynamic schedules, locks, queues), the program would see that. So
//! whoever is ahead naps, and the host has its cores for the others. It is a matter of the host's time only:
//! nobody's clock is changed, and nobody waits for one that does not get on though it could.

use crate::host::HostThread;
use crate::world::World;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How far ahead of the slowest a vCPU may be, ns: a fraction of what a block of a dynamic schedule takes. // chosen
const LEAD_NS: f64 = 10_000.0;

/// How long it naps on the host before it looks again.
const NAP: Duration = Duration::from_micros(50);

/// After so many naps it looks at what the host does with the one that it waits for. // chosen
const NAPS: u32 = 20;

/// Who has slept at so many of these looks waits for something that may be the one who naps: QEMU has
/// moments that all vCPUs must stop for. // chosen
const ASLEEP: u32 = 2;

/// Who has worked for so long in the kernel may wait there for an answer of the one who naps (a flush of
/// translations). Page faults and ticks are shorter. // chosen
const IN_KERNEL: Duration = Duration::from_millis(1);

/// Whatever the host says, nobody waits longer for one clock to move. // chosen
const LONGEST: Duration = Duration::from_secs(1);

/// Who is behind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Behind {
    /// Its vCPU, or where it will probably go on.
    pub cpu: usize,
    /// Its clock, ns.
    pub ns: f64,
    /// Its task, if it does not run yet but will in a moment.
    pub due: Option<u64>,
}

/// What a vCPU knows of the others' pace.
#[derive(Debug, Default)]
pub struct Pace {
    /// Who did not get on, and where their clocks stood.
    stuck: HashMap<(usize, Option<u64>), f64>,
}

impl Pace {
    /// Naps while this clock is far ahead of others that go on.
    #[inline]
    pub fn keep(&mut self, world: &World, clock_ns: f64) {
        if self.slowest(world).is_some_and(|slowest| slowest.ns + LEAD_NS < clock_ns) {
            self.nap(world, clock_ns);
        }
    }

    #[cold]
    fn nap(&mut self, world: &World, clock_ns: f64) {
        let mut wait: Option<Wait> = None;
        while let Some(slowest) = self.slowest(world).filter(|slowest| slowest.ns + LEAD_NS < clock_ns) {
            match &mut wait {
                Some(wait) if wait.of == slowest => {
                    if wait.is_vain(world) {
                        self.stuck.insert((slowest.cpu, slowest.due), slowest.ns);
                    }
                }
                _ => wait = Some(Wait::new(slowest, world)),
            }
            std::thread::sleep(NAP);
        }
    }

    /// The slowest of those that run and of those that will go on in a moment. For a task whose vCPU another
    /// thread has, nobody can wait.
    fn slowest(&self, world: &World) -> Option<Behind> {
        let gets_on = |behind: &Behind| self.stuck.get(&(behind.cpu, behind.due)) != Some(&behind.ns);
        let running = world.running_ns().map(|(cpu, ns)| Behind { cpu, ns, due: None }).filter(gets_on);
        let due = world.wakes().due(|behind| world.is_free(behind.cpu) && gets_on(behind));
        running.chain(due).min_by(|a, b| a.ns.total_cmp(&b.ns))
    }
}

/// One that is behind is waited for.
struct Wait {
    of: Behind,
    since: Instant,
    /// Processor time that its vCPU had used then.
    used: Option<Duration>,
    naps: u32,
    /// At how many looks it slept.
    asleep: u32,
}

impl Wait {
    fn new(of: Behind, world: &World) -> Wait {
        let used = host(world, of.cpu).and_then(HostThread::used);
        Wait { of, since: Instant::now(), used, naps: 0, asleep: 0 }
    }

    /// Whether it could have got on by now.
    fn is_vain(&mut self, world: &World) -> bool {
        self.naps += 1;
        if self.naps % NAPS != 0 {
            return false;
        }
        let Some(thread) = host(world, self.of.cpu) else { return true };
        self.asleep += u32::from(thread.sleeps());
        let used = thread.used().zip(self.used).map(|(now, then)| now.saturating_sub(then));
        // In the program's own code it gets on whenever it has a processor.
        let works = world.is_in_program(self.of.cpu);
        self.asleep >= ASLEEP
            || (!works && used.is_none_or(|used| used > IN_KERNEL))
            || self.since.elapsed() > LONGEST
    }
}

/// The host's thread of a vCPU.
fn host(world: &World, cpu: usize) -> Option<&HostThread> {
    world.visible(cpu)?.host.thread()
}
