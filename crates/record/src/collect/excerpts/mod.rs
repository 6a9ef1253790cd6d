//! Excerpts of a program, counted: now and then a running thread's process is copied (a fork), and the program goes on. Once it has ended,
//! each copy runs on from where it was, for some hundred million instructions under translation, with caches behind its accesses.
//!
//! A fork shares memory until one of both writes: the program's next write to a page copies it, and on a host of several nodes the copy may
//! be on another node. So excerpts are for hosts of one node, where pages have one place.

mod calls;
mod copies;
mod copy;
mod count;
mod run;
mod trace;

pub use copies::{Copies, possible};
pub use count::{Counted, Length, Ran};

use copy::{Copy, Refused};
use nearfar_host::proc;
use nearfar_simulate::ladder::{Use, exchanged};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What to take.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How long each is.
    pub length: Length,
    /// At most so many.
    pub most: usize,
    /// Mean time between two at the beginning. Where the program runs for long, every second copy is given up whenever there are
    /// too many, and the time doubles.
    pub every: Duration,
}

/// A copy that waits, and where it is from.
#[derive(Clone, Copy, Debug)]
pub struct From {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
}

/// A thread of ours that takes them.
pub struct Excerpts {
    /// The program ended.
    over: Arc<AtomicBool>,
    /// Nothing more is wanted.
    stop: Arc<AtomicBool>,
    copies: Arc<Mutex<HashSet<u32>>>,
    begun: Receiver<From>,
    thread: JoinHandle<Taken>,
}

/// What came of all of them.
#[derive(Debug, Default)]
pub struct Taken {
    /// Each, with where it is from, and how many lines may have come from other threads at most.
    pub excerpts: Vec<(From, Ran, u64)>,
    /// Why there are none of some process.
    pub refused: Option<String>,
}

impl Excerpts {
    /// Begins to copy a process and its descendants.
    pub fn begin(root: u32, plan: Plan) -> std::io::Result<Excerpts> {
        let (over, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let copies = Arc::new(Mutex::new(HashSet::new()));
        let (sender, begun) = channel();
        let taking =
            Taking { over: over.clone(), stop: stop.clone(), copies: copies.clone(), begun: sender, plan };
        let thread = std::thread::Builder::new().name("excerpts".into()).spawn(move || taking.all(root))?;
        Ok(Excerpts { over, stop, copies, begun, thread })
    }

    /// Processes that are copies, and no part of the program. None is made as long as this is held.
    pub fn copies(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies that were made since this was asked last.
    pub fn begun(&self) -> Vec<From> {
        self.begun.try_iter().collect()
    }

    /// The program ended: the copies run now.
    pub fn over(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether all have run.
    pub fn done(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the one that runs, if any; what came of all.
    pub fn end(self) -> Taken {
        self.stop.store(true, Ordering::Relaxed);
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

struct Taking {
    over: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    copies: Arc<Mutex<HashSet<u32>>>,
    begun: Sender<From>,
    plan: Plan,
}

impl Taking {
    fn all(self, root: u32) -> Taken {
        let mut random = Random(proc::monotonic_ns() | 1);
        let mut every = self.plan.every;
        let mut kept: Vec<(From, Copy)> = Vec::new();
        let mut taken = Taken::default();
        while pause(random.exponential(every), &self.over) {
            let Some((pid, tid)) = some_running(root, &mut random) else {
                continue;
            };
            if short_of_memory() {
                kept.pop();
                continue;
            }
            let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
            let copied = copy::of_thread(pid, tid, &mut |copy| {
                copies.insert(copy);
            });
            drop(copies);
            match copied {
                Ok(copy) => {
                    let from = From { time_ns: proc::monotonic_ns(), pid, tid };
                    goes_first(copy.pid);
                    let _ = self.begun.send(from);
                    kept.push((from, copy));
                }
                Err(Refused::Now) => {}
                Err(Refused::Never(why)) => taken.refused = Some(why),
            }
            if kept.len() > self.plan.most {
                let mut second = false;
                kept.retain(|_| {
                    second = !second;
                    second
                });
                every *= 2;
            }
        }
        for (from, mut copy) in kept {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let ran = run::run(&mut copy, self.plan.length, &self.stop);
            taken.excerpts.push((from, ran, 0));
        }
        exchange(&mut taken.excerpts);
        taken
    }
}

/// Finds how often lines may have come from other threads, from which lines each excerpt used.
fn exchange(excerpts: &mut [(From, Ran, u64)]) {
    let mut exchanges = Vec::new();
    for (from, ran, _) in excerpts.iter() {
        let others = excerpts.iter().filter(|(other, ..)| other.pid == from.pid && other.tid != from.tid);
        let others: Vec<&[Use]> = others.map(|(_, other, _)| other.uses.as_slice()).collect();
        // What other processes do there is not known.
        let of_processes =
            ran.uses.iter().filter(|used| ran.shared.iter().any(|(a, b)| (a..b).contains(&&used.line)));
        let of_processes: u64 = of_processes.map(|used| u64::from(used.spans)).sum();
        exchanges.push(exchanged(&ran.uses, &others) + of_processes);
    }
    for ((_, ran, exchanged), found) in excerpts.iter_mut().zip(exchanges) {
        *exchanged = found;
        ran.uses = Vec::new();
    }
}

/// Whether less than an eighth of the memory is left: pages that the program writes are copied as long as there are copies. // chosen
fn short_of_memory() -> bool {
    let about = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = |name| proc::field(&about, name).and_then(proc::kib);
    matches!((kib("MemAvailable"), kib("MemTotal")), (Some(left), Some(all)) if left < all / 8)
}

/// If memory gets short all the same, a copy ends before anything else. (It may be refused; then it goes like any.)
fn goes_first(pid: u32) {
    let _ = std::fs::write(format!("/proc/{pid}/oom_score_adj"), "1000");
}

/// Waits so long; false if that is not to go on.
fn pause(time: Duration, stopped: &AtomicBool) -> bool {
    let end = Instant::now() + time;
    loop {
        if stopped.load(Ordering::Relaxed) {
            return false;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(10)));
    }
}

/// One of the threads that run now, each as likely as the others: at random times, a thread is met as often as it runs.
fn some_running(root: u32, random: &mut Random) -> Option<(u32, u32)> {
    let mut running = Vec::new();
    for pid in proc::family(root) {
        for tid in proc::threads(pid) {
            let status = proc::status(pid, tid).unwrap_or_default();
            if proc::field(&status, "State").is_some_and(|state| state.starts_with('R')) {
                running.push((pid, tid));
            }
        }
    }
    let index = random.next() as usize % running.len().max(1);
    running.get(index).copied()
}

/// Numbers in no order (xorshift; G. Marsaglia, "Xorshift RNGs", 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 8
    }

    /// A time with that mean, as between events that do not wait for each other; a quarter of it at least, so that no program is copied while
    /// it is being loaded.
    fn exponential(&mut self, mean: Duration) -> Duration {
        let uniform = (self.next() % (1 << 24) + 1) as f64 / (1u64 << 24) as f64;
        mean.mul_f64(0.25 - 0.75 * uniform.ln()).min(mean * 5)
    }
}
