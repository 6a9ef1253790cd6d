//! The virtual machine against arithmetic, against another simulator, against its kernel.

#[path = "../common/mod.rs"]
mod common;

mod arithmetic;
mod cachegrind;
mod check;
mod homes;
mod lab;
mod measure;
mod placement;
mod rungs;
mod running;
mod topology;
mod where_is;
