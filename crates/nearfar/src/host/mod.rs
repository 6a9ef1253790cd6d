//! What is asked of the host's processes, and done to them: starting and waiting ([`target`]), `/proc` ([`proc`]),
//! memory policies ([`policy`]), the nodes of pages ([`homes`]), and files that belong to another user ([`holder`]).
//! The rooms above use it; it uses none of them.

mod doorbell;
pub mod holder;
pub mod homes;
pub mod policy;
pub mod proc;
pub mod target;
