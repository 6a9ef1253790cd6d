//! Parts of the program that it names, and what it counts itself.

use super::codes::{PhaseEnd, PhaseSource};
use crate::column::Text;
use crate::table;

table! {
    /// A named phase on a thread, or the region of interest (name empty), which is the process's.
    Phase / Phases = "phases" {
        /// Which thread.
        thread: u32,
        /// Name given by the program.
        name: String,
        /// Begin, ns.
        begin_ns: u64,
        /// End, ns; u64::MAX if it never ended.
        end_ns: u64,
        /// Row id; u32::MAX in older recordings and for the region of interest.
        id: u32 = crate::NONE,
        /// The phase of the same thread that it is in; u32::MAX if in none.
        parent: u32 = crate::NONE,
        /// How it ended: a `PhaseEnd`.
        how: u8 = 0,
        /// Whose word it is: a `PhaseSource`.
        source: u8 = 0,
        /// The call that began it (a location); u32::MAX if unknown.
        begin_at: u32 = crate::NONE,
        /// The call that ended it, which may be that of an outer phase; u32::MAX if unknown.
        end_at: u32 = crate::NONE,
        /// The beginning's file and line as the program gave them; empty if it gave none.
        begin_place: Text = Text::default(),
        /// The same of the end.
        end_place: Text = Text::default(),
    }
}

impl Phase {
    /// A phase of which only this is known, as of the region of interest and of older recordings.
    pub fn plain(thread: u32, name: String, begin_ns: u64, end_ns: u64) -> Phase {
        let (id, parent, begin_at, end_at) = (crate::NONE, crate::NONE, crate::NONE, crate::NONE);
        let (begin_place, end_place) = (Text::default(), Text::default());
        Phase {
            thread,
            name,
            begin_ns,
            end_ns,
            id,
            parent,
            how: PhaseEnd::Untold as u8,
            source: PhaseSource::Program as u8,
            begin_at,
            end_at,
            begin_place,
            end_place,
        }
    }
}

table! {
    /// Phases that were not recorded one by one, because their path was taken too often, or values of a metric.
    PhaseCount / PhaseCounts = "phase_counts", added {
        /// When it was written, ns.
        time_ns: u64,
        /// Which thread.
        thread: u32,
        /// Names from the outermost phase on, with the character U+001F between them.
        path: String,
        /// Whose word it is: a `PhaseSource`.
        source: u8,
        /// 0: phases; 1: values of the metric that is the last name.
        metric: u8,
        /// How many.
        calls: u64,
        /// Their time in all, those inside them included, ns; 0 for a metric.
        inclusive_ns: u64,
        /// Sum of the metric's values; else 0.
        sum: f64,
        /// The least of them.
        least: f64,
        /// The most of them.
        most: f64,
    }
}

table! {
    /// What time it was by the virtual machine's own clock when a phase began or ended.
    PhaseMark / PhaseMarks = "phase_marks", added {
        /// When, ns: `begin_ns` or `end_ns` of the phase.
        time_ns: u64,
        /// Which thread.
        thread: u32,
        /// Simulated time of the cpu that it ran on, ns.
        simulated_ns: u64,
    }
}

table! {
    /// A value that the program gave: `nearfar_metric`.
    Metric / Metrics = "metrics", added {
        /// When, ns.
        time_ns: u64,
        /// Which thread.
        thread: u32,
        /// Its name.
        name: String,
        /// The value.
        value: f64,
    }
}
