//! The host as nearfar sees it. What is asked of processes, and done to them: starting and waiting ([`target`]), `/proc`
//! ([`proc`]), memory policies ([`policy`]), the nodes of pages ([`page_nodes`]), files that belong to another user
//! ([`holder`]). The topology from sysfs ([`discover`]), counters of processors and memories ([`counters`]), functions,
//! lines and variables of files ([`symbols`]). And the only ways in and out: [`out`] for messages to a terminal and [`live`] for a line that is written anew, [`input`]
//! for files that a user names, [`output`] for files that a user asks for, [`caught`] for the panics of crates that read foreign files.

pub mod caught;
pub mod confined;
pub mod counters;
pub mod discover;
pub mod holder;
pub mod hypercall;
pub mod input;
pub mod live;
pub mod out;
pub mod output;
pub mod page_nodes;
pub mod policy;
pub mod proc;
pub mod symbols;
pub mod target;
