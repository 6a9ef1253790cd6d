//! The QEMU plugin of nearfar: every access of the program under a virtual machine goes through
//! [`nearfar_simulate`], and what that counts goes into DIR/simulated.journal.
//!
//! ```text
//! translation (translate)  ──► the kind of each instruction (code, chain)
//! execution   (callbacks)  ──► vcpu: filter ── miss ──► pages: node of the page ──► simulate ──► epoch, sample, pages
//! hypercall, stack switches ──► threads, time, region ──► output ──► simulated.journal
//! ```
//!
//! QEMU 7.2 shows plugins addresses and nothing else: no registers, no contents of memory. So the program
//! tells who it is by addresses (`hypercall`), the kernel tells whom it runs by the stack that it switches
//! to (`threads`), and what it does with translations by the instructions for that (`code`).

mod accesses;
mod alarm;
mod api;
mod arguments;
mod between;
mod callbacks;
mod chain;
mod code;
mod epoch;
mod epochs;
mod faults;
mod flops;
/// Of an x86-64 host only: QEMU calls no other code with vector registers whose upper halves cost.
#[cfg(target_arch = "x86_64")]
mod fma;
mod frames;
mod guard;
mod host;
mod hypercall;
mod install;
mod lines;
mod log;
mod output;
mod pages;
mod plugin_state;
mod sample;
mod tasks;
mod threads;
mod throttle;
mod time;
mod translate;
mod turns;
mod userdata;
mod vcpu;
mod wakes;
mod windows;

/// Tells QEMU which interface the plugin was written for.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: libc::c_int = api::VERSION;
