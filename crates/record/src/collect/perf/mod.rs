//! perf events: which ones are opened, their rings, and their records as values.
//!
//! Per cpu, one ring takes all events of the target (inherited by the threads
//! and processes that it creates):
//!
//! - two task-clock events whose periods stand in the golden ratio, so that no
//!   loop of the program can stay in step with both (inherited events keep the
//!   period they were opened with, so it cannot be re-drawn while they run);
//! - minor and major faults, each one, with the size of the page that the kernel
//!   mapped: these events fire after the fault was handled;
//! - faults with registers and a piece of stack, for call chains: every 61st,
//!   and each one while instructions show up that were not seen before.
//!   Taking the chain with every fault costs 40 % on a page-touching loop.

mod attributes;
mod call;
pub mod event;
mod memory;
pub mod open;
pub mod ring;
mod sizes;

pub use event::{Event, UserRegisters};
pub use open::{OpenError, PerfSet, PerfSettings, Target};
