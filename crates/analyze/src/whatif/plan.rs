//! A repair as a placement file can say it: which allocations, which of their bytes on which node.

use super::parts::{PageUser, simplest};
use super::weights;
use crate::context::Context;
use crate::counters::{BINS, Counters};
use crate::exact::{Exact, PageUse};
use crate::hash::FastMap;
use crate::input::Input;
use crate::nodes::{NodeIndex, UNKNOWN};
use crate::object_rows::RowUse;
use crate::rows::Row;
use crate::sites::SiteId;
use crate::space::page_range;
use crate::value::{Pattern, Repair, RepairPart};
use nearfar_figures::percent::percent;
use nearfar_machine::LINE_BYTES;
use nearfar_machine::Machine;
use nearfar_machine::placement_file::MOST_PARTS;
use nearfar_recording::{NONE, ObjectKind};

/// Part of an allocation's pages that must be one node's for the whole to be called that node's, and part of
/// all pages that must agree for several allocations to be called alike. // chosen
const AGREE: f64 = 0.9;

/// Most pages of a row that are asked for their user: 1 TiB of them. // chosen
const MOST_PAGES: u64 = 1 << 28;

/// Says repairs as a file can.
pub struct Planner<'a> {
    input: &'a Input,
    machine: &'a Machine,
    context: &'a Context<'a>,
    counters: &'a Counters,
    /// Whether threads wandered between nodes: then no page has a user that stays.
    wandering: bool,
}

/// Which threads use the pages of an allocation.
type Users = Vec<PageUser>;

impl<'a> Planner<'a> {
    /// From the recording and what was counted.
    pub fn new(
        input: &'a Input,
        machine: &'a Machine,
        context: &'a Context<'a>,
        counters: &'a Counters,
    ) -> Planner<'a> {
        let wandering =
            !context.finder.nodes.assumed && counters.threads.iter().any(|t| t.wanders().is_some());
        Planner { input, machine, context, counters, wandering }
    }

    /// What fits how an object is used, where no time is known; `None` if that is not known either.
    pub fn fitting(&self, row_use: &RowUse) -> Option<RepairPart> {
        let repair = match row_use.pattern {
            Pattern::Blocked | Pattern::OneThread | Pattern::OwnThread => Repair::WhereUsed,
            Pattern::AllOver | Pattern::Cyclic => Repair::Interleave,
            Pattern::Unknown => return None,
        };
        Some(self.part(row_use.row as u32, repair))
    }

    /// A row's part of a combination.
    pub fn part(&self, row: u32, repair: Repair) -> RepairPart {
        let about = &self.context.rows.rows[row as usize];
        let mut part = self.unplaced(about, repair);
        let why = self.address(about, &mut part).and_then(|()| match repair {
            Repair::Replicate => {
                Err("replication needs a source change: from outside, nearfar cannot prove that the \
                                      object stays read-only"
                    .to_string())
            }
            Repair::SameSchedule => {
                Err("threads take what comes next: only a static schedule in the source makes them come back"
                    .to_string())
            }
            Repair::WeightedInterleave => {
                (part.nodes, part.weights) = weights::by_bandwidth(self.machine);
                Ok(())
            }
            Repair::Weighted { with_cpus, without } => {
                (part.nodes, part.weights) = weights::by_kind(self.machine, with_cpus, without);
                Ok(())
            }
            Repair::WhereUsed => self.where_used(row, about, &mut part),
            Repair::Interleave => {
                part.nodes = self.machine.cpu_nodes().map(|n| n.id).collect();
                Ok(())
            }
            Repair::Bind { node } => {
                part.nodes = vec![node];
                Ok(())
            }
        });
        part.not_placeable = why.err();
        part
    }

    /// By what a file can name a row: line, variable, module. `None` if it cannot.
    pub(super) fn named(&self, row: u32) -> Option<(Option<String>, Option<String>, Option<String>)> {
        let about = &self.context.rows.rows[row as usize];
        let mut part = self.unplaced(about, Repair::WhereUsed);
        self.address(about, &mut part).ok()?;
        Some((part.allocated_at, part.variable, part.module))
    }

    fn unplaced(&self, about: &Row, repair: Repair) -> RepairPart {
        RepairPart {
            object: about.name.clone(),
            repair,
            allocated_at: None,
            variable: None,
            module: None,
            nodes: Vec::new(),
            weights: Vec::new(),
            bytes: about
                .things
                .iter()
                .map(|&t| self.context.finder.spaces.things.get(t).bytes)
                .max()
                .unwrap_or(0),
            blocks: Vec::new(),
            turns: Vec::new(),
            not_placeable: None,
        }
    }

    /// By what a file can name it.
    fn address(&self, row: &Row, part: &mut RepairPart) -> Result<(), String> {
        if row.split {
            return Err(
                "its line allocates other objects too, which are elsewhere: a file cannot tell them apart"
                    .into(),
            );
        }
        let module = |m: Option<u32>| {
            let path = self.input.modules.path.get(m? as usize)?;
            (!self.input.processes.executable.contains(path)).then(|| path.clone())
        };
        match row.kind {
            ObjectKind::Heap => {
                let line = self.line(row).ok_or("which code allocates it is not known")?;
                if self.context.sites.is_python(self.input, line) {
                    return Err(
                        "a line of Python allocates it: a file can only name lines of compiled code".into()
                    );
                }
                let site = self.context.sites.get(line);
                let at = site.at.clone().filter(|_| !site.runtime);
                part.allocated_at = at.filter(|a| !a.contains("+0x"));
                part.module = module(site.module);
                match part.allocated_at {
                    Some(_) => Ok(()),
                    None => Err("the line that allocates it is not known: compile with -g".to_string()),
                }
            }
            ObjectKind::Static => {
                part.variable = Some(row.name.clone());
                Ok(())
            }
            ObjectKind::SmallHeap => {
                Err("its allocations are smaller than pages and share them with others".to_string())
            }
            kind => Err(format!("it is neither allocated nor a static variable ({})", kind.text())),
        }
    }

    /// The object's line, or its caller's where a function of the program allocates several objects in one line. A caller without
    /// a line (what calls `main`) tells nothing apart.
    fn line(&self, row: &Row) -> Option<SiteId> {
        let shared =
            self.context.rows.rows.iter().filter(|r| r.kind == row.kind && r.site == row.site).count() > 1;
        let sites = self.context.sites;
        let has_line = |&site: &SiteId| {
            let site = sites.get(site);
            !site.runtime && site.at.as_ref().is_some_and(|at| !at.contains("+0x"))
        };
        let mut frames = sites.frames(row.chain?).iter().map(|f| f.site);
        let caller = frames.by_ref().find(|&f| Some(f) == row.site).and_then(|_| frames.next());
        caller.filter(has_line).filter(|_| shared).or(row.site)
    }

    /// By page; without counts the node that uses nearly all of this allocation (`own`), else by the samples of a 512th
    /// of the object, which are those of all its allocations.
    fn users(&self, by_bin: &Users, own: Option<NodeIndex>, thing: u32) -> Users {
        let Some(exact) = self.context.exact else { return self.sampled_users(by_bin, own, thing) };
        let thing = self.context.finder.spaces.things.get(thing);
        let (from, to) = page_range(&thing, self.input.meta.page_bytes.max(1));
        let user = |p, initialised: bool| {
            exact.page(thing.space, p).filter(|&page| initialised || self.is_used(exact, page)).map_or(
                NOBODY,
                |page| PageUser {
                    node: page.user,
                    weight: exact.lead(self.input, self.context.finder.nodes, page),
                },
            )
        };
        let users: Users = (from..to).map(|p| user(p, false)).collect();
        // Of an object of which nothing was used, who initialised it is all that there is.
        match users.iter().any(|u| u.node != UNKNOWN) {
            true => filled(users),
            false => filled((from..to).map(|p| user(p, true)).collect()),
        }
    }

    /// Whether a page was more than initialised, which takes each of its lines once from memory and once back, all by
    /// one node; where only a region counts, the second may still come in it. The halo at the end of an array belongs
    /// to the part beside it, not to the thread that initialises.
    fn is_used(&self, exact: &Exact, page: &PageUse) -> bool {
        let lines = (self.input.meta.page_bytes / LINE_BYTES) as f64;
        let fetched = if self.context.region.is_marked() { 0.0 } else { lines };
        let (mut nodes, mut once) = (0, true);
        for flow in exact.flows(self.input, self.context.finder.nodes, page) {
            nodes += 1;
            let [read, written] = flow.lines;
            once &= written > 0.0 && written <= lines && read <= fetched;
        }
        nodes != 1 || !once
    }

    fn sampled_users(&self, by_bin: &Users, own: Option<NodeIndex>, thing: u32) -> Users {
        let thing = self.context.finder.spaces.things.get(thing);
        let (from, to) = page_range(&thing, self.input.meta.page_bytes.max(1));
        let pages = (to - from).max(1);
        if let Some(node) = own {
            return vec![PageUser { node, weight: 1.0 }; pages as usize];
        }
        (0..pages).map(|p| by_bin[(p * BINS as u64 / pages) as usize]).collect()
    }

    /// Of a row's several allocations, those that one node uses, by samples.
    fn of_one_node(&self, row: u32) -> FastMap<u32, NodeIndex> {
        let nodes = self.context.finder.nodes.count;
        let mut votes: FastMap<u32, Vec<u64>> = FastMap::default();
        let of_row = |thing: u32| self.context.rows.of_thing[thing as usize] == row;
        for (&(thing, thread), used) in
            self.counters.instances.iter().filter(|i| of_row(i.0.0) && i.0.1 != NONE)
        {
            let node = self.context.node_of_user(self.counters, thread);
            if node != UNKNOWN {
                votes.entry(thing).or_insert_with(|| vec![0; nodes])[usize::from(node)] +=
                    used.used.addressed;
            }
        }
        let one = |(thing, votes): (u32, Vec<u64>)| {
            let all: u64 = votes.iter().sum();
            let (node, &most) = votes.iter().enumerate().max_by_key(|v| *v.1)?;
            (all > 0 && most as f64 >= AGREE * all as f64).then_some((thing, node as NodeIndex))
        };
        votes.into_iter().filter_map(one).collect()
    }

    /// Which thread is seen most in each 512th of a row's objects.
    fn users_by_bin(&self, row: u32) -> Users {
        let mut votes = vec![vec![0u64; self.context.finder.nodes.count]; BINS];
        for (&(_, thread), used) in self.counters.uses.iter().filter(|u| u.0.0 == row && u.0.1 != NONE) {
            let node = self.context.node_of_user(self.counters, thread);
            if node != UNKNOWN {
                let bins = votes.iter_mut().zip(&used.bins);
                bins.for_each(|(v, &n)| v[usize::from(node)] += u64::from(n));
            }
        }
        let most = |v: &Vec<u64>| {
            let (node, &most) = v.iter().enumerate().max_by_key(|x| *x.1)?;
            let others = v.iter().sum::<u64>() - most;
            let weight = most.saturating_sub(others) as f64;
            (most > 0).then_some(PageUser { node: node as NodeIndex, weight })
        };
        filled(votes.iter().map(|v| most(v).unwrap_or(NOBODY)).collect())
    }

    fn where_used(&self, id: u32, row: &Row, part: &mut RepairPart) -> Result<(), String> {
        if self.wandering {
            return Err(
                "threads ran on several nodes: pin them first (OMP_PROC_BIND=close OMP_PLACES=cores, \
                        or nearfar run --bind compact)"
                    .to_string(),
            );
        }
        let spaces = &self.context.finder.spaces;
        let page = self.input.meta.page_bytes.max(1);
        let pages = row.things.iter().map(|&t| spaces.things.get(t).bytes / page + 1);
        if pages.fold(0, u64::saturating_add) > MOST_PAGES {
            let count = row.things.len();
            return Err(format!("its {count} allocations have more pages than are looked at one by one"));
        }
        let mut things = row.things.clone();
        things.sort_by_key(|&t| (spaces.things.get(t).born, t));
        let by_bin = self.users_by_bin(id);
        let own = self.of_one_node(id);
        let users: Vec<Users> =
            things.iter().map(|&t| self.users(&by_bin, own.get(&t).copied(), t)).collect();
        let used: Vec<(u32, &Users)> = things
            .iter()
            .copied()
            .zip(&users)
            .filter(|(_, u)| u.first().is_some_and(|u| u.node != UNKNOWN))
            .collect();
        let Some(&(longest, whole)) = used.iter().max_by_key(|(_, u)| u.len()) else {
            return Err("no line of it was counted".to_string());
        };
        let longest = spaces.things.get(longest);
        if used.len() == 1 {
            return self.blocks(whole, longest.address, longest.bytes, part);
        }
        let mains: Option<Vec<NodeIndex>> = users.iter().map(main_user).collect();
        if let Some(mains) = mains.filter(|m| m.windows(2).any(|w| w[0] != w[1])) {
            if mains.len() > MOST_PARTS {
                return Err(format!("its {} allocations are more than a file can list", mains.len()));
            }
            part.turns = mains.iter().map(|&n| self.context.finder.nodes.ids[usize::from(n)]).collect();
            return Ok(());
        }
        // The same pattern again and again: a majority, page by page.
        let pages = whole.len();
        let at = |u: &Users, p: usize| u[(p * u.len() / pages).min(u.len() - 1)];
        let mut agreed = 0;
        let common: Users = (0..pages)
            .map(|p| {
                let (node, votes) = majority(used.iter().map(|(_, u)| at(u, p).node));
                agreed += votes;
                PageUser { node, weight: (2 * votes).saturating_sub(used.len()) as f64 }
            })
            .collect();
        if (agreed as f64) < AGREE * (pages * used.len()) as f64 {
            return Err(format!("its {} allocations are used in different ways", used.len()));
        }
        self.blocks(&common, 0, longest.bytes, part)
    }

    /// Runs of pages with one user, as ends in bytes.
    fn blocks(&self, users: &Users, address: u64, bytes: u64, part: &mut RepairPart) -> Result<(), String> {
        let page = self.input.meta.page_bytes.max(1);
        let first = address / page * page;
        let mut at = 0usize;
        let group = match self.context.exact {
            Some(_) => 1,
            None => users.len().div_ceil(BINS),
        };
        let pattern = simplest(users, group).map_err(|unexplained| {
            format!(
                "no simple pattern tells which node uses which part of it: the best one leaves {} of its lines elsewhere",
                percent(unexplained)
            )
        })?;
        for run in pattern.chunk_by(|a, b| a == b) {
            at += run.len();
            let end = (first + at as u64 * page).saturating_sub(address).min(bytes);
            // Allocations that begin within a page may have one page more than their bytes fill.
            if part.blocks.last().is_none_or(|last| last.0 < end) {
                part.blocks.push((end, self.context.finder.nodes.ids[usize::from(run[0])]));
            }
        }
        if part.blocks.len() > MOST_PARTS {
            let parts = std::mem::take(&mut part.blocks).len();
            return Err(format!("threads take turns in it: it would need {parts} blocks"));
        }
        Ok(())
    }
}

/// The node that most of these are, and how many are; [`UNKNOWN`] of none.
fn majority(of: impl Iterator<Item = NodeIndex>) -> (NodeIndex, usize) {
    let mut votes: FastMap<NodeIndex, usize> = FastMap::default();
    of.for_each(|node| *votes.entry(node).or_default() += 1);
    let most = votes.into_iter().max_by_key(|&(node, n)| (n, std::cmp::Reverse(node)));
    most.unwrap_or((UNKNOWN, 0))
}

/// The node that uses nearly all of an allocation.
fn main_user(users: &Users) -> Option<NodeIndex> {
    let (node, most) = majority(users.iter().map(|u| u.node));
    (node != UNKNOWN && most as f64 >= AGREE * users.len() as f64).then_some(node)
}

/// Of a page without lines.
const NOBODY: PageUser = PageUser { node: UNKNOWN, weight: 0.0 };

/// Pages without lines go with their neighbours, and tell nothing.
fn filled(mut users: Users) -> Users {
    let mut last = users.iter().map(|u| u.node).find(|&n| n != UNKNOWN).unwrap_or(UNKNOWN);
    for user in &mut users {
        if user.node == UNKNOWN {
            *user = PageUser { node: last, ..NOBODY };
        }
        last = user.node;
    }
    users
}
