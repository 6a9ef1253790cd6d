//! Counters of single threads: the kernel's own (CPU time, page faults, switches, migrations) and the processor's.
//!
//! What works is tried once, on this thread ([`Plan::new`]). Each thread then gets the same groups; the events of a group
//! count at the same time. Hardware events leave out what the kernel does for the thread, as samples do. None of those was
//! ever run by this project: the machines that build it have no PMU.

use super::call::{Counting, explain_threads, open, open_group, read_group};
use super::pmu::type_of;
use nearfar_observed::live::events::{Encoding, Event, Processor, encoding};
use nearfar_observed::live::reading::Count;
use nearfar_recording::Along;
use perf_event_open_sys::bindings::*;
use std::io;
use std::os::fd::OwnedFd;

/// The kernel's own events.
const SOFTWARE: [(Along, u32, &str); 4] = [
    (Along::CpuTime, PERF_COUNT_SW_TASK_CLOCK, "task-clock"),
    (Along::Faults, PERF_COUNT_SW_PAGE_FAULTS, "page-faults"),
    (Along::Switches, PERF_COUNT_SW_CONTEXT_SWITCHES, "context-switches"),
    (Along::Migrations, PERF_COUNT_SW_CPU_MIGRATIONS, "cpu-migrations"),
];
/// Hardware events that are counted together.
const HARDWARE: [&[(Along, Event)]; 3] = [
    &[(Along::Cycles, Event::Cycles), (Along::Instructions, Event::Instructions)],
    &[(Along::Misses, Event::L3Misses)],
    &[(Along::LocalLines, Event::LocalLines), (Along::RemoteLines, Event::RemoteLines)],
];
/// The kernel's generic event for misses of caches, for processors without a table.
const CACHE_MISSES: u64 = PERF_COUNT_HW_CACHE_MISSES as u64;

/// A counter that threads get.
#[derive(Clone, Debug)]
pub struct Member {
    /// What it counts.
    pub what: Along,
    /// What counts it, in words: the kernel, or an event of the processor.
    pub source: String,
    type_: u32,
    config: u64,
    user_only: bool,
}

/// Which counters threads get, and why the others are missing.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    groups: Vec<Vec<Member>>,
    /// What is not counted, and why.
    pub missing: Vec<(Along, String)>,
}

/// The counters of a thread, or of a program with all that it starts.
pub struct ThreadCounters {
    groups: Vec<(Vec<OwnedFd>, usize)>,
}

impl Member {
    fn on(&self, thread: libc::pid_t, on_exec: bool, inherit: bool) -> Counting {
        let Member { type_, config, user_only, .. } = *self;
        Counting { type_, config, thread, cpu: -1, user_only, on_exec, inherit }
    }
}

impl Plan {
    /// Tries what works, on the calling thread.
    pub fn new(processor: &Processor) -> Plan {
        let mut plan = Plan::default();
        let mut software = Vec::new();
        for (what, config, name) in SOFTWARE {
            let member = |user_only| Member {
                what,
                source: format!("kernel: {name}{}", if user_only { ", of user mode" } else { "" }),
                type_: PERF_TYPE_SOFTWARE,
                config: config.into(),
                user_only,
            };
            // The kernel switches and migrates in its own mode: such an event of user mode would count 0.
            let in_user_mode = matches!(what, Along::CpuTime | Along::Faults);
            let tried =
                open(&member(false).on(0, false, false), None).map(|_| member(false)).or_else(|error| {
                    match in_user_mode {
                        true => open(&member(true).on(0, false, false), None).map(|_| member(true)),
                        false => Err(error),
                    }
                });
            match tried {
                Ok(member) => software.push(member),
                Err(error) => plan.missing.push((what, explain_threads(&error))),
            }
        }
        plan.groups.push(software);
        for group in HARDWARE {
            match of_hardware(processor, group) {
                Ok(members) => plan.groups.push(members),
                Err(why) => plan.missing.extend(group.iter().map(|(what, _)| (*what, why.clone()))),
            }
        }
        plan.groups.retain(|group| !group.is_empty());
        plan
    }

    /// Its counters, in the order of [`ThreadCounters::read`].
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.groups.iter().flatten()
    }

    /// The part of it that costs nothing twice: the kernel's own events.
    pub fn software(&self) -> Plan {
        let is = |group: &Vec<Member>| group.iter().all(|m| m.type_ == PERF_TYPE_SOFTWARE);
        // Each alone: not every kernel counts groups of what is inherited.
        let alone = self.groups.iter().filter(|group| is(group)).flatten().map(|m| vec![m.clone()]);
        Plan { groups: alone.collect(), missing: Vec::new() }
    }

    /// Opens them on a thread: from now on, or from its exec.
    ///
    /// # Errors
    /// The kernel's refusal; the thread may have ended.
    pub fn open(&self, thread: u32, on_exec: bool, inherit: bool) -> io::Result<ThreadCounters> {
        let groups = self.groups.iter().map(|members| {
            let whats: Vec<Counting> =
                members.iter().map(|m| m.on(thread as libc::pid_t, on_exec, inherit)).collect();
            Ok((open_group(&whats)?, members.len()))
        });
        Ok(ThreadCounters { groups: groups.collect::<io::Result<_>>()? })
    }
}

/// A group of hardware events that this processor has a table for, if it can be opened.
fn of_hardware(processor: &Processor, group: &[(Along, Event)]) -> Result<Vec<Member>, String> {
    let member = |&(what, event): &(Along, Event)| {
        let encoding = encoding(processor, event)
            .or((event == Event::L3Misses).then_some(Encoding::Generic(CACHE_MISSES)))
            .ok_or_else(|| format!("nearfar has no table of events for {}", processor.words()))?;
        let (type_, config) = type_of(encoding);
        let source = match encoding {
            Encoding::Generic(CACHE_MISSES) => "PMU: the kernel's generic cache-misses, user mode".to_owned(),
            Encoding::Generic(_) => "PMU, user mode".to_owned(),
            Encoding::Raw(raw) => format!("PMU: raw event {raw:#06x}, user mode"),
        };
        Ok(Member { what, source, type_, config, user_only: true })
    };
    let members = group.iter().map(member).collect::<Result<Vec<Member>, String>>();
    // Where nothing can be counted, that is the reason to give.
    let (type_, config) = type_of(Encoding::Generic(0));
    let cycles = Member { what: Along::Cycles, source: String::new(), type_, config, user_only: true };
    open(&cycles.on(0, false, false), None).map_err(|error| explain_threads(&error))?;
    let members = members?;
    let whats: Vec<Counting> = members.iter().map(|m| m.on(0, false, false)).collect();
    open_group(&whats).map(|_| members).map_err(|error| explain_threads(&error))
}

impl ThreadCounters {
    /// All counts now, in the order of the plan's members. They stay readable when the thread has ended.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn read(&self) -> io::Result<Vec<Count>> {
        let mut all = Vec::new();
        for (fds, number) in &self.groups {
            all.extend(read_group(&fds[0], *number)?);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_and_what_it_starts_are_counted_apart() {
        let plan = Plan::new(&Processor::default());
        if plan.members().all(|m| m.what != Along::CpuTime) {
            return eprintln!("skipped: perf events: {:?}", plan.missing);
        }
        for (what, why) in &plan.missing {
            assert!(!why.is_empty(), "{what:?}");
        }
        let (own, all) = (plan.open(0, false, false).unwrap(), plan.software().open(0, false, true).unwrap());
        let spin = || (0..20_000_000u64).fold(0u64, |sum, i| std::hint::black_box(sum.wrapping_add(i * i)));
        std::thread::spawn(spin).join().unwrap();
        let time = |counters: &ThreadCounters| counters.read().unwrap()[0].value;
        // This thread waited while the other worked.
        assert!(time(&all) > 2 * time(&own), "{} {}", time(&all), time(&own));
    }
}
