//! The virtual machine against arithmetic, against another simulator, against its kernel.

#[path = "../common/mod.rs"]
mod common;

mod arithmetic;
mod blocks;
mod cachegrind;
mod homes;
mod lab;
mod measure;
mod rungs;
mod running;
mod topology;
