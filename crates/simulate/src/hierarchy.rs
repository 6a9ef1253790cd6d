//! What the cores share.

use super::contended::Contended;
use super::directory::Directory;
use super::layout::Layout;
use super::lock::Locks;
use super::mail::Mailbox;
use super::shared::Shared;
use super::unit::Unit;
use super::{DramKind, Options, PageNodeMap, SimulateError, Sink};
use nearfar_machine::LINE_BYTES;
use nearfar_machine::Machine;
use nearfar_machine::figures::Inclusion;
use std::sync::{Arc, Mutex};

/// What all cores of a machine share. Used from all cpus' threads at once.
#[derive(Debug)]
pub struct Hierarchy {
    pub(super) layout: Layout,
    pub(super) page_nodes: PageNodeMap,
    pub(super) prefetch: bool,
    pub(super) locks: Locks,
    pub(super) directory: Directory,
    pub(super) contended: Contended,
    /// Whether what comes from memory is also put into the shared cache.
    pub(super) fills: bool,
    /// By domain; empty for a machine whose cores share no cache.
    pub(super) shared: Vec<Shared>,
    /// By core.
    pub(super) mailboxes: Vec<Arc<Mailbox>>,
    /// Caches of cores with several cpus, by core.
    pub(super) units: Vec<Option<Arc<Mutex<Unit>>>>,
}

impl Hierarchy {
    /// Empty caches of `machine`.
    pub fn new(machine: &Machine, options: &Options) -> Result<Hierarchy, SimulateError> {
        let layout = Layout::new(machine, &options.page_nodes)?;
        let cores = layout.node_of_core.len();
        let mailboxes: Vec<Arc<Mailbox>> = (0..cores).map(|_| Arc::default()).collect();
        let siblings = |core: usize| layout.core_of.iter().filter(|&&of| of == core).count() > 1;
        let unit = |core: usize| {
            siblings(core).then(|| Arc::new(Mutex::new(Unit::new(&layout, mailboxes[core].clone()))))
        };
        Ok(Hierarchy {
            page_nodes: options.page_nodes.clone(),
            prefetch: options.prefetch,
            locks: Locks::new(layout.shared.map(|s| s.geometry.sets)),
            directory: Directory::new(&layout, options.page_nodes.bytes()),
            contended: Contended::new(),
            shared: layout
                .shared
                .map_or(Vec::new(), |s| (0..layout.domains).map(|_| Shared::new(s.geometry)).collect()),
            fills: layout
                .shared
                .is_some_and(|s| matches!(s.inclusion, Inclusion::Inclusive | Inclusion::Neither)),
            units: (0..cores).map(unit).collect(),
            mailboxes,
            layout,
        })
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

    /// Writes back what the shared caches hold for memory; for each core's own
    /// caches see [`super::Core::write_back`], which comes first.
    pub fn write_back(&self, sink: &mut impl Sink) {
        self.clean(|line| {
            let physical = line * LINE_BYTES;
            if let Some(page_node) = self.page_nodes.page_node(physical) {
                sink.dram(physical, page_node, DramKind::WriteBack);
            }
        });
    }
}
