//! What a recording is asked for, and what comes of it.

use crate::collect::objects::ObjectPolicies;
use crate::store::CreateError;
use nearfar_guest::GuestError;
use nearfar_host::discover::pmu::MemoryWish;
use nearfar_host::policy::Policy;
use nearfar_host::target::{Ending, StartError, User};
use nearfar_machine::Machine;
use nearfar_machine::cpulist::CpuList;
use nearfar_recording::Rank;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Most bytes that can be asked for: 1 PiB, beyond any machine's memory, and its multiples by nodes and threads
/// still fit 64 bits.
pub const MOST_BYTES: u64 = 1 << 50;

/// How call chains are taken with samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CallGraph {
    /// None.
    None,
    /// By frame pointers: cheap, wrong where code was compiled without them.
    Fp,
    /// By .eh_frame from a copy of the stack: right, 8 KiB a sample.
    Dwarf,
}

/// What to record and where.
#[derive(Clone, Debug)]
pub struct Options {
    /// The recording; `None`: a free name in the current directory.
    pub output: Option<PathBuf>,
    /// Which rank of a launch this is: then `output` is the run that its recording is put into.
    pub rank: Option<Rank>,
    /// Samples per second of CPU time and thread.
    pub hz: f64,
    /// Allocations from this size on are recorded one by one, bytes.
    pub min_object: u64,
    /// Machine to judge by, as it was named and as it was then.
    pub wish: Option<(String, Machine)>,
    /// Call chains of samples.
    pub call_graph: CallGraph,
    /// Use the preload agent.
    pub agent: bool,
    /// Do not use perf events even if they work (to test the signal source).
    pub no_perf: bool,
    /// Sample memory accesses with the processor's own unit, if it has one; `None`: do not.
    pub memory: Option<MemoryWish>,
    /// Seconds between looks at nodes of pages.
    pub look_interval: f64,
    /// Most bytes of the recording while it grows.
    pub max_size: u64,
    /// Attached: end after this time.
    pub duration: Option<Duration>,
    /// Keep a line with time, samples, losses and size on the terminal, as long as nothing else writes there.
    pub progress: bool,
    /// Policies of single objects.
    pub objects: Option<ObjectPolicies>,
    /// Excerpts of the program that are counted, at most; `None`: none.
    pub excerpts: Option<usize>,
    /// Whom the program runs as, and whose the recording is; `None`: ours.
    pub user: Option<User>,
    /// Set where this recorder runs inside the virtual machine. Nothing is sampled then (the
    /// plugin does that) and the journal is left for the host to finish.
    pub inside_guest: Option<Inside>,
}

/// What the recorder inside the virtual machine gets from the one outside, which knows it sooner: emulated, each line
/// of code that runs the first time has to be translated. The file has the emulated machine besides (`store::EMULATED`).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Inside {
    /// The recording's directory, which the host has made.
    pub recording: PathBuf,
    /// Cpus that the program may use.
    pub cpus: CpuList,
    /// Where its memory goes, if not to the node of the first touch.
    pub policy: Option<Policy>,
    /// Policies of single objects.
    pub objects: Option<ObjectPolicies>,
    /// Nodes of the machine that is emulated.
    pub nodes: usize,
    /// Where the host has installed our library, or why it cannot be loaded into the program. `None`: the host has no place
    /// for it that the guest sees, and the guest installs it.
    pub agent: Result<Option<PathBuf>, String>,
    /// As in [`Options`].
    pub min_object: u64,
    /// As in [`Options`].
    pub look_interval: f64,
    /// As in [`Options`].
    pub max_size: u64,
    /// When the recording began: as in [`nearfar_recording::Meta`].
    pub started: String,
    /// How it is emulated: threads, pages, prefetcher; for the report.
    pub how: String,
    /// Process id of the recorder outside, and its start time: as in [`nearfar_recording::Meta`].
    pub recorder: (u32, u64),
}

impl Inside {
    /// What this asks the recorder for.
    pub fn options(self) -> Options {
        Options {
            output: None,
            rank: None,
            hz: 0.0,
            min_object: self.min_object,
            wish: None,
            call_graph: CallGraph::None,
            agent: true,
            no_perf: false,
            memory: None,
            look_interval: self.look_interval,
            max_size: self.max_size,
            duration: None,
            progress: false,
            objects: self.objects.clone(),
            excerpts: None,
            user: None,
            inside_guest: Some(self),
        }
    }
}

/// What is recorded.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A command to start.
    Command(Vec<OsString>),
    /// Running processes, at least one.
    Processes(Vec<u32>),
    /// Every process of this machine, those that start meanwhile included.
    Everything,
}

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The program could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The recording could not be begun.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// No such process.
    #[error("process {0} does not exist (see `ps -e`)")]
    NoProcess(u32),
    /// The process is another user's.
    #[error("process {pid} belongs to user {owner}: attach as that user, or with sudo")]
    NotYours {
        /// The process.
        pid: u32,
        /// Its user id.
        owner: u32,
    },
    /// Attaching needs perf events.
    #[error(
        "attaching to running processes needs perf events, and these do not work here: {0}. \
         `nearfar doctor` says what unlocks them; or start the program under `nearfar record -- command`."
    )]
    AttachWithoutPerf(String),
    /// Anything else.
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

impl RecordError {
    /// The signal that ended the preparations of a virtual machine, if that is why nothing was recorded.
    pub fn interrupted_by(&self) -> Option<i32> {
        match self {
            RecordError::Other(error) => match error.downcast_ref() {
                Some(&GuestError::Interrupted { signal }) => Some(signal),
                _ => None,
            },
            _ => None,
        }
    }
}

/// What came of it.
pub struct Outcome {
    /// The recording.
    pub directory: PathBuf,
    /// Which rank it is of.
    pub rank: Option<Rank>,
    /// How the program ended; `None` after attaching.
    pub ending: Option<Ending>,
    /// Lines for the user.
    pub summary: Vec<String>,
}
