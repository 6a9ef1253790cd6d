//! When tasks were woken, by the clocks of those who woke them.
//!
//! The host lets vCPUs go on unevenly: of the threads that one call wakes, the first may be at the next
//! barrier before the last goes on. When that one does, nothing that it sees tells which of the
//! others' calls woke it. So the clock is noted while the kernel wakes.

use std::collections::{BTreeMap, BTreeSet};

/// Wake-up addresses remembered for threads that are not identified yet (at most this many). The kernel's own data (run queues) are touched again and again;
/// new are tasks that have not run yet, and they run soon.
const STRANGERS: usize = 1 << 14;

/// The thread that wakes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The program.
    Program,
    /// A timer, a device or a task of the kernel.
    Outside,
    /// It is a new task, and was never woken before, no matter which had its address.
    New,
}

/// How a task left its vCPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Left {
    /// It is none of the program's, or was not counted.
    Unknown,
    /// The kernel interrupted it at this time, ns.
    Interrupted(f64),
    /// It asked for it at this time, ns: it sleeps.
    Asleep(f64),
}

/// The threads that one system call woke.
#[derive(Clone, Debug, Default)]
struct Together {
    /// When, ns: a clock stands still while its thread is in the kernel.
    ns: f64,
    /// Their tasks. Threads of the program only.
    tasks: Vec<u64>,
    /// The latest of the times at which they went to sleep, ns.
    latest_ns: f64,
}

impl Together {
    /// When the barrier ends at which they waited, ns; `None` if one thread alone was woken.
    fn ends_ns(&self) -> Option<f64> {
        (self.tasks.len() > 1).then_some(self.latest_ns)
    }
}

/// A vCPU that is behind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Behind {
    /// Its vCPU, or where it will probably go on.
    pub cpu: usize,
    /// Its clock, ns.
    pub ns: f64,
    /// Its task, if it does not run yet but will in a moment.
    pub due: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    /// When it was last woken, simulated time, ns; 0 if never.
    woken_ns: f64,
    /// When it last went to sleep, as above; 0 if never, or if it is none of the program's.
    slept_ns: f64,
    /// The vCPU that it ran on last.
    vcpu: usize,
}

/// A task that will go on.
#[derive(Clone, Copy, Debug)]
struct Due {
    /// From when on, simulated time, ns.
    ns: f64,
    /// Where it ran last, and probably will.
    vcpu: usize,
}

/// All tasks that have run since the machine resumed, and when they were woken.
#[derive(Debug, Default)]
pub struct Wakes {
    /// By address of the `task_struct`.
    tasks: BTreeMap<u64, Task>,
    /// Bytes of a `task_struct` that are surely its own.
    task_bytes: u64,
    /// What was touched when a thread was woken that has not run yet.
    strangers: BTreeMap<u64, f64>,
    /// Tasks that run.
    running: BTreeSet<u64>,
    /// Tasks that the program woke, or that the kernel interrupted, and that have not gone on yet.
    due: BTreeMap<u64, Due>,
    /// By the vCPU whose thread woke them: those of its latest call.
    together: BTreeMap<usize, Together>,
}

impl Wakes {
    /// A task is going to run on a vCPU, where another one ran and `left`. Of its `task_struct` this many bytes are known
    /// to be there.
    pub fn runs(&mut self, vcpu: usize, last: u64, task: u64, bytes: u64, left: Left) {
        self.task_bytes = bytes;
        self.running.remove(&last);
        match left {
            Left::Interrupted(ns) => drop(self.due.insert(last, Due { ns, vcpu })),
            Left::Asleep(_) | Left::Unknown => drop(self.due.remove(&last)),
        }
        if let (Left::Asleep(ns), Some(last)) = (left, self.tasks.get_mut(&last)) {
            last.slept_ns = ns;
        }
        self.running.insert(task);
        self.due.remove(&task);
        let strangers = &self.strangers;
        let known = self.tasks.entry(task).or_insert_with(|| {
            let touched = strangers.range(task..task + bytes);
            Task { woken_ns: touched.map(|(_, ns)| *ns).fold(0.0, f64::max), slept_ns: 0.0, vcpu }
        });
        known.vcpu = vcpu;
    }

    /// While vCPU `waker` woke a task at this time, this address was touched. It tells which one, if it is in a
    /// `task_struct`.
    pub fn touched(&mut self, waker: usize, address: u64, ns: f64, wake: Wake) {
        let before = self.tasks.range_mut(..=address).next_back();
        match before.filter(|(task, _)| address - **task < self.task_bytes) {
            Some((&address, task)) => {
                if wake == Wake::New {
                    (task.woken_ns, task.slept_ns) = (ns, 0.0);
                } else {
                    task.woken_ns = task.woken_ns.max(ns);
                }
                if wake == Wake::Program && !self.running.contains(&address) {
                    self.due.entry(address).or_insert(Due { ns, vcpu: task.vcpu });
                    let slept_ns = task.slept_ns;
                    if slept_ns > 0.0 {
                        self.woken_together(waker, address, ns, slept_ns);
                    }
                }
            }
            None => {
                if self.strangers.len() >= STRANGERS {
                    self.strangers.clear();
                }
                self.strangers.insert(address, ns);
            }
        }
    }

    fn woken_together(&mut self, waker: usize, task: u64, ns: f64, slept_ns: f64) {
        let together = self.together.entry(waker).or_default();
        if together.ns != ns {
            *together = Together { ns, ..Together::default() };
        }
        if together.tasks.contains(&task) {
            return;
        }
        together.tasks.push(task);
        together.latest_ns = together.latest_ns.max(slept_ns);
        if let Some(latest_ns) = together.ends_ns() {
            for task in &together.tasks {
                if let Some(task) = self.tasks.get_mut(task) {
                    task.woken_ns = task.woken_ns.max(latest_ns);
                }
            }
        }
    }

    /// The thread on this vCPU woke others at this time, ns. If it woke several, they were at a barrier: when that ends, ns. A thread
    /// that unlocks a mutex wakes one.
    pub fn barrier_ns(&self, waker: usize, ns: f64) -> Option<f64> {
        let together = self.together.get(&waker).filter(|together| together.ns == ns);
        together.and_then(Together::ends_ns).map(|latest_ns| latest_ns.max(ns))
    }

    /// Of the tasks that will go on in a moment, and that `count`, the one that will at the earliest time.
    pub fn due(&self, count: impl Fn(&Behind) -> bool) -> Option<Behind> {
        let due = self.due.iter().map(|(task, due)| Behind { cpu: due.vcpu, ns: due.ns, due: Some(*task) });
        due.filter(count).min_by(|a, b| a.ns.total_cmp(&b.ns))
    }

    /// When the task was last woken, ns; 0 if it never was.
    pub fn woken_ns(&self, task: u64) -> f64 {
        self.tasks.get(&task).map_or(0.0, |task| task.woken_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_known_by_what_it_touches_of_it() {
        let mut wakes = Wakes::default();
        wakes.runs(0, 1, 0x1000, 0x800, Left::Unknown);
        wakes.runs(0, 2, 0x3000, 0x800, Left::Unknown);
        wakes.touched(5, 0x3018, 50.0, Wake::Program);
        wakes.touched(5, 0x17ff, 20.0, Wake::Program);
        wakes.touched(5, 0x1018, 10.0, Wake::Outside);
        wakes.touched(5, 0x1800, 90.0, Wake::Program);
        assert_eq!(
            (wakes.woken_ns(0x1000), wakes.woken_ns(0x3000), wakes.woken_ns(0x5000)),
            (20.0, 50.0, 0.0)
        );
    }

    #[test]
    fn who_has_not_run_yet_is_told_when_it_does() {
        let mut wakes = Wakes::default();
        wakes.touched(5, 0x1018, 30.0, Wake::New);
        wakes.runs(0, 1, 0x1000, 0x800, Left::Unknown);
        assert_eq!(wakes.woken_ns(0x1000), 30.0);
        // The address is another task's now.
        wakes.touched(5, 0x1018, 10.0, Wake::New);
        assert_eq!(wakes.woken_ns(0x1000), 10.0);
    }

    #[test]
    fn who_was_woken_is_due_until_it_runs() {
        let mut wakes = Wakes::default();
        let due = |wakes: &Wakes| wakes.due(|_| true).map(|behind| (behind.due, behind.ns));
        wakes.runs(0, 1, 0x1000, 0x800, Left::Unknown);
        wakes.touched(5, 0x1018, 10.0, Wake::Program);
        assert_eq!(due(&wakes), None, "it runs already");
        wakes.runs(0, 0x1000, 0x3000, 0x800, Left::Unknown);
        wakes.touched(5, 0x1018, 20.0, Wake::Outside);
        assert_eq!(due(&wakes), None, "no time is known at which it goes on");
        wakes.touched(5, 0x1018, 30.0, Wake::Program);
        wakes.touched(5, 0x1020, 40.0, Wake::Program);
        assert_eq!(due(&wakes), Some((Some(0x1000), 30.0)));
        assert_eq!(wakes.due(|behind| behind.cpu != 0), None, "another one runs there");
        wakes.runs(0, 0x3000, 0x1000, 0x800, Left::Unknown);
        assert_eq!(due(&wakes), None);
    }

    #[test]
    fn who_was_interrupted_is_due_until_it_runs() {
        let mut wakes = Wakes::default();
        let due = |wakes: &Wakes| wakes.due(|_| true);
        wakes.runs(3, 1, 0x1000, 0x800, Left::Unknown);
        wakes.runs(3, 0x1000, 0x3000, 0x800, Left::Interrupted(70.0));
        assert_eq!(due(&wakes), Some(Behind { cpu: 3, ns: 70.0, due: Some(0x1000) }));
        wakes.runs(3, 0x3000, 0x1000, 0x800, Left::Unknown);
        wakes.runs(3, 0x1000, 0x3000, 0x800, Left::Unknown);
        assert_eq!(due(&wakes), None, "it sleeps");
    }

    #[test]
    fn who_is_woken_together_goes_on_at_the_latest_of_their_clocks() {
        let mut wakes = Wakes::default();
        let (first, second, third) = (0x1000, 0x3000, 0x5000);
        for (vcpu, task) in [(0, first), (1, second), (2, third)] {
            wakes.runs(vcpu, 1, task, 0x800, Left::Unknown);
        }
        wakes.runs(0, first, 1, 0x800, Left::Asleep(40.0));
        wakes.runs(1, second, 2, 0x800, Left::Asleep(55.0));
        wakes.touched(2, first + 0x18, 50.0, Wake::Program);
        wakes.touched(2, first + 0x20, 50.0, Wake::Program);
        assert_eq!(
            (wakes.woken_ns(first), wakes.barrier_ns(2, 50.0)),
            (50.0, None),
            "one alone, as of a mutex"
        );
        wakes.touched(2, second + 0x18, 50.0, Wake::Program);
        assert_eq!((wakes.woken_ns(first), wakes.woken_ns(second)), (55.0, 55.0));
        assert_eq!((wakes.barrier_ns(2, 50.0), wakes.barrier_ns(0, 50.0)), (Some(55.0), None));
        // The next call.
        wakes.runs(0, 1, first, 0x800, Left::Unknown);
        wakes.runs(0, first, 1, 0x800, Left::Asleep(90.0));
        wakes.touched(2, first + 0x18, 80.0, Wake::Program);
        assert_eq!((wakes.woken_ns(first), wakes.barrier_ns(2, 80.0)), (80.0, None));
    }
}
