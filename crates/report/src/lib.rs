//! Writes a [`Report`](nearfar_analyze::Report) for people and for programs, and draws
//! the topology of a machine ([`topology`]).
//!
//! Nothing is computed here that a reader could not check in the JSON: the text
//! is a selection, in words. What is unknown is printed as `unknown`, never as 0.
#![forbid(unsafe_code)]

mod along;
pub mod compare;
mod counted;
pub mod cure;
pub mod export;
pub mod html;
pub mod json;
mod layout;
pub mod live;
pub mod measured;
mod paths;
pub mod phases;
pub mod placement;
pub mod policy;
pub mod ranks;
mod recorded;
pub mod reproduce;
pub mod residency;
mod screen;
mod sections;
pub mod subject;
pub mod svg;
mod table;
pub mod text;
mod thread;
pub mod topology;
pub mod trials;
pub mod whatif;

pub use html::to_html;
pub use json::to_json;
pub use phases::to_phases;
pub use screen::{callers, to_text};
pub(crate) use sections::kind as finding_title;
pub use text::to_details;
