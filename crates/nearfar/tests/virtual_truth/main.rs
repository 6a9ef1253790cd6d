//! The virtual machine against arithmetic, against another simulator, against its kernel.

#[path = "../common/mod.rs"]
mod common;

mod arithmetic;
mod cachegrind;
mod homes;
mod lab;
mod measure;
mod rungs;
mod running;
mod topology;
