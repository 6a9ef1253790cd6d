//! How each object row is placed and used, as far as the pass showed, gathered for rows that have samples.

use super::by_row::by_row;
use super::cache_room::cached_lines;
use super::context::Context;
use super::counters::{BINS, Counters, Folio, FolioUse, LineUse, TouchUse, Use};
use super::exact::{Exact, Lines, RowLines};
use super::hash::{FastMap, FastSet};
use super::input::Input;
use super::instances;
use super::nodes::{NodeIndex, UNKNOWN};
use super::pages::{self, Origins};
use super::pattern::{self, Range};
use super::sites::SiteId;
use super::space::MOST_CONSTANT;
use super::stats::{Block, share_interval};
use super::touchers::Toucher;
use super::value::{Basis, Interval, PageOrigins, Pattern};
use super::windowed::{LinesInWindows, RowErrors, Windowed};
use super::written;
use nearfar_machine::Machine;
use nearfar_recording::{NONE, ObjectKind};

/// Largest written part of the lines of what counts as only read: pages that it shares with others. // chosen
const WRITTEN: f64 = 0.02;
/// Bit of a mapping's flags: its pages may be executed.
const EXECUTABLE: u8 = 4;
/// Rows that get intervals and page counts; the others are below anything a finding could need.
const DETAILED: usize = 100;

/// How an object row is allocated, placed and used: all that findings, predictions and pictures ask of it.
#[derive(Debug, Default)]
pub struct RowUse {
    /// Position of the row.
    pub row: usize,
    /// Name.
    pub name: String,
    /// Whether it was allocated.
    pub heap: bool,
    /// Memory that several processes may have in common.
    pub shared: bool,
    /// Stacks of threads that others created: each is its thread's own. What they were touched first by others is the
    /// little that creating a thread writes there, which no placement of the program's data mends.
    pub own_stacks: bool,
    /// Code and data of a library or of the program's file, of which no variable is known: they are where the loader put
    /// them, and nothing in the program places them.
    pub loaded: bool,
    /// Remote weight.
    pub remote: u64,
    /// Weight by distance, in the order of [`super::attribute::CLASSES`].
    pub by_class: [u64; 4],
    /// Number of allocations.
    pub allocations: usize,
    /// Runs of pages along its largest allocation that are on one node, and that one node uses most; where
    /// pages were counted.
    pub runs: Option<(usize, usize)>,
    /// Remote samples.
    pub remote_samples: u64,
    /// Remote of those whose page's node is known.
    pub remote_share: Option<f64>,
    /// 95 % interval of it, or its bounds if it was counted.
    pub remote_ci: Option<Interval>,
    /// Its lines, where all were counted and more is known so than from samples.
    pub exact: Option<Lines>,
    /// How far off its lines and its remote share are, if accesses were counted in windows.
    pub windows: Option<RowErrors>,
    /// What its samples count.
    pub basis: Basis,
    /// 95 % interval of the remote share of all samples.
    pub at_risk_ci: Option<Interval>,
    /// Threads that placed the pages with remote samples, most remote weight first.
    pub touchers: Vec<Toucher>,
    /// Samples, and those whose exact address is known; of the others only the object is.
    pub samples: [u64; 2],
    /// Nodes that use it, with the share of its samples.
    pub user_nodes: Vec<(NodeIndex, f64)>,
    /// Share of its samples by node of the page, of those whose page's node is known.
    pub page_nodes: Vec<f64>,
    /// Threads that use it by their place in the order of creation, most first.
    pub users: Vec<u32>,
    /// Pages by origin.
    pub pages: PageOrigins,
    /// Pages by group of touches.
    pub origins: Origins,
    /// Pattern.
    pub pattern: Pattern,
    /// Range per thread.
    pub ranges: Vec<Range>,
    /// Folio sizes, ascending.
    pub folio_bytes: Vec<u64>,
    /// Remote weight on pages that came with another page of the folio.
    pub remote_by_folio: u64,
    /// Remote weight on folios that several nodes use, or that another object's first touch placed.
    pub shared_folio_remote: u64,
    /// Number of such folios.
    pub shared_folios: u64,
    /// The line that uses it most (remotely, if any does).
    pub used_at: Option<String>,
    /// Its function.
    pub used_in: Option<String>,
    /// No store was seen but by the lines that touched first, or by the thread that set it up.
    pub read_only: bool,
    /// Written part of its lines, except for those that were dirty before the counts began (see [`written`]); where counted.
    pub written: Option<f64>,
    /// Lines that use it, most first.
    pub lines: Vec<(SiteId, LineUse)>,
}

impl RowUse {
    /// Its remote share if every page lay on the node that uses it most, where pages were counted.
    pub fn least_remote(&self) -> Option<f64> {
        self.exact.and_then(|lines| lines.least_remote())
    }
    /// Whether there are samples enough, but most of them name the object only: a load that overwrites its own address,
    /// as in a chain of pointers or an index read from memory.
    pub fn lacks_addresses(&self) -> bool {
        let [all, addressed] = self.samples;
        self.basis == Basis::StallTime && all >= 2 * pattern::ENOUGH && 2 * addressed < all
    }
    /// Whether its pages are spread over its users' nodes: none has half more than an even share. // chosen
    pub fn is_spread(&self) -> bool {
        let most = self.page_nodes.iter().copied().fold(0.0, f64::max);
        let nodes = self.user_nodes.len();
        nodes > 1 && most > 0.0 && most <= 1.5 / nodes as f64
    }
    /// Pages that a thread placed.
    pub fn pages_of(&self, thread: u32) -> u64 {
        self.origins.by_group.iter().filter(|((g, _), _)| g.thread == thread).map(|(_, n)| n).sum()
    }
    /// Pages whose placement was seen.
    pub fn placed_pages(&self) -> u64 {
        self.pages.touched + self.pages.inherited
    }
}

/// Weight of samples on file mappings (constants, tables) that the program only reads, that caches hold and of which no
/// node of the page is known: the page cache's pages were placed by the process that read the file first. The other
/// mappings of a file, as that of its variables, are in the same row.
pub fn read_only_files(context: &Context, counters: &Counters, rows: &[RowUse]) -> u64 {
    let spaces = context.finder.spaces;
    let in_file = |f: &&RowUse| {
        let row = &context.rows.rows[f.row];
        matches!(row.kind, ObjectKind::File | ObjectKind::Static) && row.things.len() <= MOST_CONSTANT
    };
    let rows: Vec<&RowUse> = rows.iter().filter(in_file).collect();
    // Of each thing of theirs, the weight of its samples and its bins in use.
    let mut uses: FastMap<u32, (u64, [bool; BINS])> = FastMap::default();
    let mut add = |thing: u32, used: &Use| {
        let of_thing = uses.entry(thing).or_insert((0, [false; BINS]));
        of_thing.0 += used.sum.weight;
        of_thing.1.iter_mut().zip(&used.bins).for_each(|(any, &n)| *any |= n > 0);
    };
    let (mut single, mut several) = (FastMap::default(), FastSet::default());
    for f in &rows {
        match context.rows.rows[f.row].things.as_slice() {
            [thing] => _ = single.insert(f.row as u32, *thing),
            things => several.extend(things.iter().copied()),
        }
    }
    for ((row, _), used) in counters.uses.iter() {
        single.get(row).into_iter().for_each(|&thing| add(thing, used));
    }
    for ((thing, _), instance) in counters.instances.iter().filter(|i| several.contains(&i.0.0)) {
        add(*thing, &instance.used);
    }
    let mut left = SMALL_FILES;
    let mut sum = 0;
    for f in rows {
        let things = &context.rows.rows[f.row].things;
        // What no sample stored to may be written all the same: the page's protection tells.
        let constant: Vec<u32> =
            things.iter().copied().filter(|&thing| spaces.are_constant(context.input, &[thing])).collect();
        // A store to a row of constants alone: its mappings are not those that were recorded.
        if constant.len() == things.len() && f.lines.iter().any(|l| l.1.stores > 0) {
            continue;
        }
        let (mut weight, mut bytes) = (0, 0u64);
        for thing in constant {
            let Some((of_thing, bins)) = uses.get(&thing) else { continue };
            let whole = spaces.things.get(thing).bytes;
            // Samples without an address may be anywhere.
            bytes = bytes.saturating_add(match bins.iter().filter(|any| **any).count() as u64 {
                0 => whole,
                in_use => whole.div_ceil(BINS as u64).saturating_mul(in_use),
            });
            weight += of_thing;
        }
        if bytes <= left {
            left -= bytes;
            let of_row = counters.rows[f.row].as_deref();
            sum += of_row.map_or(0, |c| weight.min(c.sum.weight.saturating_sub(c.known.weight)));
        }
    }
    sum
}

/// Bytes in use of mapped files that a node's last cache holds, so that where they are does not matter: less than that of
/// a node of every described machine with three levels. A mapped file of gigabytes is memory like any other. // chosen
const SMALL_FILES: u64 = 4 << 20;

/// Gathers the uses of all rows with samples, most weight first.
pub fn gather(input: &Input, context: &Context, counters: &Counters, machine: &Machine) -> Vec<RowUse> {
    let mut order: Vec<usize> = (0..counters.rows.len()).filter(|&r| counters.rows[r].is_some()).collect();
    let weight = |r: usize| counters.rows[r].as_ref().map_or(0, |t| t.sum.weight);
    order.sort_by_key(|&r| (std::cmp::Reverse(weight(r)), r));
    let uses = by_row(counters.uses.iter());
    let lines = by_row(counters.lines.iter());
    let touchers = by_row(counters.touchers.iter());
    let folios = by_row(counters.folios.iter());
    let shared = shared_by_nodes(counters);
    let exact = context.exact.map(|e| e.rows(counters)).unwrap_or_default();
    let instances = instances::by_row(context.rows, counters);
    let executable: FastSet<&str> = (0..input.mappings.start.len())
        .filter(|&i| input.mappings.flags[i] & EXECUTABLE != 0)
        .map(|i| input.mappings.name[i].as_str())
        .collect();
    let mut row_uses = Vec::with_capacity(order.len());
    let mut left = pages::ALL_PAGES;
    let in_caches = cached_lines(machine);
    for (rank, row) in order.into_iter().enumerate() {
        let Some(counts) = &counters.rows[row] else {
            continue;
        };
        let key = row as u32;
        let about = &context.rows.rows[row];
        let mut f = RowUse {
            row,
            name: about.name.clone(),
            heap: matches!(about.kind, ObjectKind::Heap | ObjectKind::SmallHeap),
            shared: matches!(about.kind, ObjectKind::File | ObjectKind::Shared),
            own_stacks: about.kind == ObjectKind::Stack && !about.name.starts_with("main thread"),
            loaded: about.kind == ObjectKind::File && executable.contains(about.name.as_str()),
            remote: counts.remote,
            by_class: counts.by_class,
            allocations: about.things.len(),
            remote_samples: counts.remote_samples,
            basis: context.measure.basis,
            ..RowUse::default()
        };
        if counts.known.weight > 0 && context.finder.nodes.count > 1 {
            f.remote_share = Some(counts.remote as f64 / counts.known.weight as f64);
        }
        let used = uses.get(&key).map_or(&[][..], Vec::as_slice);
        let overlaid = pattern::pattern(used, &counts.followed);
        // Small ones are sampled: what lies between two of them is of no object.
        let several = instances.get(&key).filter(|_| about.has_several());
        (f.pattern, f.ranges) = match several {
            _ if f.own_stacks => (Pattern::OwnThread, overlaid.1),
            Some(i) if instances::own(i) => (Pattern::OwnThread, overlaid.1),
            Some(i) => instances::compared(i, overlaid),
            None => overlaid,
        };
        who_uses(&mut f, context, counters, used);
        f.read_only = set_up(used);
        f.lines = lines.get(&key).map_or(Vec::new(), |l| l.iter().map(|x| (x.0, *x.1)).collect());
        f.lines.sort_by_key(|l| std::cmp::Reverse(l.1.sum.weight));
        if rank < DETAILED {
            if f.remote_share.is_some() {
                let own = counts.blocks.all();
                f.remote_ci = share_interval(&own, &counts.known);
                let at_risk = |(part, all): (&Block, &Block)| Block { part: part.part, whole: all.whole };
                let blocks: Vec<Block> = own.iter().zip(&counters.working_blocks).map(at_risk).collect();
                f.at_risk_ci = share_interval(&blocks, &counters.working);
            }
            if let Some(counted) = exact.get(&key) {
                use_counts(&mut f, counted);
                // Lines are read to be written, and a sample of a line written back names no store.
                let lines = &counted.lines;
                f.written = (lines.all() > 0.0).then(|| lines.written / lines.all());
                let later = written::later_share(&counts.back_blocks, &counts.sum, in_caches);
                f.written = f.written.map(|all| later.map_or(all, |later| later.min(all)));
            }
            if let Some(windowed) = context.windowed {
                in_windows(&mut f, windowed, counters.in_windows.get(&key));
            }
            f.runs = context.exact.and_then(|e| runs(input, context, e, &about.things));
            let (finder, folios) = (&context.finder, context.folios);
            f.origins =
                pages::origins(input, finder, context.groups, context.sites, about, folios, &mut left);
            f.pages = f.origins.pages.clone();
        }
        who_placed(&mut f, context, touchers.get(&key).map_or(&[][..], Vec::as_slice));
        let sizes = context.folios.of_row(input, &context.finder, &about.things);
        f.folio_bytes = (0..64).filter(|s| sizes >> s & 1 == 1).map(|s| 1u64 << s).collect();
        shared_folios(&mut f, folios.get(&key).map_or(&[][..], Vec::as_slice), &shared);
        row_uses.push(f);
    }
    row_uses
}

/// Runs of nodes of pages and of users along the largest allocation.
fn runs(input: &Input, context: &Context, exact: &Exact, things: &[u32]) -> Option<(usize, usize)> {
    let things = things.iter().map(|&t| context.finder.spaces.things.get(t));
    let thing = things.max_by_key(|t| t.bytes)?;
    let (from, to) = super::space::page_range(&thing, input.meta.page_bytes.max(1));
    let (mut page_nodes, mut users) = (Vec::new(), Vec::new());
    let counted = exact.pages_of(thing.space, from, to).iter().filter(|p| p.user != UNKNOWN);
    for page in counted {
        let page_node =
            exact.flows(input, context.finder.nodes, page).map(|f| f.page_node).find(|&h| h != UNKNOWN);
        if let Some(page_node) = page_node {
            page_nodes.push(page_node);
            users.push(page.user);
        }
    }
    let count = |list: &mut Vec<NodeIndex>| {
        list.dedup();
        list.len()
    };
    (!page_nodes.is_empty()).then(|| (count(&mut page_nodes), count(&mut users)))
}

/// Counts replace samples where they leave less open: an object whose pages are mostly shared with
/// others is known better from samples.
fn use_counts(f: &mut RowUse, counted: &RowLines) {
    let width = |i: Interval| i.high - i.low;
    let known = counted.lines.local() + counted.lines.remote();
    if let (Some(bounds), Some(sampled)) = (counted.remote, f.remote_ci)
        && known > 0.0
        && width(bounds) <= width(sampled)
    {
        f.remote_share = Some(counted.lines.remote() / known);
        f.remote_ci = Some(bounds);
        f.exact = Some(counted.lines);
    }
}

/// What windows leave open of an object, besides: all of its share if they say nothing of it. What it has at risk is a finding then as it was, of a report
/// without a verdict.
fn in_windows(f: &mut RowUse, windowed: &Windowed, used: Option<&LinesInWindows>) {
    f.windows = used.and_then(|used| windowed.errors_of_row(used));
    let [share, at_risk] = f.windows.map_or([1.0, 0.0], |errors| [errors.remote_share, errors.at_risk]);
    f.remote_ci = f.remote_ci.map(|interval| interval.wider(share));
    f.at_risk_ci = f.at_risk_ci.map(|interval| interval.wider(at_risk));
}

fn who_uses(f: &mut RowUse, context: &Context, counters: &Counters, used: &[(u32, &Use)]) {
    let nodes = context.finder.nodes;
    let total: u64 = used.iter().map(|u| u.1.sum.weight).sum();
    f.samples = [used.iter().map(|u| u.1.sum.samples).sum(), used.iter().map(|u| u.1.addressed).sum()];
    let mut by_node: Vec<u64> = vec![0; nodes.count];
    let mut users: Vec<(u64, u32)> = Vec::new();
    for (thread, u) in used.iter().filter(|u| u.0 != NONE) {
        users.push((u.sum.weight, context.finder.nodes.order[*thread as usize]));
        let node = context.node_of_user(counters, *thread);
        if node != UNKNOWN {
            by_node[usize::from(node)] += u.sum.weight;
        }
    }
    users.sort_by_key(|u| (std::cmp::Reverse(u.0), u.1));
    f.users = users.into_iter().map(|u| u.1).collect();
    let mut by_page_node: Vec<u64> = vec![0; nodes.count];
    for (_, u) in used {
        by_page_node.iter_mut().zip(&u.by_page_node).for_each(|(sum, w)| *sum += w);
    }
    let known = by_page_node.iter().sum::<u64>().max(1) as f64;
    f.page_nodes = by_page_node.into_iter().map(|w| w as f64 / known).collect();
    let share = |(n, &w): (usize, &u64)| (n as NodeIndex, w as f64 / total.max(1) as f64);
    f.user_nodes = by_node.iter().enumerate().filter(|x| *x.1 > 0).map(share).collect();
}

fn who_placed(f: &mut RowUse, context: &Context, touches: &[(u32, &TouchUse)]) {
    let mut sites: FastSet<SiteId> = FastSet::default();
    let mut places: FastMap<(u32, NodeIndex), usize> = FastMap::default();
    // Several groups of touches may have one line: what it placed is the sum of them.
    let mut pages: FastMap<(u32, NodeIndex, SiteId), u64> = FastMap::default();
    for ((g, _), n) in &f.origins.by_group {
        *pages.entry((g.thread, g.node, g.site)).or_default() += n;
    }
    let mut remote_at: FastMap<(usize, SiteId), u64> = FastMap::default();
    let mut ranked: Vec<&(u32, &TouchUse)> = touches.iter().filter(|t| t.0 != NONE).collect();
    ranked.sort_by_key(|t| (std::cmp::Reverse(t.1.remote), t.0));
    for (group, used) in ranked {
        let g = &context.groups.groups[*group as usize];
        sites.insert(g.site);
        f.remote_by_folio += used.remote_by_folio;
        let at = match places.get(&(g.thread, g.node)) {
            Some(&place) => place,
            None => {
                places.insert((g.thread, g.node), f.touchers.len());
                f.touchers.push(Toucher {
                    thread: g.thread,
                    space: context.spaces_of_threads.get(g.thread as usize).copied().unwrap_or(NONE),
                    index: context.finder.nodes.order.get(g.thread as usize).copied().unwrap_or(0),
                    node: g.node,
                    ..Toucher::default()
                });
                f.touchers.len() - 1
            }
        };
        *remote_at.entry((at, g.site)).or_default() += used.remote;
        let site = context.sites.get(g.site);
        let t = &mut f.touchers[at];
        t.weight += used.weight;
        t.remote += used.remote;
        t.away += used.away;
        t.away_remote += used.away_remote;
        if g.allocator {
            t.remote_by_allocator += used.remote;
            if t.allocator_at.is_none() && t.allocator_function.is_none() {
                t.allocator_at = site.at.clone();
                t.allocator_function = site.function.clone();
                t.allocator_outer = site.outer.clone();
            }
        }
    }
    let mut best: Vec<Option<(u64, u64, std::cmp::Reverse<SiteId>)>> = vec![None; f.touchers.len()];
    for (&(at, site), &remote) in &remote_at {
        let t = &f.touchers[at];
        let placed = pages.get(&(t.thread, t.node, site)).copied().unwrap_or(0);
        best[at] = best[at].max(Some((remote, placed, std::cmp::Reverse(site))));
    }
    for (t, best) in f.touchers.iter_mut().zip(best) {
        let Some((_, placed, std::cmp::Reverse(site))) = best else { continue };
        let site = context.sites.get(site);
        t.pages_at = placed;
        (t.at, t.function, t.outer) = (site.at.clone(), site.function.clone(), site.outer.clone());
    }
    f.touchers.sort_by_key(|t| (std::cmp::Reverse(t.remote), t.index));
    let main = f.lines.iter().filter(|l| !sites.contains(&l.0)).max_by_key(|l| (l.1.remote, l.1.sum.weight));
    let main = main.or(f.lines.first());
    if let Some((site, _)) = main {
        let site = context.sites.get(*site);
        f.used_at = site.at.clone();
        f.used_in = site.function.clone();
    }
    // A line that initialised some pages may be the whole of the program, called serially at first.
    let to_others: u64 = f.lines.iter().map(|l| l.1.stores_to_others).sum();
    let samples: u64 = f.lines.iter().map(|l| l.1.sum.samples).sum();
    f.read_only |= f.lines.iter().all(|l| l.1.stores == 0 || sites.contains(&l.0))
        && to_others as f64 <= BORDER * samples as f64
        && f.written.is_none_or(|w| w <= WRITTEN);
}

/// Whether one thread stored to it, and no other used it before the last of these stores: however often it was written, that
/// was its initialisation, as where a table is filled and then shuffled. Unless more lines were written back than that thread
/// had fetched: those were written by others, of whose lines a sample names what fetched them, which may be a load.
fn set_up(used: &[(u32, &Use)]) -> bool {
    let mut writers = used.iter().filter(|u| u.1.stored_ns.is_some());
    let (Some((writer, own)), None) = (writers.next(), writers.next()) else { return false };
    let mut others = used.iter().filter(|u| u.0 != *writer).peekable();
    let alone = others.peek().is_some() && others.all(|u| u.1.begun_ns > own.stored_ns);
    let fetched = own.sum.samples.saturating_sub(own.written_back) as f64;
    let back = used.iter().map(|u| u.1.written_back).sum::<u64>() as f64;
    alone && back - fetched <= CERTAIN * (back + fetched).sqrt()
}

/// Standard errors of two counts of samples by which one must be above the other. // chosen
const CERTAIN: f64 = 4.0;

/// Largest share of an object's samples that store to pages of other threads while it still counts as read only: pages
/// at the borders of a parallel initialisation. // chosen
const BORDER: f64 = 0.02;

/// A second node's share from which on a folio counts as used by both; below, it is the neighbours'
/// look across the border that small pages would have, too. // chosen
const SECOND_NODE: f64 = 0.1;

/// Folios that several nodes use, whatever objects of theirs are in it.
fn shared_by_nodes(counters: &Counters) -> FastSet<Folio> {
    let mut all: FastMap<Folio, Vec<u64>> = FastMap::default();
    for ((_, folio), used) in &counters.folios {
        let sum = all.entry(*folio).or_insert_with(|| vec![0; used.by_node.len()]);
        sum.iter_mut().zip(&used.by_node).for_each(|(s, w)| *s += w);
    }
    let shared = |by_node: &[u64]| {
        let (total, most) = (by_node.iter().sum::<u64>(), by_node.iter().copied().max().unwrap_or(0));
        (total - most) as f64 > SECOND_NODE * total as f64
    };
    all.into_iter().filter(|(_, by_node)| shared(by_node)).map(|(folio, _)| folio).collect()
}

fn shared_folios(f: &mut RowUse, folios: &[(Folio, &FolioUse)], shared: &FastSet<Folio>) {
    for (folio, used) in folios {
        let misplaced = if shared.contains(folio) { used.remote } else { used.remote_by_neighbour };
        f.shared_folios += u64::from(misplaced > 0);
        f.shared_folio_remote += misplaced;
    }
}
