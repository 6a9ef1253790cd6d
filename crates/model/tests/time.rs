//! The time model against arithmetic, measured curves and the published cases.

#[path = "time/cases.rs"]
mod cases;
#[path = "time/published.rs"]
mod published;
#[path = "time/world.rs"]
mod world;
