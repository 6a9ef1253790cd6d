//! Observing a program: events of the kernel and records of the agent become tables ([`collect`]), tables become files
//! ([`store`]); files of other tools become recordings ([`import`]); and which rank of which launch this is ([`ranks`]).

pub mod collect;
pub mod import;
pub mod ranks;
pub mod store;
