//! Many ranks, one page: the summary that each rank leaves ([`summary`]), and what follows from all of them ([`run`]):
//! which ranks behave alike, which differ and in what, which are missing.
//!
//! A report of a thousand ranks reads a thousand summaries of at most 64 KiB and no recording.

mod alike;
mod binding;
mod classes;
mod differ;
mod hosts;
mod objects;
mod phases;
pub mod run;
pub mod slice;
pub mod spread;
pub mod summary;

pub use alike::{Alike, alike};
pub use binding::{Bindings, ClassBinding, bindings, words_of};
pub use classes::{Class, Kind};
pub use hosts::{CountedBy, HostRow};
pub use objects::CommonObject;
pub use phases::CommonPhase;
pub use run::{Found, NoSummary, RankRow, Run, State, merge};
pub use spread::Spread;
pub use summary::{HostCounted, MOST_BYTES, RankObject, RankPhase, Summary, summarize};
