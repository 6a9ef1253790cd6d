//! Writes a [`Topology`](nearfar_machine::topology::Topology): as a picture on the terminal,
//! as a picture for a slide, and in the words of `numactl -H`.

mod boxes;
mod devices;
pub(super) mod limits;
mod modules;
mod numactl;
mod svg;
mod tables;
mod text;

pub use numactl::to_numactl;
pub use svg::to_svg;
pub use text::to_text;
