//! The virtual machine against arithmetic, against another simulator, against its kernel.

#[path = "../common/mod.rs"]
mod common;

mod arithmetic;
mod blocks;
mod cachegrind;
mod lab;
mod measure;
mod page_nodes;
mod running;
mod sources;
mod topology;
