//! `nearfar record` and `report` as commands: programs do not notice that they are
//! recorded, and whatever goes wrong ends in a sentence and a recording that opens.

#[path = "../common/mod.rs"]
mod common;

mod confined;
mod counting;
mod ends;
mod names;
mod namespaces;
mod passing;
mod plugin;
mod programs;
mod refusals;
mod sources;
