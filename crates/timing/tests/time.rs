//! The time model against arithmetic, measured curves and the published cases.

#[path = "time/bounds.rs"]
mod bounds;
#[path = "time/cases.rs"]
mod cases;
#[path = "time/made_tables.rs"]
mod made_tables;
#[path = "time/published.rs"]
mod published;
