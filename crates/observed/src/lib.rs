//! What is seen of a host without a recording, as values: measurements of a machine ([`measured`]), where a process's
//! threads and pages are ([`residency`]), and two readings of a host that runs ([`live`]).
#![forbid(unsafe_code)]

pub mod live;
pub mod measured;
pub mod residency;
