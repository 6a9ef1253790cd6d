//! From a running program to a recording.
//!
//! [`session`] runs a recording: it starts the program ([`nearfar_host::target`]), opens the [`perf`]
//! events and the [`agent`]'s channel, and feeds what both say, in the order of
//! time, through [`events`] and [`agent_events`] into tables. [`process_table`] knows the
//! processes; [`attach`] those that ran before. [`nearfar_host::page_nodes`] asks the kernel where pages are. [`on`] has all of this done inside
//! the virtual machine, where a plugin counts every access.

pub mod agent;
pub mod agent_events;
pub mod attach;
mod core_clock;
mod counting;
pub mod events;
#[cfg(target_arch = "x86_64")]
pub mod excerpts;
mod illegal;
pub mod inside;
mod losses;
pub mod objects;
pub mod on;
pub mod openmp;
pub mod options;
pub mod perf;
pub mod phases;
pub mod process_table;
mod progress;
pub mod selftest;
pub mod session;
pub mod setup;
pub mod within_limits;
