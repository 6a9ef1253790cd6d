//! Counters of the processor, the kernel and the memory controllers, as `top`, `exporter`, `doctor --counters` and `record` read them.
//!
//! [`pmu`] has the events of each cpu and [`controllers`] the bytes of the memory controllers, both through
//! perf_event_open (`call`); [`threads`] those of single threads;
//! [`resctrl`] the bytes that the cpus of each last-level cache moved, and [`activity`] the
//! pages that the kernel placed and migrated, both from files.

pub mod activity;
mod call;
pub mod controllers;
pub mod host;
pub mod links;
pub mod pmu;
pub mod resctrl;
pub mod threads;
