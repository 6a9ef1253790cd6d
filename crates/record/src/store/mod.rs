//! A recording on disk: a directory that grows as a journal and rests as Parquet.
//!
//! ```text
//! REC/meta.json                        what was recorded, on what, how it ended
//! REC/journal.nfj                      while recording, and after a crash
//! REC/run/rank=0/samples-0000.parquet  each table in segments, once finished; of a rank of a launch in
//!                                      REC/tables/
//! REC/guest/                           of a virtual machine: what it was, what its plugin counted;
//!                                      gone once finished
//! ```
//!
//! Nothing is ever overwritten: a recording's directory must not exist before,
//! and the journal is removed only after every segment has been synced.
//!
//! A recording may come from another user. It is opened once ([`dir`]), read without following links, and written to
//! only if it is our own; nothing else may enter one that we make.

pub mod dir;
pub mod finish;
mod killed;
pub mod merge;
mod meta;
pub mod open;
pub mod resolve;
mod segments;
pub mod write;

pub use finish::{Finished, finish, finish_with};
pub use open::read_meta;
pub use open::{
    Interrupted, OpenFailure, Stored, interrupted, is_running, meta_of, open, open_running, open_sharing,
};
pub use resolve::SharedFiles;
pub use write::{CreateError, Writer, reserve};

use bytes::Bytes;
use nearfar_analyze::Input;
use nearfar_recording::*;

/// The file inside a recording that says what it is.
pub const META: &str = "meta.json";
/// The file inside a recording that is written while the program runs.
pub const JOURNAL: &str = "journal.nfj";
/// The file that makes a directory a run of several ranks (`ranks`), and no recording.
pub const LAUNCH: &str = "launch.json";
/// What a virtual machine's run needs and leaves, until it is merged.
pub const GUEST: &str = "guest";
/// In it: the plugin's journal.
pub const COUNTED: &str = "simulated.journal";
/// In it: the options of the recorder inside, and the machine that is emulated.
pub const EMULATED: &str = "inside.json";
/// Where the tables of a recording are that stands alone.
const ALONE: &str = "run/rank=0";
/// Where they are of a rank, whose recording is itself in a directory `rank=R`: a query over all ranks takes the number
/// from there, and a second one would contradict it.
const OF_A_RANK: &str = "tables";

/// Where in a recording its tables are.
pub fn tables_of(meta: &Meta) -> &'static str {
    if meta.rank.is_some() { OF_A_RANK } else { ALONE }
}

/// Calls a macro with every table: field, type. The one list of all tables.
macro_rules! for_each_table {
    ($macro:ident) => {
        $macro! {
            processes: Processes,
            process_ends: ProcessEnds,
            threads: Threads,
            loops: Loops,
            loop_streams: LoopStreams,
            loop_operands: LoopOperands,
            progress: Progresses,
            excerpts: Excerpts,
            excerpt_blocks: ExcerptBlocks,
            samples: AccessSamples,
            faults: PageFaults,
            locations: Locations,
            modules: Modules,
            symbols: Symbols,
            chains: ChainFrames,
            objects: MemoryObjects,
            object_ends: ObjectEnds,
            allocation_groups: AllocationGroups,
            site_names: SiteNames,
            range_events: RangeEvents,
            page_nodes: PageNodes,
            mappings: Mappings,
            phases: Phases,
            phase_counts: PhaseCounts,
            phase_marks: PhaseMarks,
            metrics: Metrics,
            counters: Counters,
            cpu_epochs: CpuEpochs,
            epoch_traffic: EpochTraffics,
            page_traffic: PageTraffics,
            counted_windows: CountedWindows,
            losses: Losses,
        }
    };
}
pub(crate) use for_each_table;

/// Whether that is the table's name, or was in format 1.
fn is_named<T: Columns>(name: &str) -> bool {
    name == T::TABLE || Some(name) == T::FORMER
}

macro_rules! tables {
    ($($field:ident: $type:ident,)*) => {
        /// All tables of a recording, in memory.
        #[derive(Clone, Debug, Default)]
        #[allow(missing_docs)] // each field is the table of its name
        pub struct Tables { $(pub $field: $type,)* }

        impl Tables {
            /// Encodes all rows as journal frames and empties the tables.
            pub fn encode(&mut self, out: &mut Vec<u8>) {
                $(journal::encode(&mut self.$field, out);)*
            }

            /// Removes rows that no recorder writes; gives the tables that had some, and how many.
            pub fn keep_sound(&mut self) -> Vec<(&'static str, u64)> {
                use nearfar_recording::sound::Sound;
                [$((<$type as Columns>::TABLE, self.$field.keep_sound())),*]
                    .into_iter()
                    .filter(|&(_, removed)| removed > 0)
                    .collect()
            }

            /// The tables' names, in their order.
            pub const NAMES: &[&str] = &[$(<$type as Columns>::TABLE),*];

            /// Adds the rows of a Parquet file of the table of that name; of another name, none.
            ///
            /// # Errors
            /// If it is not a such file, or asks for more than a file of its size may.
            pub fn add_file(&mut self, table: &str, file: Bytes) -> Result<(), nearfar_parquet::StoreError> {
                match table {
                    $(name if is_named::<$type>(name) => self.$field.append(&mut nearfar_parquet::read(file)?),)*
                    _ => {}
                }
                Ok(())
            }

            /// Adds the rows of a journal frame; tables of a later version are skipped.
            ///
            /// # Errors
            /// If the frame's columns are not its table's.
            pub fn add(&mut self, frame: journal::Frame) -> Result<(), TableError> {
                match frame.table.as_str() {
                    $(name if is_named::<$type>(name) => journal::append_to(&mut self.$field, frame),)*
                    _ => Ok(()),
                }
            }
        }
    };
}
for_each_table!(tables);

impl Tables {
    /// What an analysis reads of them, and the samples, which it reads apart.
    pub fn into_input(self, meta: Meta) -> (Input, AccessSamples) {
        let input = Input {
            meta,
            processes: self.processes,
            process_ends: self.process_ends,
            threads: self.threads,
            loops: self.loops,
            loop_streams: self.loop_streams,
            loop_operands: self.loop_operands,
            progress: self.progress,
            excerpts: self.excerpts,
            excerpt_blocks: self.excerpt_blocks,
            faults: self.faults,
            locations: self.locations,
            modules: self.modules,
            symbols: self.symbols,
            chains: self.chains,
            objects: self.objects,
            object_ends: self.object_ends,
            allocation_groups: self.allocation_groups,
            site_names: self.site_names,
            range_events: self.range_events,
            page_nodes: self.page_nodes,
            mappings: self.mappings,
            phases: self.phases,
            phase_counts: self.phase_counts,
            phase_marks: self.phase_marks,
            metrics: self.metrics,
            counters: self.counters,
            cpu_epochs: self.cpu_epochs,
            epoch_traffic: self.epoch_traffic,
            page_traffic: self.page_traffic,
            counted_windows: self.counted_windows,
            losses: self.losses,
        };
        (input, self.samples)
    }
}
