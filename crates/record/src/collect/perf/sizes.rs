//! How large the rings of a recorder are.

use nearfar_host::proc::{self, page_bytes};

/// How large rings are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rings {
    /// As large as they may be, of one of so many recorders of the same launch on this host, which share what one
    /// user may lock.
    Ranks(u32),
    /// Of an emulated program: a hundred times fewer events a second, and the kernel clears each page of a ring.
    Emulated,
    /// The smallest: what is asked is whether events work.
    Probe,
}

/// Sizes of a cpu's two rings, bytes: what is needed complete, and the call
/// chains, which may be lost without harm and so must not crowd out the rest.
/// An ordinary user may lock perf_event_mlock_kb (516 KiB by default) per cpu,
/// plus RLIMIT_MEMLOCK in all: the last row of one recorder always fits that.
const RING_SIZES: [[usize; 2]; 7] = [
    [8 << 20, 1 << 20],
    [2 << 20, 512 << 10],
    [1 << 20, 256 << 10],
    [256 << 10, 128 << 10],
    // Where ranks share. No chains' ring may be smaller: a record has CHAIN_STACK bytes and more.
    [128 << 10, 64 << 10],
    [64 << 10, 32 << 10],
    [32 << 10, 16 << 10],
];
/// Of these, how many are for a recorder that shares with none.
const ALONE: usize = 4;
/// Where those of an emulated program begin.
const EMULATED: usize = 2;

/// Memory for all rings together, where the kernel allows more than the minimum for each.
const RING_BUDGET: usize = 64 << 20;

/// The sizes to try, largest first. Each of several recorders takes its part of what their user may lock, besides its
/// own RLIMIT_MEMLOCK: else the first ones take it all, and the last have no samples.
pub(super) fn ring_sizes(cpus: usize, rings: Rings, allowed: Option<Allowed>) -> Vec<[usize; 2]> {
    let ranks = match rings {
        Rings::Ranks(ranks) => ranks.max(1) as usize,
        Rings::Emulated => return RING_SIZES[EMULATED..].to_vec(),
        Rings::Probe => return RING_SIZES[RING_SIZES.len() - 1..].to_vec(),
    };
    let rows = if ranks > 1 { &RING_SIZES[..] } else { &RING_SIZES[..ALONE] };
    let (last, others) = rows.split_last().expect("there are sizes");
    let locked = allowed
        .filter(|_| ranks > 1)
        .map(|a| (a.user_bytes_per_cpu.saturating_mul(cpus) / ranks).saturating_add(a.process_bytes));
    let fits = |sizes: &&[usize; 2]| {
        let bytes: usize = sizes.iter().sum();
        // Each ring has a page for its head.
        bytes * cpus <= RING_BUDGET / ranks
            && locked.is_none_or(|locked| (bytes + 2 * page_bytes() as usize) * cpus <= locked)
    };
    others.iter().filter(fits).chain([last]).copied().collect()
}

/// What the kernel lets an ordinary user lock for rings (kernel/events/core.c, perf_mmap).
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    /// perf_event_mlock_kb, of all processes of a user together.
    user_bytes_per_cpu: usize,
    /// RLIMIT_MEMLOCK, of each process.
    process_bytes: usize,
}

/// `None` where nothing is limited: perf_event_paranoid is −1, or we have CAP_IPC_LOCK.
pub(super) fn allowed() -> Option<Allowed> {
    const CAP_IPC_LOCK: u32 = 14;
    let me = std::process::id();
    let status = proc::status(me, me).unwrap_or_default();
    let capable = proc::field(&status, "CapEff").and_then(|text| u64::from_str_radix(text, 16).ok());
    if proc::kernel_setting::<i64>("perf_event_paranoid") == Some(-1)
        || capable.is_some_and(|c| c >> CAP_IPC_LOCK & 1 == 1)
    {
        return None;
    }
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills the struct.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    let kb = proc::kernel_setting::<i64>("perf_event_mlock_kb").and_then(|kb| usize::try_from(kb).ok())?;
    Some(Allowed {
        user_bytes_per_cpu: kb.saturating_mul(1024),
        process_bytes: usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::super::attributes::CHAIN_STACK;
    use super::super::event::RingClass;
    use super::*;

    #[test]
    fn ranks_of_a_host_lock_no_more_together_than_their_user_may() {
        const DEFAULT: usize = 516 << 10;
        let allowed = |process_bytes| Some(Allowed { user_bytes_per_cpu: DEFAULT, process_bytes });
        assert_eq!(
            ring_sizes(2, Rings::Ranks(1), allowed(0)),
            RING_SIZES[..ALONE],
            "one recorder tries all it did"
        );
        assert_eq!(ring_sizes(64, Rings::Ranks(1), allowed(0)), RING_SIZES[3..ALONE]);
        assert_eq!(
            ring_sizes(2, Rings::Ranks(4), None)[0],
            RING_SIZES[1],
            "root has no limit but the budget"
        );
        assert!(
            ring_sizes(2, Rings::Ranks(4), allowed(8 << 20))[0]
                > ring_sizes(2, Rings::Ranks(4), allowed(0))[0]
        );
        for (cpus, ranks) in [(2, 2), (8, 4), (64, 8), (64, 64), (256, 2)] {
            let sizes = ring_sizes(cpus, Rings::Ranks(ranks), allowed(0));
            let (last, shared) = sizes.split_last().unwrap();
            assert_eq!(*last, RING_SIZES[RING_SIZES.len() - 1], "the smallest is always tried");
            for sizes in shared {
                let bytes = sizes[0] + sizes[1] + 2 * page_bytes() as usize;
                assert!(bytes * ranks as usize <= DEFAULT, "{cpus} cpus, {ranks} ranks");
            }
        }
        for rings in [Rings::Emulated, Rings::Probe] {
            let sizes = ring_sizes(64, rings, None);
            assert!(sizes.is_sorted_by(|a, b| a > b) && sizes.ends_with(&RING_SIZES[RING_SIZES.len() - 1..]));
        }
        assert!(RING_SIZES.iter().all(|s| s[RingClass::Chains as usize] > CHAIN_STACK as usize));
    }
}
