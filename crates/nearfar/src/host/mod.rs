//! What is asked of the host's processes, and done to them: starting and waiting ([`target`]), `/proc` ([`proc`]),
//! memory policies ([`policy`]), the nodes of pages ([`page_nodes`]), and files that belong to another user ([`holder`]).
//! The rooms above use it; it uses none of them.

pub mod holder;
mod hypercall;
pub mod page_nodes;
pub mod policy;
pub mod proc;
pub mod target;
