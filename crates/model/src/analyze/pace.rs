//! How long each epoch of a virtual machine takes, and what binds it: the answers of the time
//! model in the shape that samples and counters ask for them.

use super::value::{Bound, LinkFlow, Resource, WeakFigure};

/// One epoch.
#[derive(Clone, Copy, Debug)]
pub struct Epoch {
    /// Its number.
    pub number: u32,
    /// Time it takes, seconds.
    pub seconds: f64,
    /// Position in [`Pace::resources`] of what binds it.
    pub binds: u16,
}

/// The time of the epochs that count.
#[derive(Debug)]
pub struct Pace {
    /// Seconds of all.
    pub seconds: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// What binds for the longest part.
    pub binds: Resource,
    /// All that binds, most first.
    pub shares: Vec<Bound>,
    /// Share of the time that is bound by memory.
    pub memory_bound: f64,
    /// Everything that can bind.
    pub resources: Vec<Resource>,
    /// The epochs, ascending.
    pub epochs: Vec<Epoch>,
    /// Links, per direction.
    pub links: Vec<LinkFlow>,
    /// What each node's memory sustains under this program's mix, GB/s, in the order of the machine.
    pub sustained: Vec<Option<f64>>,
    /// Clock of a core, cycles per second.
    pub hertz: f64,
    /// Figures of little confidence.
    pub weak_figures: Vec<WeakFigure>,
}

impl Pace {
    /// What bound in an epoch, as a position in `resources`.
    #[inline]
    pub fn resource(&self, epoch: u32) -> Option<u16> {
        self.epoch(epoch).map(|e| e.binds)
    }

    /// An epoch by its number.
    #[inline]
    pub fn epoch(&self, number: u32) -> Option<&Epoch> {
        let at = self.epochs.binary_search_by_key(&number, |e| e.number).ok()?;
        Some(&self.epochs[at])
    }
}
