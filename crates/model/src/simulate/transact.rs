//! What happens between cores: who supplies a line, who gives it up, what goes to memory.
//!
//! MESI, seen from the directory: a line is modified in one core, or clean in any
//! number. Whether a clean line is "exclusive" does not matter here, because the
//! first store to it is told to the directory in any case.
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

use super::directory::Entry;
use super::hierarchy::Hierarchy;
use super::mail::{Inbox, Request};
use super::shared::Held;
use crate::machine::figures::Inclusion;

/// Why a core asks for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// A load, or the prefetcher.
    Read,
    /// A store.
    Own,
}

/// Who supplied a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The core's own shared cache.
    Shared,
    /// Another core behind the same shared cache, or in the same package.
    Neighbour,
    /// A cache of another package or shared cache, on a node (position).
    Remote(usize),
    /// Memory.
    Memory,
}

/// Lines that have been written to memory.
#[derive(Debug, Default)]
pub(super) struct Written {
    lines: [u64; 4],
    len: usize,
}

impl Written {
    #[inline(always)]
    fn push(&mut self, line: u64) {
        self.lines[self.len] = line;
        self.len += 1;
    }

    #[inline(always)]
    pub fn as_slice(&self) -> &[u64] {
        &self.lines[..self.len]
    }
}

/// A line that a core now has.
#[derive(Debug)]
pub(super) struct Fetched {
    pub source: Source,
    /// It may write it.
    pub owned: bool,
    pub written: Written,
}

impl Hierarchy {
    /// Gets a line for a core that does not have it.
    ///
    /// The core's mail is taken while the line is locked: what is in it is older
    /// than the grant and must be acted on before the line is filled in; what
    /// comes later finds it there.
    #[inline]
    pub(super) fn fetch(&self, core: usize, line: u64, want: Want, inbox: &mut Inbox) -> Fetched {
        let set = self.locks.set(line);
        let _lock = self.locks.lock(set);
        self.fetch_locked(core, set, line, want, self.directory.load(line), inbox)
    }

    /// The same for the prefetcher, which takes nobody's modified line.
    #[inline]
    pub(super) fn fetch_ahead(&self, core: usize, line: u64, inbox: &mut Inbox) -> Option<Fetched> {
        let set = self.locks.set(line);
        let _lock = self.locks.lock(set);
        let entry = self.directory.load(line);
        (!entry.modified()).then(|| self.fetch_locked(core, set, line, Want::Read, entry, inbox))
    }

    #[inline(always)]
    fn fetch_locked(
        &self,
        core: usize,
        set: usize,
        line: u64,
        want: Want,
        mut entry: Entry,
        inbox: &mut Inbox,
    ) -> Fetched {
        let mut got =
            Fetched { source: Source::Memory, owned: want == Want::Own, written: Written::default() };
        if !entry.is_empty() {
            self.supply(core, set, line, want, &mut entry, &mut got);
        }
        let domain = self.layout.domain_of_core[core];
        if self.fills && !entry.shared(domain) {
            self.insert(domain, set, line, false, &mut entry, &mut got.written);
        }
        entry.add(self.directory.core[core]);
        entry.set_modified(got.owned);
        self.directory.store(line, entry);
        if !inbox.is_empty() {
            inbox.take();
        }
        got
    }

    /// The part of [`Hierarchy::fetch`] for lines that some cache has.
    fn supply(&self, core: usize, set: usize, line: u64, want: Want, entry: &mut Entry, got: &mut Fetched) {
        let domain = self.layout.domain_of_core[core];
        if entry.modified() {
            self.take_modified(core, set, line, want, entry, got);
            return;
        }
        let neighbours = entry.and(self.directory.cores_of[domain]);
        let cache = self.shared.get(domain).filter(|_| entry.shared(domain));
        if let Some(cache) = cache {
            got.source = Source::Shared;
            let dirty = cache.touch(set, line).unwrap_or(false);
            // Dirty here means that nobody outside the domain has it.
            if want != Want::Own && self.moves_out() && neighbours.is_empty() {
                cache.remove(set, line);
                entry.set_shared(domain, false);
                got.owned = dirty;
            }
        } else if !neighbours.is_empty() && !self.shared.is_empty() {
            got.source = Source::Neighbour;
        } else if let Some(other) = self.dirty_cache(set, line, *entry) {
            got.source = Source::Remote(self.layout.node_of_domain[other]);
            if want != Want::Own {
                self.shared[other].set_dirty(set, line, false);
                got.written.push(line);
            }
        }
        if want == Want::Own {
            self.invalidate_others(core, set, line, entry);
        } else if got.source == Source::Neighbour && self.inclusion() == Some(Inclusion::Victim) {
            // Two cores of the cache have it: it keeps a copy from now on.
            self.insert(domain, set, line, false, entry, &mut got.written);
        }
    }

    /// Supplies a line that another core has modified.
    fn take_modified(
        &self,
        core: usize,
        set: usize,
        line: u64,
        want: Want,
        entry: &mut Entry,
        got: &mut Fetched,
    ) {
        let domain = self.layout.domain_of_core[core];
        let Some(owner) = self.directory.cores_in(*entry).next() else { return };
        let there = self.layout.domain_of_core[owner];
        got.source =
            if there == domain { Source::Neighbour } else { Source::Remote(self.layout.node_of_core[owner]) };
        if want == Want::Own {
            self.invalidate_others(core, set, line, entry);
            return;
        }
        self.mailboxes[owner].post(Request::Downgrade(line));
        entry.set_modified(false);
        match self.shared.get(there) {
            Some(cache) if there == domain => {
                if entry.shared(domain) {
                    cache.set_dirty(set, line, true);
                } else {
                    self.insert(domain, set, line, true, entry, &mut got.written);
                }
            }
            cache => {
                got.written.push(line);
                if let Some(cache) = cache.filter(|_| entry.shared(there)) {
                    cache.set_dirty(set, line, false);
                }
            }
        }
    }

    /// A core wants to write a line that it has. `false` if it has lost it in the meantime.
    #[inline]
    pub(super) fn own(&self, core: usize, line: u64, inbox: &mut Inbox) -> bool {
        let set = self.locks.set(line);
        let _lock = self.locks.lock(set);
        let mut entry = self.directory.load(line);
        let has = self.directory.holds(entry, core);
        if has && !entry.modified() {
            self.invalidate_others(core, set, line, &mut entry);
            entry.set_modified(true);
            self.directory.store(line, entry);
        }
        if !inbox.is_empty() {
            inbox.take();
        }
        has
    }

    /// A line has left a core's caches. Somebody may have taken it at the same
    /// time, with its data: then there is nothing left to do.
    #[inline]
    pub(super) fn leave(&self, core: usize, line: u64) -> Written {
        let mut written = Written::default();
        let set = self.locks.set(line);
        let _lock = self.locks.lock(set);
        let mut entry = self.directory.load(line);
        if !self.directory.holds(entry, core) {
            return written;
        }
        let dirty = entry.modified();
        entry.remove(self.directory.core[core]);
        entry.set_modified(false);
        let domain = self.layout.domain_of_core[core];
        match (self.shared.get(domain), self.inclusion()) {
            (Some(cache), _) if entry.shared(domain) && dirty => cache.set_dirty(set, line, true),
            (Some(_), _) if entry.shared(domain) => {}
            (Some(_), Some(inclusion)) => {
                let keep = match inclusion {
                    Inclusion::Inclusive | Inclusion::Neither => dirty,
                    Inclusion::Victim | Inclusion::Exclusive => {
                        entry.and(self.directory.cores_of[domain]).is_empty()
                    }
                };
                if keep {
                    self.insert(domain, set, line, dirty, &mut entry, &mut written);
                }
            }
            _ if dirty => written.push(line),
            _ => {}
        }
        self.directory.store(line, entry);
        written
    }

    /// A non-temporal store to a line: no cache may have it.
    pub(super) fn purge(&self, line: u64) -> Written {
        let mut written = Written::default();
        let set = self.locks.set(line);
        let _lock = self.locks.lock(set);
        let entry = self.directory.load(line);
        if !entry.is_empty() {
            if entry.modified() || self.dirty_cache(set, line, entry).is_some() {
                written.push(line);
            }
            self.give_up(line, entry);
            for domain in self.directory.caches_in(entry) {
                self.shared[domain].remove(set, line);
            }
            self.directory.store(line, Entry::default());
        }
        written
    }

    /// Writes all dirty lines of the shared caches to memory; `tell` hears of each.
    pub(super) fn clean(&self, mut tell: impl FnMut(u64)) {
        for set in 0..self.locks.sets() {
            let _lock = self.locks.lock(set);
            for cache in &self.shared {
                for Held { line, .. } in cache.lines(set).into_iter().filter(|held| held.dirty) {
                    cache.set_dirty(set, line, false);
                    // A core's newer data will follow them.
                    if !self.directory.load(line).modified() {
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
    fn dirty_cache(&self, set: usize, line: u64, entry: Entry) -> Option<usize> {
        self.directory.caches_in(entry).find(|&domain| self.shared[domain].is_dirty(set, line))
    }

    /// Everybody but `core` gives a line up; its own shared cache only if that
    /// holds what cores do not.
    fn invalidate_others(&self, core: usize, set: usize, line: u64, entry: &mut Entry) {
        let domain = self.layout.domain_of_core[core];
        let mut others = *entry;
        others.remove(self.directory.core[core]);
        others.set_modified(false);
        others.set_shared(domain, others.shared(domain) && self.moves_out());
        if others.is_empty() {
            return;
        }
        self.give_up(line, others);
        for there in self.directory.caches_in(others) {
            self.shared[there].remove(set, line);
        }
        entry.remove(others);
    }

    /// The cores of `who` give a line up.
    fn give_up(&self, line: u64, who: Entry) {
        for core in self.directory.cores_in(who) {
            self.mailboxes[core].post(Request::Invalidate(line));
        }
    }

    /// Puts a line into a shared cache that does not have it.
    #[inline]
    fn insert(
        &self,
        domain: usize,
        set: usize,
        line: u64,
        dirty: bool,
        entry: &mut Entry,
        written: &mut Written,
    ) {
        entry.set_shared(domain, true);
        let Some(Held { line: old, mut dirty }) = self.shared[domain].insert(set, line, dirty) else {
            return;
        };
        let mut evicted = self.directory.load(old);
        evicted.set_shared(domain, false);
        if self.inclusion() == Some(Inclusion::Inclusive) {
            let inside = evicted.and(self.directory.cores_of[domain]);
            if !inside.is_empty() {
                dirty |= evicted.modified();
                evicted.set_modified(false);
                self.give_up(old, inside);
                evicted.remove(inside);
            }
        } else if evicted.modified() {
            // A core has newer data, which will be written in their turn.
            dirty = false;
        }
        if dirty {
            written.push(old);
        }
        self.directory.store(old, evicted);
    }
}
