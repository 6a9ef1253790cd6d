//! What happens between cores: which supplies a line, which gives it up, what goes to memory.
//!
//! MESI, seen from the directory: a line is modified in one core, or clean in any
//! number. Whether a clean line is "exclusive" does not matter here, because the
//! first store to it goes to the directory in any case.
//!
//! - A dirty line comes from the cache that has it. Read by a core of the same
//!   shared cache, its data stay there; read from another socket, they are also
//!   written to memory, because shared means clean. Taken for writing, they pass on dirty.
//! - A clean line comes from the own shared cache, or else from a core behind the
//!   same shared cache, or else from memory. Sockets that forward clean lines (MESIF)
//!   have started the read of memory by then, so it counts.
//! - `victim`: a hit takes the line out of the shared cache, unless another of its
//!   cores has it too. That is how Intel's optimization manual describes the third
//!   level since Skylake-SP: together with the second it appears as one larger cache.
//! - `exclusive`: the same, and shared lines get no copy. But the data of a line
//!   that went dirty from core to core stay, as an owner's would under MOESI.

use super::directory::{Entry, Place, Slot};
use super::few::FewLines;
use super::hierarchy::Hierarchy;
use super::mail::{Inbox, Request};
use super::shared::Held;
use nearfar_machine::figures::Inclusion;

/// Why a core asks for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// A load, or the prefetcher.
    Read,
    /// A store.
    Own,
}

/// What supplied a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Supplier {
    /// The core's own shared cache.
    Shared,
    /// Another core behind the same shared cache, or in the same package.
    Neighbour,
    /// A cache of another package or shared cache, on a node (position).
    Remote(usize),
    /// Memory.
    Memory,
}

/// A line that a core now has.
#[derive(Debug)]
pub(super) struct Fetched {
    pub supplier: Supplier,
    /// Another core had changed it.
    pub modified: bool,
    /// It may write it.
    pub owned: bool,
    /// Lines that have been written to memory.
    pub written: FewLines,
}

/// Calls what takes entries with as many words as this machine's entries have.
macro_rules! sized {
    ($hierarchy:ident.$method:ident($($argument:expr),*)) => {
        match $hierarchy.directory.words {
            1 => $hierarchy.$method::<1>($($argument),*),
            2 => $hierarchy.$method::<2>($($argument),*),
            _ => $hierarchy.$method::<4>($($argument),*),
        }
    };
}

impl Hierarchy {
    /// Gets a line for a core that does not have it.
    ///
    /// The core's mail is taken while the line is locked: what is in it is older
    /// than the grant and must be acted on before the line is filled in; what
    /// comes later finds it there.
    #[inline]
    pub(super) fn fetch(&self, place: &Place, line: u64, want: Want, inbox: &mut Inbox) -> Fetched {
        sized!(self.fetch_sized(place, line, want, inbox))
    }

    fn fetch_sized<const WORDS: usize>(
        &self,
        place: &Place,
        line: u64,
        want: Want,
        inbox: &mut Inbox,
    ) -> Fetched {
        let set = self.locks.set(line);
        let _lock = self.locks.lock(set);
        let slot = self.directory.slot::<WORDS>(line);
        self.fetch_locked::<WORDS>(place, set, line, want, slot, slot.load(), inbox)
    }

    /// The same for the prefetcher, which takes no other core's modified line.
    #[inline]
    pub(super) fn fetch_ahead(&self, place: &Place, line: u64, inbox: &mut Inbox) -> Option<Fetched> {
        sized!(self.fetch_ahead_sized(place, line, inbox))
    }

    fn fetch_ahead_sized<const WORDS: usize>(
        &self,
        place: &Place,
        line: u64,
        inbox: &mut Inbox,
    ) -> Option<Fetched> {
        let set = self.locks.set(line);
        let _lock = self.locks.lock(set);
        let slot = self.directory.slot::<WORDS>(line);
        let entry = slot.load();
        (!entry.modified()).then(|| self.fetch_locked(place, set, line, Want::Read, slot, entry, inbox))
    }

    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "what its two callers have looked up already")]
    fn fetch_locked<const WORDS: usize>(
        &self,
        place: &Place,
        set: usize,
        line: u64,
        want: Want,
        slot: Slot<'_, WORDS>,
        mut entry: Entry<WORDS>,
        inbox: &mut Inbox,
    ) -> Fetched {
        let mut got = Fetched {
            supplier: Supplier::Memory,
            modified: entry.modified(),
            owned: want == Want::Own,
            written: FewLines::default(),
        };
        if !entry.is_empty() {
            self.supply(place, set, line, want, &mut entry, &mut got);
        }
        if self.fills && !entry.has(&place.cache) {
            self.insert(place, set, line, false, &mut entry, &mut got.written);
        }
        entry.add(&place.own);
        entry.set_modified(got.owned);
        slot.store(entry);
        if !inbox.is_empty() {
            inbox.take();
        }
        got
    }

    /// The part of [`Hierarchy::fetch`] for lines that some cache has.
    fn supply<const WORDS: usize>(
        &self,
        place: &Place,
        set: usize,
        line: u64,
        want: Want,
        entry: &mut Entry<WORDS>,
        got: &mut Fetched,
    ) {
        if entry.modified() {
            self.take_modified(place, set, line, want, entry, got);
            return;
        }
        let neighbours = entry.has(&place.cores);
        if entry.has(&place.cache) {
            let cache = &self.shared[place.domain];
            got.supplier = Supplier::Shared;
            let dirty = cache.touch(set, line).unwrap_or(false);
            // Dirty here means that no core outside the domain has it.
            if want != Want::Own && self.moves_out() && !neighbours {
                cache.remove(set, line);
                entry.remove(&place.cache);
                got.owned = dirty;
            }
        } else if neighbours && !self.shared.is_empty() {
            got.supplier = Supplier::Neighbour;
        } else if let Some(other) = self.dirty_cache(set, line, *entry) {
            got.supplier = Supplier::Remote(self.layout.node_of_domain[other]);
            if want != Want::Own {
                self.shared[other].set_dirty(set, line, false);
                got.written.push(line);
            }
        }
        if want == Want::Own {
            self.invalidate_others(place, set, line, entry);
        } else if got.supplier == Supplier::Neighbour && self.inclusion() == Some(Inclusion::Victim) {
            // Two cores of the cache have it: it keeps a copy from now on.
            self.insert(place, set, line, false, entry, &mut got.written);
        }
    }

    /// Supplies a line that another core has modified.
    fn take_modified<const WORDS: usize>(
        &self,
        place: &Place,
        set: usize,
        line: u64,
        want: Want,
        entry: &mut Entry<WORDS>,
        got: &mut Fetched,
    ) {
        let Some(owner) = self.directory.cores_in(*entry).next() else { return };
        let there = self.layout.domain_of_core[owner];
        got.supplier = if there == place.domain {
            Supplier::Neighbour
        } else {
            Supplier::Remote(self.layout.node_of_core[owner])
        };
        if want == Want::Own {
            self.invalidate_others(place, set, line, entry);
            return;
        }
        self.mailboxes[owner].post(Request::Downgrade(line));
        entry.set_modified(false);
        match self.shared.get(there) {
            Some(cache) if there == place.domain => {
                if entry.has(&place.cache) {
                    cache.set_dirty(set, line, true);
                } else {
                    self.insert(place, set, line, true, entry, &mut got.written);
                }
            }
            cache => {
                got.written.push(line);
                if let Some(cache) = cache.filter(|_| entry.has(self.directory.cache(there))) {
                    cache.set_dirty(set, line, false);
                }
            }
        }
    }

    /// A core wants to write a line that it has. `false` if it has lost it in the meantime.
    #[inline]
    pub(super) fn own(&self, place: &Place, line: u64, inbox: &mut Inbox) -> bool {
        sized!(self.own_sized(place, line, inbox))
    }

    fn own_sized<const WORDS: usize>(&self, place: &Place, line: u64, inbox: &mut Inbox) -> bool {
        let set = self.locks.set(line);
        let _lock = self.locks.lock(set);
        let slot = self.directory.slot::<WORDS>(line);
        let mut entry = slot.load();
        let has = entry.has(&place.own);
        if has && !entry.modified() {
            self.invalidate_others(place, set, line, &mut entry);
            entry.set_modified(true);
            slot.store(entry);
        }
        if !inbox.is_empty() {
            inbox.take();
        }
        has
    }

    /// A line has left a core's caches. Another core may have taken it at the same
    /// time, with its data: then there is nothing left to do.
    #[inline]
    pub(super) fn leave(&self, place: &Place, line: u64) -> FewLines {
        sized!(self.leave_sized(place, line))
    }

    fn leave_sized<const WORDS: usize>(&self, place: &Place, line: u64) -> FewLines {
        let mut written = FewLines::default();
        let set = self.locks.set(line);
        let _lock = self.locks.lock(set);
        let slot = self.directory.slot::<WORDS>(line);
        let mut entry = slot.load();
        if !entry.has(&place.own) {
            return written;
        }
        let dirty = entry.modified();
        entry.remove(&place.own);
        entry.set_modified(false);
        if entry.has(&place.cache) {
            if dirty {
                self.shared[place.domain].set_dirty(set, line, true);
            }
        } else if let Some(inclusion) = self.inclusion() {
            let keep = match inclusion {
                Inclusion::Inclusive | Inclusion::Neither => dirty,
                Inclusion::Victim | Inclusion::Exclusive => !entry.has(&place.cores),
            };
            if keep {
                self.insert(place, set, line, dirty, &mut entry, &mut written);
            }
        } else if dirty {
            written.push(line);
        }
        slot.store(entry);
        written
    }

    /// A non-temporal store to a line: no cache may have it.
    pub(super) fn purge(&self, line: u64) -> FewLines {
        sized!(self.purge_sized(line))
    }

    fn purge_sized<const WORDS: usize>(&self, line: u64) -> FewLines {
        let mut written = FewLines::default();
        let set = self.locks.set(line);
        let _lock = self.locks.lock(set);
        let slot = self.directory.slot::<WORDS>(line);
        let entry = slot.load();
        if !entry.is_empty() {
            if entry.modified() || self.dirty_cache(set, line, entry).is_some() {
                written.push(line);
            }
            self.give_up(line, entry);
            for domain in self.directory.caches_in(entry) {
                self.shared[domain].remove(set, line);
            }
            slot.store(Entry::default());
        }
        written
    }

    /// Writes all dirty lines of the shared caches to memory; `tell` hears of each.
    pub(super) fn clean(&self, tell: impl FnMut(u64)) {
        sized!(self.clean_sized(tell))
    }

    fn clean_sized<const WORDS: usize>(&self, mut tell: impl FnMut(u64)) {
        for set in 0..self.locks.sets() {
            let _lock = self.locks.lock(set);
            for cache in &self.shared {
                for Held { line, .. } in cache.lines(set).into_iter().filter(|held| held.dirty) {
                    cache.set_dirty(set, line, false);
                    // A core's newer data will follow them.
                    if !self.directory.slot::<WORDS>(line).load().modified() {
                        tell(line);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn inclusion(&self) -> Option<Inclusion> {
        self.layout.shared.map(|shared| shared.inclusion)
    }

    /// Whether a hit takes a line out of the shared cache.
    fn moves_out(&self) -> bool {
        matches!(self.inclusion(), Some(Inclusion::Victim | Inclusion::Exclusive))
    }

    /// The shared cache that has the line dirty.
    fn dirty_cache<const WORDS: usize>(&self, set: usize, line: u64, entry: Entry<WORDS>) -> Option<usize> {
        self.directory.caches_in(entry).find(|&domain| self.shared[domain].is_dirty(set, line))
    }

    /// All but the core at `place` gives a line up; its own shared cache only
    /// if that holds what cores do not.
    fn invalidate_others<const WORDS: usize>(
        &self,
        place: &Place,
        set: usize,
        line: u64,
        entry: &mut Entry<WORDS>,
    ) {
        let mut others = *entry;
        others.remove(&place.own);
        others.set_modified(false);
        if !self.moves_out() {
            others.remove(&place.cache);
        }
        if others.is_empty() {
            return;
        }
        self.give_up(line, others);
        for there in self.directory.caches_in(others) {
            self.shared[there].remove(set, line);
        }
        *entry = entry.without(others);
    }

    /// The cores of `who` give a line up.
    fn give_up<const WORDS: usize>(&self, line: u64, who: Entry<WORDS>) {
        for core in self.directory.cores_in(who) {
            self.mailboxes[core].post(Request::Invalidate(line));
        }
    }

    /// Puts a line into a shared cache that does not have it.
    #[inline]
    fn insert<const WORDS: usize>(
        &self,
        place: &Place,
        set: usize,
        line: u64,
        dirty: bool,
        entry: &mut Entry<WORDS>,
        written: &mut FewLines,
    ) {
        entry.add(&place.cache);
        let Some(Held { line: old, mut dirty }) = self.shared[place.domain].insert(set, line, dirty) else {
            return;
        };
        let slot = self.directory.slot::<WORDS>(old);
        let mut evicted = slot.load();
        evicted.remove(&place.cache);
        if self.inclusion() == Some(Inclusion::Inclusive) {
            let inside = evicted.and(&place.cores);
            if !inside.is_empty() {
                dirty |= evicted.modified();
                evicted.set_modified(false);
                self.give_up(old, inside);
                evicted = evicted.without(inside);
            }
        } else if evicted.modified() {
            // A core has newer data, which will be written in their turn.
            dirty = false;
        }
        if dirty {
            written.push(old);
        }
        slot.store(evicted);
    }
}
