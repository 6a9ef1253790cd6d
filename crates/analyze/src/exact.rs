//! Exact counts of each page, given to objects.
//!
//! The virtual machine counts every line that moves between a page and a node's cpus. Most pages
//! belong to one object, and their counts are that object's as they are. A page that several
//! objects share is divided by the samples seen on it; since that is an estimate, the remote share
//! of such an object has bounds: what it would be if all of the shared pages' local lines, or all
//! of their remote ones, were its own.

use super::counters::Counters;
use super::hash::FastMap;
use super::input::{Input, Judge};
use super::nodes::class;
use super::nodes::{NodeIndex, Nodes, UNKNOWN};
use super::region::Region;
use super::rows::Rows;
use super::space::Spaces;
use super::timing::marked;
use super::value::{Basis, Interval};
use nearfar_machine::LINE_BYTES;
use nearfar_recording::NONE;

/// Lines by distance class, and those of which one end is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lines {
    /// In the order of [`super::attribute::CLASSES`].
    pub by_class: [f64; 4],
    /// Between ends of which at least one is not known.
    pub unknown: f64,
    /// Moved by the node that uses each page most: what would be local if every page lay there.
    pub by_main_user: f64,
    /// Written, except for what initialised them: lines that were dirty before the counts began, and in counts of the
    /// whole run the first write of each line.
    pub written: f64,
}

impl Lines {
    /// From and to the cpus' own node.
    pub fn local(&self) -> f64 {
        self.by_class[0]
    }
    /// From and to other nodes.
    pub fn remote(&self) -> f64 {
        self.by_class[1..].iter().sum()
    }
    /// All.
    pub fn all(&self) -> f64 {
        self.local() + self.remote() + self.unknown
    }
    /// Remote share if every page lay on the node that uses it most; `None` without lines.
    pub fn least_remote(&self) -> Option<f64> {
        let known = self.local() + self.remote();
        (known > 0.0).then(|| 1.0 - self.by_main_user / known)
    }
    fn add(&mut self, other: &Lines, part: f64) {
        self.by_class.iter_mut().zip(other.by_class).for_each(|(a, b)| *a += b * part);
        self.unknown += other.unknown * part;
        self.by_main_user += other.by_main_user * part;
        self.written += other.written * part;
    }
}

/// The lines of one page, from its rows of the table; `by_user` is scratch, one entry per node.
/// `initial`: whether the counts begin with the program, so that a line written once was initialised.
fn page_lines(input: &Input, nodes: &Nodes, group: &[u32], by_user: &mut [f64], initial: bool) -> Lines {
    let (p, page) = (&input.page_traffic, input.meta.page_bytes);
    let mut lines = Lines::default();
    by_user.fill(0.0);
    for &i in group {
        let i = i as usize;
        let count = (p.read_lines[i] + p.write_lines[i]) as f64;
        let (from, page_node) = (nodes.position(p.from[i]), nodes.position(p.page_node[i]));
        if from == UNKNOWN || page_node == UNKNOWN {
            lines.unknown += count;
        } else {
            lines.by_class[class(nodes.class(from, page_node))] += count;
            by_user[usize::from(from)] += count;
        }
    }
    lines.by_main_user = by_user.iter().copied().fold(0.0, f64::max);
    let main = by_user.iter().position(|&n| n == lines.by_main_user).unwrap_or(0) as NodeIndex;
    for &i in group {
        let (from, written) = (nodes.position(p.from[i as usize]), p.write_lines[i as usize]);
        let before = leftover(page, p.read_lines[i as usize], written);
        lines.by_main_user += if from != UNKNOWN && from != main { before } else { 0.0 };
        lines.written += written as f64 - before;
    }
    if initial {
        lines.written = (lines.written - (page / LINE_BYTES) as f64).max(0.0);
    }
    lines
}

/// Lines of a page that a node wrote without having read them, at most once each: they were dirty in its
/// caches before the counts began. The thread that initialises a page leaves such lines; had its users
/// initialised it, they would be the users' own. (Non-temporal stores do not read either, but
/// they come again with every pass, and the process that makes them is a user of the page.)
fn leftover(page: u64, read: u64, written: u64) -> f64 {
    written.saturating_sub(read).min(page / LINE_BYTES) as f64
}

/// A page that lines moved from or to.
#[derive(Clone, Copy, Debug)]
pub struct PageUse {
    /// Its space.
    pub space: u32,
    /// Its number.
    pub number: u64,
    /// The row that it belongs to; [`NONE`] if none or several.
    pub row: u32,
    /// Its number among the pages that several rows may be on; [`NONE`] if it is none of these.
    pub shared: u32,
    /// The node that moves most of its lines; [`UNKNOWN`] if none is known.
    pub user: NodeIndex,
    /// Its rows of the table: first and end in [`Exact::order`].
    rows: (u32, u32),
}

/// Lines between the cpus of a node and a page.
#[derive(Clone, Copy, Debug)]
pub struct PageFlow {
    /// Node of the cpus.
    pub from: NodeIndex,
    /// Node of the page.
    pub page_node: NodeIndex,
    /// Lines read and written.
    pub lines: [f64; 2],
    /// Of those written, what was dirty before the counts began.
    pub leftover: f64,
}

/// A page on which several rows may lie.
#[derive(Debug)]
struct Shared {
    lines: Lines,
    rows: Vec<u32>,
}

/// Counts per row of objects, before samples divide the shared pages.
#[derive(Debug, Default)]
pub struct Exact {
    own: FastMap<u32, Lines>,
    shared: Vec<Shared>,
    /// Shared pages by space and page number.
    places: FastMap<(u32, u64), u32>,
    /// Lines of all pages.
    pub total: Lines,
    /// All pages, ascending by space and number.
    pub pages: Vec<PageUse>,
    /// Rows of the table in the order of `pages`.
    order: Vec<u32>,
}

/// What is known exactly of one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowLines {
    /// Its lines, with its part of shared pages.
    pub lines: Lines,
    /// Bounds of its remote share, whichever thread the lines of shared pages belong to; `None` if no line has known ends.
    pub remote: Option<Interval>,
}

impl Exact {
    /// Gives every counted page to its objects. `None` where nothing was counted, and where the counts are
    /// not of what is judged: on another machine, or of the whole run where only a region was counted.
    pub fn new(
        input: &Input,
        judge: &Judge,
        basis: Basis,
        spaces: &Spaces,
        rows: &Rows,
        nodes: &Nodes,
        region: &Region,
    ) -> Option<Exact> {
        let p = &input.page_traffic;
        let marked = marked(&input.cpu_epochs);
        if basis != Basis::DramLines
            || p.address.is_empty()
            || judge.assume.is_some()
            || judge.whole && marked
        {
            return None;
        }
        let page = input.meta.page_bytes.max(1);
        let mut exact = Exact::default();
        let place = |i: usize| (spaces.position(p.process[i]), p.address[i] / page);
        let mut order: Vec<u32> = (0..p.address.len() as u32).collect();
        order.sort_unstable_by_key(|&i| place(i as usize));
        let (since, until) = match region.is_marked() {
            true => region.bounds,
            false => (0, u64::MAX),
        };
        let mut over = spaces.rows_over(&rows.of_thing, since, until);
        let mut by_user = vec![0.0; nodes.count];
        let mut first = 0;
        for group in order.chunk_by(|&a, &b| place(a as usize) == place(b as usize)) {
            let lines = page_lines(input, nodes, group, &mut by_user, !region.is_marked());
            exact.total.add(&lines, 1.0);
            let (space, number) = place(group[0] as usize);
            let from = number * page;
            let mut found = over.of(space, from, from.saturating_add(page));
            found.retain(|&r| r != NONE);
            let rows = (first, first + group.len() as u32);
            first = rows.1;
            let most = by_user.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            let user = most.filter(|m| *m.1 > 0.0).map_or(UNKNOWN, |m| m.0 as NodeIndex);
            let mut page = PageUse { space, number, row: NONE, shared: NONE, user, rows };
            match found.as_slice() {
                [] => {}
                [row] => {
                    exact.own.entry(*row).or_default().add(&lines, 1.0);
                    page.row = *row;
                }
                _ => {
                    page.shared = exact.shared.len() as u32;
                    exact.places.insert((space, number), page.shared);
                    exact.shared.push(Shared { lines, rows: found });
                }
            }
            exact.pages.push(page);
        }
        exact.order = order;
        Some(exact)
    }

    /// A counted page.
    pub fn page(&self, space: u32, number: u64) -> Option<&PageUse> {
        let at = self.pages.binary_search_by_key(&(space, number), |p| (p.space, p.number)).ok()?;
        Some(&self.pages[at])
    }

    /// The counted pages of a range, by number.
    pub fn pages_of(&self, space: u32, from: u64, to: u64) -> &[PageUse] {
        let at = |number| self.pages.partition_point(|p| (p.space, p.number) < (space, number));
        &self.pages[at(from)..at(to)]
    }

    /// The lines of a page.
    pub fn flows<'a>(
        &'a self,
        input: &'a Input,
        nodes: &'a Nodes,
        page: &'a PageUse,
    ) -> impl Iterator<Item = PageFlow> + 'a {
        let p = &input.page_traffic;
        self.order[page.rows.0 as usize..page.rows.1 as usize].iter().map(move |&i| {
            let i = i as usize;
            let (read, written) = (p.read_lines[i], p.write_lines[i]);
            PageFlow {
                from: nodes.position(p.from[i]),
                page_node: nodes.position(p.page_node[i]),
                lines: [read as f64, written as f64],
                leftover: leftover(input.meta.page_bytes, read, written),
            }
        })
    }

    /// Lines of the node that uses a page most, less those of all others; 0 if it has no more. Lines that were dirty before
    /// the counts began are left out, this node's too: it is chance how many of them the caches hold by then.
    pub fn lead(&self, input: &Input, nodes: &Nodes, page: &PageUse) -> f64 {
        let signed = |f: PageFlow| {
            let lines = f.lines[0] + f.lines[1] - f.leftover;
            if f.from == page.user { lines } else { -lines }
        };
        self.flows(input, nodes, page).map(signed).sum::<f64>().max(0.0)
    }

    /// The node that would use a line most if the page lay and was initialised where it is used: the page's main
    /// user, except for lines that a node wrote and that were dirty before the counts began.
    pub fn user(
        &self,
        input: &Input,
        nodes: &Nodes,
        page: &PageUse,
        from: NodeIndex,
        written: bool,
    ) -> NodeIndex {
        let dirty = |f: &PageFlow| f.from == from && f.leftover > 0.5 * f.lines[1];
        match written && from != page.user && self.flows(input, nodes, page).any(|f| dirty(&f)) {
            true => from,
            false => page.user,
        }
    }

    /// For each page on which several rows may lie: the rows and their parts of it, which samples tell.
    pub fn parts(&self, counters: &Counters) -> Vec<Vec<(u32, f64)>> {
        let mut samples: FastMap<u32, Vec<(u32, u64)>> = FastMap::default();
        for (&(page, row), &weight) in &counters.shared_pages {
            samples.entry(page).or_default().push((row, weight));
        }
        let part = |(number, page): (usize, &Shared)| {
            let mut seen = samples.remove(&(number as u32)).unwrap_or_default();
            if seen.is_empty() {
                // No thread was sampled here: divided as the rows' samples elsewhere are.
                let weight = |&r: &u32| counters.rows[r as usize].as_ref().map_or(0, |t| t.sum.weight);
                seen = page.rows.iter().map(|r| (*r, weight(r))).collect();
            }
            let whole: u64 = seen.iter().map(|s| s.1).sum();
            let share = |&(row, weight): &(u32, u64)| (row, weight as f64 / whole.max(1) as f64);
            seen.iter().map(share).collect()
        };
        self.shared.iter().enumerate().map(part).collect()
    }

    /// The number of a page on which samples must be told apart.
    #[inline]
    pub fn shared(&self, space: u32, page: u64) -> Option<u32> {
        self.places.get(&(space, page)).copied()
    }

    /// What is known of each row.
    pub fn rows(&self, counters: &Counters) -> FastMap<u32, RowLines> {
        let mut parts: FastMap<u32, Lines> = self.own.clone();
        // Sum over all shared pages that may be a row's.
        let mut reach: FastMap<u32, Lines> = FastMap::default();
        for (page, seen) in self.shared.iter().zip(self.parts(counters)) {
            for &(row, part) in seen.iter().filter(|s| s.1 > 0.0) {
                parts.entry(row).or_default().add(&page.lines, part);
            }
            let mut may: Vec<u32> = page.rows.iter().copied().chain(seen.iter().map(|s| s.0)).collect();
            may.sort_unstable();
            may.dedup();
            for row in may {
                reach.entry(row).or_default().add(&page.lines, 1.0);
            }
        }
        let none = Lines::default();
        let row = |(row, lines): (u32, Lines)| {
            let own = self.own.get(&row).unwrap_or(&none);
            let may = reach.get(&row).unwrap_or(&none);
            let share = |far: f64, near: f64| if far + near > 0.0 { Some(far / (far + near)) } else { None };
            let low = share(own.remote(), own.local() + may.local());
            let high = share(own.remote() + may.remote(), own.local());
            let remote = match (low, high) {
                (Some(low), Some(high)) => Some(Interval { low, high }),
                // All of one kind, wherever the shared lines belong.
                (Some(one), None) | (None, Some(one)) => Some(Interval { low: one, high: one }),
                (None, None) => None,
            };
            (row, RowLines { lines, remote })
        };
        parts.into_iter().map(row).collect()
    }
}
