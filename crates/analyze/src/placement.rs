//! From page faults to first touches: which thread's fault put each page where it is.
//!
//! The kernel takes a page from the node of the cpu that faults (Linux
//! Documentation/admin-guide/mm/numa_memory_policy.rst, "Default: local
//! allocation"), so the first touch decides the node of the page. Not every fault takes a
//! page; the rules are those of mm/memory.c:
//! - a store to an unplaced page takes one (`do_anonymous_page`);
//! - a load of an unplaced anonymous page maps the shared zero page and takes none;
//! - a store to a page shared since a fork takes a copy (`do_wp_page`);
//! - a page whose range was discarded or unmapped is unplaced again;
//! - where the kernel balances no memory (AutoNUMA off), a later store fault on a
//!   placed page places it again, unless its protection changed since, by mprotect or
//!   by a fork whose child has gone: no other fault can hit a page that is there. The
//!   losers of a race for a page fault, too;
//! - what the kernel touches for the program is taken to be filled (`read`, `recv`), except pages of files;
//! - a load of a private file's page maps the page cache's page, which the process that read
//!   the file first has placed;
//! - a fault that mapped a large page places all of it;
//! - a call that populates a range takes the pages that are not there yet or were only read, for the thread that
//!   called (`MADV_POPULATE_READ` is not told apart, though it leaves the zero page where it is);
//! - other faults on placed pages (protection changes, AutoNUMA's hint faults)
//!   take none. They are counted as `not_placements`.

mod lookups;
mod protects;
mod races;
mod touch;

use super::hash::IdIndex;
use super::history::PER_BLOCK;
use super::input::Input;
use super::page_table::PageTable;
use super::space::Spaces;
use nearfar_recording::{Access, Columns, NONE, ObjectKind, RangeKind};
use protects::Protects;
use races::Races;
use std::ops::Range;
pub use touch::{How, Touch};

/// All placements of a recording.
#[derive(Debug, Default)]
pub struct Placements {
    /// Every touch; pages refer to them by position.
    pub touches: Vec<Touch>,
    /// Faults that took no page.
    pub not_placements: u64,
    /// Base page size.
    pub page_bytes: u64,
    /// Pages of ranges that were populated, and of pages larger than a block of the table, up to [`MOST_POPULATED`].
    populated: u64,
    /// Whether nothing but a lost page makes a store fault on a placed page.
    certain: bool,
    /// Pages of each space.
    pub tables: Vec<PageTable>,
    parents: Vec<Option<(u32, u64)>>,
    /// By space, while faults are replayed: forks up to now whose children were there the last time that
    /// anyone asked, and how many forks were looked at.
    children: Vec<(Vec<Fork>, usize)>,
    races: Races,
}

/// When, the child, and when the child dropped its copy.
type Fork = (u64, u32, u64);

/// Pages that are followed when ranges are populated and when faults map more than 2 MiB, 64 GiB of 4 KiB: a recording may
/// name any range. Beyond, who placed them is unknown. // chosen
const MOST_POPULATED: u64 = 1 << 24;

/// Whether a space was forked between two times. A fork protects the parent's pages against writing: where no child
/// shares them any more, the next store faults and takes the page as it is (`wp_page_reuse` of mm/memory.c).
fn forked(spaces: &Spaces, space: u32, since: u64, until: u64) -> bool {
    let forks = &spaces.spaces[space as usize].forks;
    let after = forks.partition_point(|f| f.0 <= since);
    forks.get(after).is_some_and(|f| f.0 <= until)
}

/// A fault to decide on.
struct At {
    space: u32,
    address: u64,
    time: u64,
    store: bool,
    shared: bool,
    /// [`NONE`] if unknown.
    thread: u32,
    /// Whether it mapped more than a base page.
    large: bool,
}

enum Event {
    Range(u32),
    Realloc(u32),
    Fault(u32),
}

impl Placements {
    /// Replays faults and range events in the order of time.
    pub fn new(input: &Input, spaces: &Spaces, threads: &IdIndex) -> Placements {
        let mut p = Placements { page_bytes: input.meta.page_bytes.max(1), ..Placements::default() };
        // A copy that excerpts are taken of is a fork that the tables do not have.
        p.certain = input.meta.numa_balancing == 0 && input.excerpts.is_empty();
        p.tables.resize_with(spaces.spaces.len(), PageTable::default);
        p.parents = spaces.spaces.iter().map(|s| s.parent).collect();
        p.children.resize_with(spaces.spaces.len(), Default::default);
        p.touches.reserve(input.faults.time_ns.len());
        let rows = &spaces.things.rows;
        let mut events: Vec<(u64, u8, Event)> = Vec::new();
        for (i, &t) in input.range_events.time_ns.iter().enumerate() {
            events.push((t, 0, Event::Range(i as u32)));
        }
        for (i, &previous) in input.objects.previous.iter().enumerate() {
            if previous != NONE && rows.get(previous).is_some() {
                events.push((spaces.things.get(i as u32).born, 1, Event::Realloc(i as u32)));
            }
        }
        for (i, &t) in input.faults.time_ns.iter().enumerate() {
            events.push((t, 2, Event::Fault(i as u32)));
        }
        events.sort_by_key(|e| (e.0, e.1));
        let protects = Protects::new(input, spaces);
        for (time, _, event) in events {
            match event {
                Event::Range(i) => p.range_event(input, spaces, threads, i as usize),
                Event::Realloc(i) => p.realloc(spaces, i, rows.get(input.objects.previous[i as usize]), time),
                Event::Fault(i) => p.fault(input, spaces, threads, &protects, i),
            }
        }
        p.tables.iter_mut().for_each(PageTable::close);
        p.children = Vec::new();
        p
    }

    fn push(&mut self, space: u32, page: u64, touch: Touch) {
        let older = self.tables[space as usize].head(page);
        let id = self.add(older, touch);
        self.tables[space as usize].set(page, id, touch.how != How::Gone);
    }

    /// A touch that comes after another.
    fn add(&mut self, older: u32, touch: Touch) -> u32 {
        let id = self.touches.len() as u32;
        let (mut jump, mut depth, mut first) = (id, 0, NONE);
        if older != NONE {
            let before = &self.touches[older as usize];
            first = before.first;
            let far = &self.touches[before.jump as usize];
            let farther = &self.touches[far.jump as usize];
            depth = before.depth + 1;
            let alike = before.depth - far.depth == far.depth - farther.depth;
            jump = if alike { far.jump } else { older };
        }
        if first == NONE && touch.took_page() {
            first = id;
        }
        self.touches.push(Touch { older, jump, depth, first, ..touch });
        id
    }

    /// Of a touch and those before it, the latest that was made by `time`; [`NONE`] if none was.
    fn made_by(&self, mut touch: u32, time: u64) -> u32 {
        while touch != NONE {
            let x = &self.touches[touch as usize];
            if x.time <= time {
                break;
            }
            // A jump that stays behind `time` skips only touches that are later still.
            let far = x.jump != touch && self.touches[x.jump as usize].time > time;
            touch = if far { x.jump } else { x.older };
        }
        touch
    }

    /// A touch of all pages of an aligned folio. Pages that another touch placed and nothing took
    /// away stay: the folio was put together later.
    fn push_folio(&mut self, space: u32, page: u64, pages: u64, touch: Touch) {
        let head = self.tables[space as usize].head(page);
        let first = page / pages * pages;
        let mut last: Option<u32> = None;
        for p in first..first + pages {
            let older = self.tables[space as usize].head(p);
            let free = older == head || older == NONE || self.touches[older as usize].how == How::Gone;
            if !free {
                continue;
            }
            // Pages with the same past share one entry.
            let id = match last.filter(|&l| self.touches[l as usize].older == older) {
                Some(id) => id,
                None => self.add(older, touch),
            };
            last = Some(id);
            self.tables[space as usize].set(p, id, true);
        }
    }

    /// Sizes of the folios that faults mapped at `from..to` (page numbers), as bits of log2 bytes.
    pub fn folios(&self, space: u32, from: u64, to: u64) -> u64 {
        self.tables[space as usize].folios(from, to)
    }

    fn fault(&mut self, input: &Input, spaces: &Spaces, threads: &IdIndex, protects: &Protects, row: u32) {
        let f = &input.faults;
        let i = row as usize;
        let (time, address) = (f.time_ns[i], f.address[i]);
        let thread = threads.get(f.thread[i]);
        let mut space = thread.map_or(0, |t| spaces.position(input.threads.process[t]));
        let page = address / self.page_bytes;
        let kind = spaces.mapping_at(space, address, time).0.map(|m| spaces.things.get(m));
        let shared = kind.is_some_and(|t| t.kind == ObjectKind::Shared);
        let file = kind.is_some_and(|t| t.kind == ObjectKind::File);
        if shared {
            // Inherited shared memory is one memory: all of it is kept with the space that made it.
            space = kind.map_or(space, |t| t.space);
        }
        let store = match Access::from_code(f.access[i]) {
            Some(Access::Load) => false,
            // The kernel's for the program: read() fills anonymous memory, and a file's page is mostly read itself.
            Some(Access::Unknown) => !file,
            _ => true,
        };
        let base = self.page_bytes.trailing_zeros();
        let thread = thread.map_or(NONE, |t| t as u32);
        let at = At { space, address, time, store, shared, thread, large: u32::from(f.page_shift[i]) > base };
        match self.decide(spaces, protects, &at) {
            Some(how) => {
                let zero = how == How::Read && !shared;
                let touch = Touch { thread, fault: row, zero, cache: zero && file, ..Touch::new(time, how) };
                match u32::from(f.page_shift[i]) {
                    shift if shift > base && self.affords(shift - base) => {
                        let pages = 1 << (shift - base);
                        self.push_folio(space, page, pages, touch);
                        self.tables[space as usize].add_folio(page, pages, shift);
                    }
                    _ => self.push(space, page, touch),
                }
            }
            None => {
                self.not_placements += 1;
                let head = self.tables[space as usize].head(page);
                if store && head != NONE && self.in_race(head, time, thread, at.large) {
                    self.races.add(head, row);
                }
            }
        }
    }

    /// Whether a page of 2^`order` base pages can be followed. Larger ones than a block of the table (2 MiB of pages of
    /// 4 KiB), as hugetlbfs has of 1 GiB, count towards [`MOST_POPULATED`]: a damaged recording may name any size.
    fn affords(&mut self, order: u32) -> bool {
        if order <= PER_BLOCK.trailing_zeros() {
            return true;
        }
        let pages = 1u64.checked_shl(order).unwrap_or(u64::MAX);
        let affordable = pages <= MOST_POPULATED - self.populated;
        self.populated += if affordable { pages } else { 0 };
        affordable
    }

    /// How a fault places its page; `None` if it does not.
    fn decide(&mut self, spaces: &Spaces, protects: &Protects, at: &At) -> Option<How> {
        let &At { space, address, time, store, shared, .. } = at;
        let page = address / self.page_bytes;
        // Shared memory is placed by loads, too: it has no zero page.
        let again = if store || shared { How::Refault } else { How::Read };
        let first = if store { How::Write } else { How::Read };
        let head = self.tables[space as usize].head(page);
        if head == NONE {
            return match self.inherited(space, page) {
                Some(touch) if !touch.zero => (store && !shared).then_some(How::CopyOnWrite),
                _ => Some(first),
            };
        }
        let now = self.touches[head as usize];
        if now.how == How::Gone {
            Some(again)
        } else if now.how == How::Read && store && !shared {
            // Zero page or page-cache page: the store takes a page of its own.
            Some(How::Write)
        } else if store && !shared && self.copied(spaces, space, page, now.time, time) {
            Some(How::CopyOnWrite)
        } else if spaces.renewed(space, address, now.time, time)
            && !protects.changed(space, address, now.time, time)
        {
            Some(again)
        } else if self.certain
            && store
            && !self.in_race(head, time, at.thread, at.large)
            && !protects.changed(space, address, now.time, time)
            && !forked(spaces, space, now.time, time)
        {
            Some(How::Refault)
        } else {
            None
        }
    }

    /// The parent's page at the fork.
    fn inherited(&self, space: u32, page: u64) -> Option<Touch> {
        let (parent, at) = self.parents[space as usize]?;
        self.at(parent, page, at).map(|t| self.touches[t as usize])
    }

    /// Whether a store at `time` copies a page placed at `since`: some child still shares it.
    /// A child that ended, exec'ed or took its own copy no longer does.
    fn copied(&mut self, spaces: &Spaces, space: u32, page: u64, since: u64, time: u64) -> bool {
        let forks = &spaces.spaces[space as usize].forks;
        let (children, looked) = &mut self.children[space as usize];
        if forks[*looked..].first().is_some_and(|f| f.0 <= time) {
            // Time only goes on: a page that is gone now was asked for the last time.
            children.retain(|f| time < f.2);
            let new = forks[*looked..].iter().take_while(|f| f.0 <= time);
            *looked += new.clone().count();
            children.extend(new.filter(|f| time < f.2));
        }
        children
            .iter()
            .rev()
            .take_while(|f| since < f.0)
            .any(|&(_, child, gone)| time < gone && self.tables[child as usize].head(page) == NONE)
    }

    fn range_event(&mut self, input: &Input, spaces: &Spaces, threads: &IdIndex, i: usize) {
        let r = &input.range_events;
        let space = spaces.position(r.process[i]);
        // The system calls want an aligned address and round the length up.
        let from = r.address[i].div_ceil(self.page_bytes);
        let to = r.address[i].saturating_add(r.bytes[i]).div_ceil(self.page_bytes);
        let time = r.time_ns[i];
        match RangeKind::from_code(r.kind[i]) {
            Some(RangeKind::Discard | RangeKind::Unmap) => {
                for page in self.tables[space as usize].there(from, to) {
                    self.drop_page(space, page, time);
                }
            }
            Some(RangeKind::Move) => {
                let target = r.to[i] / self.page_bytes;
                for page in self.tables[space as usize].there(from, to) {
                    self.move_page(space, page, target + (page - from), time);
                }
            }
            Some(RangeKind::Populate) => {
                if let Some(thread) = threads.get(r.thread[i]) {
                    self.populate(
                        spaces,
                        space,
                        from..to,
                        Touch { thread: thread as u32, ..Touch::new(time, How::Populate) },
                    );
                }
            }
            _ => {}
        }
    }

    /// Places the pages of a range that are not there. Those that were only read are not: a load maps the zero page, or a
    /// page of a file that was mapped at this address before. Files' stay as they are: their pages are the page cache's.
    fn populate(&mut self, spaces: &Spaces, space: u32, pages: Range<u64>, touch: Touch) {
        let mapping = spaces.mapping_at(space, pages.start.saturating_mul(self.page_bytes), touch.time).0;
        let kind = mapping.map(|m| spaces.things.get(m).kind);
        if kind == Some(ObjectKind::File)
            || pages.end.saturating_sub(pages.start) > MOST_POPULATED - self.populated
        {
            return;
        }
        self.populated += pages.end.saturating_sub(pages.start);
        let space = match mapping {
            // As with faults: shared memory is kept with the space that made it.
            Some(m) if kind == Some(ObjectKind::Shared) => spaces.things.get(m).space,
            _ => space,
        };
        // Pages with the same past share one entry.
        let mut last: Option<u32> = None;
        for page in pages {
            let older = self.tables[space as usize].head(page);
            let free = match older {
                NONE => self.inherited(space, page).is_none_or(|t| t.zero),
                head => !self.touches[head as usize].took_page(),
            };
            if free {
                let id = match last.filter(|&l| self.touches[l as usize].older == older) {
                    Some(id) => id,
                    None => self.add(older, touch),
                };
                last = Some(id);
                self.tables[space as usize].set(page, id, true);
            }
        }
    }

    fn drop_page(&mut self, space: u32, page: u64, time: u64) {
        let head = self.tables[space as usize].head(page);
        if head == NONE || self.touches[head as usize].how == How::Gone {
            return;
        }
        let how = How::Gone;
        self.push(space, page, Touch::new(time, how));
    }

    fn move_page(&mut self, space: u32, from: u64, to: u64, time: u64) {
        let head = self.tables[space as usize].head(from);
        if head == NONE || self.touches[head as usize].how == How::Gone {
            return;
        }
        let touch = Touch { time, how: How::Moved, ..self.touches[head as usize] };
        self.drop_page(space, from, time);
        self.push(space, to, touch);
    }

    /// A large realloc inside libc moves pages with a mremap that is not reported. Its signs: a new
    /// address whose pages were not touched, and old pages that were there.
    fn realloc(&mut self, spaces: &Spaces, object: u32, previous: Option<usize>, time: u64) {
        let Some(old) = previous.map(|p| spaces.things.get(p as u32)) else {
            return;
        };
        let new = spaces.things.get(object);
        if old.space != new.space || old.address == new.address {
            return;
        }
        let from = old.address / self.page_bytes;
        let to = old.address.saturating_add(old.bytes).div_ceil(self.page_bytes);
        let target = new.address / self.page_bytes;
        let end = new.address.saturating_add(new.bytes).div_ceil(self.page_bytes);
        // mremap keeps the offset within the page.
        if old.address % self.page_bytes != new.address % self.page_bytes {
            return;
        }
        for page in self.tables[old.space as usize].there(from, to) {
            let there = target + (page - from);
            if there < end && self.at(new.space, there, time).is_none() {
                self.move_page(old.space, page, there, time);
            }
        }
    }
}
