//! Throttles vCPUs that run ahead of the others in simulated time.
//!
//! A host with fewer cores than the machine lets one vCPU run for milliseconds while others wait. Where work
//! goes to the thread that comes first (dynamic schedules, locks, queues), the program would see that. So
//! a vCPU that is ahead sleeps, and the host has its cores for the others. It is a matter of the host's time only:
//! no clock is changed, and no vCPU waits for one that does not get on though it could.

use crate::host::HostThread;
use crate::plugin_state::PluginState;
use crate::turns::Turns;
use crate::wakes::Behind;
use nearfar_recording::tables::LEAD_NS;
use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

/// How long it naps on the host before it looks again, for each ns that it is ahead, ns: a fraction of what an
/// emulated cpu needs to catch up. Switching tasks costs the host something too. // chosen
const NAP_PER_LEAD: f64 = 20.0;

/// The longest nap: it may be waited for. // chosen
const LONGEST_NAP: Duration = Duration::from_millis(1);

/// After so much napping it looks at what the host does with the one that it waits for. // chosen
const LOOK: Duration = Duration::from_millis(1);

/// A vCPU that slept at so many of these looks waits for something, maybe for the throttled one: QEMU has
/// moments that all vCPUs must stop for. // chosen
const ASLEEP: u32 = 2;

/// A vCPU that worked for so long in the kernel may wait there for the throttled one. Page faults and ticks are
/// shorter. // chosen
const IN_KERNEL: Duration = Duration::from_millis(3);

/// Whatever the host reports, a vCPU is not throttled for longer than this while one clock stands. // chosen
const LONGEST: Duration = Duration::from_secs(1);

/// How long one waits for its turn before it looks again by itself. // chosen
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// One waits for its turn so many times as long as a throttled vCPU waits, before it goes on without: then the order is the host's. // chosen
const FOR_TURN: u32 = 10;

/// What a vCPU knows of the others' progress.
#[derive(Debug, Default)]
pub struct Throttle {
    /// Those that made no progress.
    stuck: HashMap<(usize, Option<u64>), Stuck>,
}

/// One that did not get on.
#[derive(Clone, Copy, Debug)]
struct Stuck {
    /// Where its clock stood, ns.
    ns: f64,
    /// Up to which clock of its own the vCPU goes on without it, ns. Then it looks again: a task may have slept
    /// because its waker had no processor.
    until_ns: f64,
}

impl Throttle {
    /// Naps while this clock is far ahead of others that go on, or waits for its turn where one vCPU runs at a time.
    #[inline]
    pub fn keep(&mut self, plugin: &PluginState, cpu: usize, clock_ns: f64) {
        if let Some(turns) = &plugin.turns {
            self.take_turn(plugin, turns, cpu, clock_ns);
        } else if self.slowest(plugin, clock_ns).is_some_and(|slowest| slowest.ns + LEAD_NS < clock_ns) {
            self.nap(plugin, clock_ns);
        }
    }

    #[cold]
    fn nap(&mut self, plugin: &PluginState, clock_ns: f64) {
        let heard = plugin.alarm.rings();
        let mut wait = None;
        while let Some(slowest) =
            self.slowest(plugin, clock_ns).filter(|slowest| slowest.ns + LEAD_NS < clock_ns)
        {
            self.look_at(slowest, &mut wait, 1, plugin, clock_ns);
            let lead = Duration::from_nanos((NAP_PER_LEAD * (clock_ns - slowest.ns)) as u64);
            if plugin.alarm.wait(lead.min(LONGEST_NAP), heard) {
                return;
            }
        }
    }

    /// Waits until it is this vCPU's turn, or until the kernel needs all vCPUs.
    fn take_turn(&mut self, plugin: &PluginState, turns: &Turns, cpu: usize, clock_ns: f64) {
        let heard = plugin.alarm.rings();
        let mut wait = None;
        while let Some(next) = self.next(plugin, turns, clock_ns).filter(|next| next.cpu != cpu) {
            self.look_at(next, &mut wait, FOR_TURN, plugin, clock_ns);
            if plugin.alarm.rings() != heard || plugin.stopped() {
                return;
            }
            thread::park_timeout(LOOK_AGAIN);
        }
    }

    /// One that is waited for: if it does not get on, the vCPU goes on without it for a while.
    fn look_at(
        &mut self,
        behind: Behind,
        wait: &mut Option<Wait>,
        patience: u32,
        plugin: &PluginState,
        clock_ns: f64,
    ) {
        match wait {
            Some(wait) if wait.of == behind => {
                if wait.is_vain(plugin, patience) {
                    // Further each time, or one that never gets on would be waited for all the time.
                    let until_ns = clock_ns + (clock_ns - behind.ns).max(LEAD_NS);
                    self.stuck.insert((behind.cpu, behind.due), Stuck { ns: behind.ns, until_ns });
                }
            }
            _ => *wait = Some(Wait::new(behind, plugin)),
        }
    }

    /// The vCPU goes on with something else: the turn is another's, if one runs at a time.
    pub fn pass_turn(&self, plugin: &PluginState) {
        if let Some(turns) = &plugin.turns {
            self.next(plugin, turns, plugin.latest_ns());
        }
    }

    /// The vCPU that has the turn now. It is woken if it is a new one.
    fn next(&self, plugin: &PluginState, turns: &Turns, clock_ns: f64) -> Option<Behind> {
        let turn = turns.decide(&self.runnable(plugin, clock_ns).collect::<Vec<_>>())?;
        if let Some(thread) = host(plugin, turn.of.cpu).filter(|_| turn.new) {
            thread.wake();
        }
        Some(turn.of)
    }

    /// The slowest of those that run and of those that will go on in a moment.
    fn slowest(&self, plugin: &PluginState, clock_ns: f64) -> Option<Behind> {
        self.runnable(plugin, clock_ns).min_by(|a, b| a.ns.total_cmp(&b.ns))
    }

    /// Those that run, and of those that will go on in a moment the slowest. For a task whose vCPU another
    /// thread has, nothing can wait.
    fn runnable(&self, plugin: &PluginState, clock_ns: f64) -> impl Iterator<Item = Behind> {
        let gets_on = move |behind: &Behind| {
            let stuck = self.stuck.get(&(behind.cpu, behind.due)).filter(|stuck| stuck.ns == behind.ns);
            stuck.is_none_or(|stuck| stuck.until_ns <= clock_ns)
        };
        let running = plugin.running_ns().map(|(cpu, ns)| Behind { cpu, ns, due: None }).filter(gets_on);
        let due = plugin.wakes().due(|behind| plugin.is_free(behind.cpu) && gets_on(behind));
        running.chain(due)
    }
}

/// The host's thread of a vCPU.
fn host(plugin: &PluginState, cpu: usize) -> Option<&HostThread> {
    plugin.visible(cpu)?.host.get()
}

/// One that is behind is waited for.
struct Wait {
    of: Behind,
    since: Instant,
    /// Processor time that its vCPU had used then.
    used: Option<Duration>,
    /// When the host was last asked.
    looked: Instant,
    /// At how many looks it slept.
    asleep: u32,
}

impl Wait {
    fn new(of: Behind, plugin: &PluginState) -> Wait {
        let used = host(plugin, of.cpu).and_then(HostThread::used);
        let now = Instant::now();
        Wait { of, since: now, used, looked: now, asleep: 0 }
    }

    /// Whether it could have got on by now, if it is waited for `patience` times as long as at the least.
    fn is_vain(&mut self, plugin: &PluginState, patience: u32) -> bool {
        if self.looked.elapsed() < LOOK {
            return false;
        }
        self.looked = Instant::now();
        let Some(thread) = host(plugin, self.of.cpu) else { return true };
        self.asleep += u32::from(thread.sleeps());
        let used = thread.used().zip(self.used).map(|(now, then)| now.saturating_sub(then));
        // In the program's own code it gets on whenever it has a processor.
        let works = plugin.is_in_program(self.of.cpu);
        self.asleep >= ASLEEP * patience
            || (!works && used.is_none_or(|used| used > IN_KERNEL * patience))
            || self.since.elapsed() > LONGEST
    }
}
