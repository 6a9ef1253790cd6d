//! The commands that place programs, inside virtual machines of several nodes with a real kernel.

#[path = "../common/mod.rs"]
mod common;
#[path = "../virtual_truth/lab.rs"]
mod lab;

mod check;
mod placement;
mod where_is;
