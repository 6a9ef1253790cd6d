//! The pure half of nearfar.
//!
//! Data flows left to right: [`machine`] and [`recording`] are what was measured,
//! [`decode`] turns register values into the address an instruction touched,
//! [`time`] turns counted traffic into seconds,
//! [`analyze`] turns a recording and a machine into objects, first touches and
//! findings, [`compare`] says what became of them in a later recording, and [`report`]
//! writes those for people and programs, [`export`] for other tools.
//!
//! The wall: nothing in this crate looks at the host it runs on. It opens no
//! file, asks for no time and knows no path of its own; what does is in the
//! `nearfar` binary, which hands over bytes, names and ranges.
#![forbid(unsafe_code)]

pub mod analyze;
pub mod compare;
pub mod decode;
pub mod export;
pub mod live;
pub mod measured;
pub mod perf;
pub mod placement_file;
pub mod ranks;
pub mod recording;
pub mod report;
pub mod reproduce;
pub mod residency;
pub mod time;
pub mod topology;
pub mod trials;

pub use nearfar_figures::{escape, percent};
pub use nearfar_machine as machine;
