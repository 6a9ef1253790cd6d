//! When tasks were woken, by the clocks of those who woke them.
//!
//! The host lets vCPUs go on unevenly: of the threads that one call wakes, the first may be at the next
//! barrier before the last goes on. When that one does, nothing that it sees tells which of the
//! others' calls woke it. So the clock is noted while the kernel wakes.

use std::collections::BTreeMap;

/// Addresses of nobody known that are kept. The kernel's own data (run queues) are touched again and again;
/// new are tasks that have not run yet, and they run soon.
const STRANGERS: usize = 1 << 14;

/// All tasks that have run since the machine resumed, and when they were woken.
#[derive(Debug, Default)]
pub struct Wakes {
    /// By address of the `task_struct`: simulated time, ns; 0 if never.
    tasks: BTreeMap<u64, f64>,
    /// Bytes of a `task_struct` that are surely its own.
    task_bytes: u64,
    /// What was touched when somebody was woken who has not run yet.
    strangers: BTreeMap<u64, f64>,
}

impl Wakes {
    /// A task is going to run. Of its `task_struct` this many bytes are known to be there.
    pub fn runs(&mut self, task: u64, bytes: u64) {
        self.task_bytes = bytes;
        if !self.tasks.contains_key(&task) {
            let touched = self.strangers.range(task..task + bytes);
            self.tasks.insert(task, touched.map(|(_, ns)| *ns).fold(0.0, f64::max));
        }
    }

    /// While a task was woken at this time, this address was touched. It tells which one, if it is in a
    /// `task_struct`. A new task was never woken before, whoever had its address.
    pub fn touched(&mut self, address: u64, ns: f64, new: bool) {
        let before = self.tasks.range_mut(..=address).next_back();
        match before.filter(|(task, _)| address - **task < self.task_bytes) {
            Some((_, woken)) if new => *woken = ns,
            Some((_, woken)) => *woken = woken.max(ns),
            None => {
                if self.strangers.len() >= STRANGERS {
                    self.strangers.clear();
                }
                self.strangers.insert(address, ns);
            }
        }
    }

    /// When the task was last woken, ns; 0 if it never was.
    pub fn woken_ns(&self, task: u64) -> f64 {
        self.tasks.get(&task).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_known_by_what_it_touches_of_it() {
        let mut wakes = Wakes::default();
        wakes.runs(0x1000, 0x800);
        wakes.runs(0x3000, 0x800);
        wakes.touched(0x3018, 50.0, false);
        wakes.touched(0x17ff, 20.0, false);
        wakes.touched(0x1018, 10.0, false);
        wakes.touched(0x1800, 90.0, false);
        assert_eq!(
            (wakes.woken_ns(0x1000), wakes.woken_ns(0x3000), wakes.woken_ns(0x5000)),
            (20.0, 50.0, 0.0)
        );
    }

    #[test]
    fn who_has_not_run_yet_is_told_when_it_does() {
        let mut wakes = Wakes::default();
        wakes.touched(0x1018, 30.0, true);
        wakes.runs(0x1000, 0x800);
        assert_eq!(wakes.woken_ns(0x1000), 30.0);
        // The address is another task's now.
        wakes.touched(0x1018, 10.0, true);
        assert_eq!(wakes.woken_ns(0x1000), 10.0);
    }
}
