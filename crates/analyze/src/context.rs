//! What the pass over samples looks things up in, and what all steps after it read.

use super::blocks::Blocks;
use super::counters::Counters;
use super::exact::Exact;
use super::excerpted::Excerpted;
use super::hash::{FastSet, IdIndex};
use super::input::Input;
use super::measure::Measure;
use super::native::Native;
use super::nodes::{NodeIndex, UNKNOWN};
use super::page_nodes::{Finder, PageNode};
use super::pages::Folios;
use super::phases::Phases;
use super::region::Region;
use super::rows::Rows;
use super::sites::Sites;
use super::timing::Timing;
use super::touchers::Groups;
use super::windowed::Windowed;
use nearfar_recording::{ObjectKind, SampleSurvey};

/// Everything that the pass looks things up in.
pub struct Context<'a> {
    /// The recording.
    pub input: &'a Input,
    /// Pages and nodes of pages.
    pub finder: Finder<'a>,
    /// Rows whose pages are not where they were first touched.
    pub elsewhere: &'a FastSet<u32>,
    /// Object rows.
    pub rows: &'a Rows,
    /// Names of code.
    pub sites: &'a Sites,
    /// Touches by group.
    pub groups: &'a Groups,
    /// Blocks of pages with one answer.
    pub blocks: &'a Blocks,
    /// Folio sizes per thing.
    pub folios: &'a Folios,
    /// Positions of thread ids.
    pub threads: &'a IdIndex,
    /// Space of each thread.
    pub spaces_of_threads: &'a [u32],
    /// First and last sample.
    pub survey: &'a SampleSurvey,
    /// Which samples count.
    pub region: &'a Region,
    /// What they count for.
    pub measure: &'a Measure,
    /// How long iterations of loops took.
    pub native: &'a Native,
    /// Excerpts, by pages of code.
    pub excerpted: &'a Excerpted,
    /// Counts of pages.
    pub exact: Option<&'a Exact>,
    /// What bound in each epoch.
    pub timing: Option<&'a Timing>,
    /// What was done in each window; `None` if everything was counted.
    pub windowed: Option<&'a Windowed>,
    /// Which thread is in which phase; `None` if the program has none.
    pub phases: Option<&'a Phases>,
}

impl Context<'_> {
    /// Folio sizes of a thing, as bits of log2 bytes.
    #[inline]
    pub fn folios_of(&self, thing: u32) -> u64 {
        self.folios.of(self.input, &self.finder, thing)
    }

    /// Where a page of a thing was at `time`.
    #[inline]
    pub fn page_node(&self, thing: u32, space: u32, address: u64, time: u64) -> PageNode {
        let elsewhere = self.elsewhere.contains(&self.rows.of_thing[thing as usize]);
        self.finder.page_node(space, address, time, self.folios_of(thing), elsewhere)
    }

    /// The same, of shared memory in the space that made it, and by blocks of pages with one answer where there are.
    #[inline]
    pub fn node_at(&self, thing: u32, space: u32, address: u64, time: u64) -> PageNode {
        let object = self.finder.spaces.things.get(thing);
        let space = if object.kind == ObjectKind::Shared { object.space } else { space };
        let page = address / self.finder.placements.page_bytes;
        self.blocks
            .page_node(space, page, time)
            .unwrap_or_else(|| self.page_node(thing, space, address, time))
    }

    /// Whether a row is a variable of the program, not memory that a runtime has for itself.
    pub fn is_variable(&self, row: u32) -> bool {
        self.rows.rows.get(row as usize).is_some_and(|row| match row.kind {
            ObjectKind::Static => true,
            ObjectKind::Heap | ObjectKind::SmallHeap => {
                row.site.is_some_and(|s| !self.sites.get(s).runtime)
                    && !row.chain.is_some_and(|chain| self.sites.is_of_runtime(chain))
            }
            _ => false,
        })
    }

    /// Node where a thread spent most of its samples; the assigned one on an assumed machine.
    pub fn node_of_user(&self, counters: &Counters, thread: u32) -> NodeIndex {
        if self.finder.nodes.assumed {
            return self.finder.nodes.of_thread(thread);
        }
        let by_node = &counters.threads[thread as usize].by_node;
        let most = by_node.iter().enumerate().max_by_key(|x| *x.1);
        most.filter(|x| *x.1 > 0).map_or(UNKNOWN, |x| x.0 as NodeIndex)
    }
}
