//! (under construction)
pub mod agent;
