//! Recordings by an attacker, or that a disk has damaged: they are refused by name or
//! reported as far as they go, and nothing is done but to read them.

mod arguments;
#[path = "../common/mod.rs"]
mod common;
mod files;
mod made;
mod mutations;
mod names;
