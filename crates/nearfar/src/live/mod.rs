//! The machine while it works: what `nearfar top` and `nearfar exporter` read, and the screen.
//!
//! [`read`] asks /proc, sysfs and the kernel for a reading, [`pmu`] and [`resctrl`] for counters;
//! [`nearfar_model::live`] makes frames of them, and of recordings. [`screen`] shows frames on a terminal.

pub mod pmu;
pub mod read;
pub mod reference_load;
pub mod resctrl;
pub mod screen;
pub mod server;
mod terminal;
mod view;

pub use terminal::Terminal;
