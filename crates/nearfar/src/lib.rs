//! Everything of nearfar that touches the host: command line, collection,
//! symbolisation, discovery. The pure half is in crates of its own, from `nearfar-figures` to `nearfar-report`.

pub mod caught;
pub mod cli;
pub mod collect;
pub mod counters;
pub mod discover;
pub mod guest;
pub mod host;
pub mod import;
pub mod input;
pub mod layout;
pub mod live;
pub mod measure;
pub mod out;
pub mod output;
pub mod place;
pub mod ranks;
pub mod store;
pub mod symbols;
