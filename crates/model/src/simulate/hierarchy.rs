//! What the cores share.

use super::layout::Layout;
use super::{Core, HomeMap, Options, SimulateError};
use crate::machine::Machine;

/// What all cores of a machine share. Used from all cpus' threads at once.
#[derive(Debug)]
pub struct Hierarchy {
    pub(super) layout: Layout,
    pub(super) homes: HomeMap,
    pub(super) prefetch: bool,
}

impl Hierarchy {
    /// Empty caches of `machine`.
    pub fn new(machine: &Machine, options: &Options) -> Result<Hierarchy, SimulateError> {
        let layout = Layout::new(machine, &options.homes)?;
        Ok(Hierarchy { layout, homes: options.homes.clone(), prefetch: options.prefetch })
    }

    /// Number of cpus; positions go from 0 in ascending order of kernel indexes.
    pub fn cpus(&self) -> usize {
        self.layout.cpus.len()
    }

    /// Kernel index of the cpu at a position.
    pub fn cpu(&self, position: usize) -> u32 {
        self.layout.cpus[position]
    }

    /// Position (in `Machine::nodes`) of the node of the cpu at a position.
    pub fn node_of(&self, position: usize) -> usize {
        self.layout.node_of_core[self.layout.core_of[position]]
    }

    /// The part of the cpu at a position. To be taken once per cpu.
    pub fn core(&self, position: usize) -> Core {
        Core::new(self, position)
    }
}
