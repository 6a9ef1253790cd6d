//! What the control groups allow, in one sentence.

use super::super::layout::size;
use nearfar_machine::topology::{Limit, Limits};

/// `memory at most 4.0 GiB (memory.max of /a), slowed down from 3.0 GiB (…); cpu time without limit`.
pub(crate) fn words(limits: &Limits) -> String {
    let Limits { memory_max_kb: max, memory_high_kb: high, cpu_quota: quota, hidden_groups } = limits;
    // One reason, said once.
    if let (Limit::Unknown { why }, Limit::Unknown { why: same }) = (max, quota)
        && why == same
    {
        return format!("unknown: {why}");
    }
    let at_most = limit(max, |kb| format!("at most {}", size(kb * 1024)));
    let slowed = limit(high, |kb| format!("slowed down from {}", size(kb * 1024)));
    let memory = match (max, high) {
        (_, Limit::Unlimited) => at_most,
        (Limit::Unknown { why }, Limit::Unknown { why: same }) if why == same => at_most,
        (Limit::Unlimited, _) => slowed,
        _ => format!("{at_most}, {slowed}"),
    };
    // The kernel's smallest quota is a thousandth of a cpu.
    let time = limit(quota, |cpus| match (cpus * 1000.0).round() / 1000.0 {
        1.0 => "of 1 cpu".to_owned(),
        cpus => format!("of {cpus} cpus"),
    });
    let hidden = match hidden_groups {
        Some(true) => "; the groups around this container cannot be seen and may allow less",
        _ => "",
    };
    format!("memory {memory}; cpu time {time}{hidden}")
}

fn limit<T: Copy>(limit: &Limit<T>, show: impl Fn(T) -> String) -> String {
    match limit {
        Limit::Unlimited => "without limit".to_owned(),
        Limit::Limited { limit, from } => format!("{} ({from})", show(*limit)),
        Limit::Unknown { why } => format!("unknown ({why})"),
    }
}
