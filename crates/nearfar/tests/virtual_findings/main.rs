//! What nearfar says of programs with known answers, what it predicts of their repair, and what comes of that.

#[path = "../common/mod.rs"]
mod common;
#[path = "../virtual_truth/lab.rs"]
mod lab;

mod clean;
mod counters;
mod memtest;
mod phases;
mod repaired;
mod synthetic;
mod table;
