//! Programs with known placements, and what the analysis must say of them.

#[path = "analyze/along.rs"]
mod along;
#[path = "analyze/blame.rs"]
mod blame;
#[path = "analyze/cached.rs"]
mod cached;
#[path = "analyze/capacity.rs"]
mod capacity;
#[path = "analyze/cases.rs"]
mod cases;
#[path = "analyze/estimate.rs"]
mod estimate;
#[path = "analyze/excerpted.rs"]
mod excerpted;
#[path = "analyze/findings.rs"]
mod findings;
#[path = "analyze/gain.rs"]
mod gain;
#[path = "analyze/hardware.rs"]
mod hardware;
#[path = "analyze/helpers.rs"]
mod helpers;
#[path = "analyze/huge_pages.rs"]
mod huge_pages;
#[path = "analyze/instances.rs"]
mod instances;
#[path = "analyze/made_recording.rs"]
mod made_recording;
#[path = "analyze/many.rs"]
mod many;
#[path = "analyze/native.rs"]
mod native;
#[path = "analyze/phases.rs"]
mod phases;
#[path = "analyze/pictures.rs"]
mod pictures;
#[path = "analyze/placements.rs"]
mod placements;
#[path = "analyze/regions.rs"]
mod regions;
#[path = "analyze/shared_lines.rs"]
mod shared_lines;
#[path = "analyze/small_blocks.rs"]
mod small_blocks;
#[path = "analyze/throughput.rs"]
mod throughput;
#[path = "analyze/timed.rs"]
mod timed;
#[path = "analyze/unknown.rs"]
mod unknown;
#[path = "analyze/virtual_machine.rs"]
mod virtual_machine;
#[path = "analyze/waits.rs"]
mod waits;
#[path = "analyze/whatif.rs"]
mod whatif;
