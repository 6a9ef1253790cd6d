//! From a running program to a recording.
//!
//! [`session`] runs a recording: it starts the [`target`], opens the [`perf`]
//! events and the [`agent`]'s channel, and feeds what both say, in the order of
//! time, through [`events`] and [`agent_events`] into tables. [`world`] knows the
//! processes; [`homes`] asks the kernel where pages are. [`on`] has all of this done inside
//! the virtual machine, where a plugin counts every access.

pub mod agent;
pub mod agent_events;
mod doorbell;
pub mod events;
pub mod holder;
pub mod homes;
mod illegal;
mod losses;
pub mod on;
pub mod options;
pub mod perf;
pub mod policy;
pub mod proc;
pub mod selftest;
pub mod session;
pub mod setup;
pub mod target;
pub mod world;
