//! The machine while it works: what `nearfar top` and `nearfar exporter` read, and the screen.
//!
//! [`read`] asks /proc, sysfs, the kernel and [`nearfar_host::counters`] for a reading, [`reference_load`] whether counters are right;
//! [`nearfar_observed::live`] makes frames of them, and of recordings. [`screen`] shows frames on a terminal.

mod afterwards;
pub mod read;
pub mod reference_load;
pub mod screen;
pub mod server;
mod stat_files;
mod terminal;
mod view;

pub use terminal::Terminal;
