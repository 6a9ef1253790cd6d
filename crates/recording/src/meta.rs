//! What a recording says about itself: meta.json.

use super::rank::Rank;
use super::survey::SampleSurvey;
use nearfar_machine::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A source of the ladder: where a number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// Every access on a virtual machine.
    Simulated,
    /// PMU samples with data source and latency.
    Hardware,
    /// perf clock samples, decoded.
    Clock,
    /// SIGPROF samples, decoded.
    Signal,
    /// First touches and nodes of pages.
    Pages,
}

/// One source as it worked, or did not, in a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SourceReport {
    /// Which source.
    #[serde(alias = "rung")]
    pub source: Source,
    /// Whether it produced anything.
    pub active: bool,
    /// If not active, why, and what unlocks it; if active, a remark or empty.
    pub why: String,
    /// Asked rate in Hz per thread; 0 where it has none.
    pub hz: f64,
}

/// meta.json of a recording. Unknown fields are kept out of the way; a newer
/// `format` is refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Meta {
    /// [`super::FORMAT_VERSION`] of the writer.
    pub format: u32,
    /// Version of nearfar that wrote it.
    pub nearfar: String,
    /// `open` while recording, `stopped` when the recorder ended in order, `closed` once finished.
    pub state: String,
    /// Process id of the recorder; with `recorder_start` it tells whether it still runs.
    pub recorder_pid: u32,
    /// Start time of the recorder's process, clock ticks after boot (/proc/PID/stat field 22).
    pub recorder_start: u64,
    /// The command line; empty when attached.
    pub command: Vec<String>,
    /// Working directory of the command.
    pub cwd: String,
    /// What it was imported from, in words; `null`: nearfar recorded it.
    #[serde(default)]
    pub imported: Option<String>,
    /// Which rank of a launch it is (`mpirun`, `srun`); `null`: none. The tables of a rank are in `tables/`.
    #[serde(default)]
    pub rank: Option<Rank>,
    /// Wall-clock start, RFC 3339 UTC; of an imported recording when it was imported.
    pub started: String,
    /// Name of the host that recorded; `null` if it has none, in imported and in older recordings.
    #[serde(default)]
    pub host: Option<String>,
    /// CLOCK_MONOTONIC at the start, ns.
    pub start_ns: u64,
    /// CLOCK_MONOTONIC at the end, ns; 0 while open.
    pub end_ns: u64,
    /// Exit status in words: `exit 0`, `signal 9 (SIGKILL)`; empty if unknown.
    pub exit: String,
    /// The machine it ran on.
    pub machine: Machine,
    /// What `record --as` asked for; `report --as` decides.
    pub wish: Option<String>,
    /// The machine of that name when it was recorded; `null` without a wish and in older recordings.
    #[serde(default)]
    pub wished_machine: Option<Machine>,
    /// Smallest allocation recorded one by one, bytes.
    pub min_object_bytes: u64,
    /// Base page size, bytes.
    pub page_bytes: u64,
    /// Folio sizes that anonymous memory may take here, bytes, ascending (from /sys/kernel/mm/transparent_hugepage).
    pub folio_bytes: Vec<u64>,
    /// numa_balancing of the kernel at the start: 0 off; −1 unknown.
    pub numa_balancing: i32,
    /// Whether the processor was asked to sample only slow accesses or only misses of caches: then what caches answered is not
    /// among its samples. True as well where that is unknown.
    #[serde(default)]
    pub hardware_filtered: bool,
    /// Whether the agent reported in from the target.
    pub agent: bool,
    /// If it did not, why; or what is missing without it.
    pub agent_why: String,
    /// Text of the placement file that it ran under; `null`: none.
    #[serde(default)]
    pub placement: Option<String>,
    /// What was placed by it, a line for each object and one for all.
    #[serde(default)]
    pub placed: Vec<String>,
    /// The sources and how they did.
    #[serde(alias = "rungs")]
    pub sources: Vec<SourceReport>,
    /// Which threads were sampled, how often and when; filled when the recording is finished.
    pub survey: Option<SampleSurvey>,
    /// CPU time of the recorder while the program ran, seconds; part of the perturbation.
    pub recorder_cpu_s: f64,
    /// CPU time of the target, seconds; 0 if unknown.
    pub target_cpu_s: f64,
    /// CPU time of the target in the kernel, seconds, part of `target_cpu_s`; −1 if unknown.
    #[serde(default = "unknown_seconds")]
    pub target_system_s: f64,
    /// Largest resident size that one of the target's processes had, bytes (ru_maxrss, with what it had of the recorder
    /// before it began); 0 if unknown.
    #[serde(default)]
    pub largest_process_bytes: u64,
    /// Fastest clock of a core that was seen when the recording began and ended, GHz: a chain of additions, one a cycle, was timed;
    /// `null` if unknown.
    #[serde(default)]
    pub core_ghz: Option<f64>,
    /// How many times longer than at `core_ghz`, with the core for itself, the same instructions took on the recorder's cpu while the
    /// program ran, in the mean: chains of additions and independent ones, the slower of both; `null` if unknown.
    #[serde(default)]
    pub core_slowdown: Option<f64>,
    /// What an addition to a word in memory took when the recording began or ended, whose line was the core's own, ns: the slowest
    /// of some forms of the address; `null` if unknown.
    #[serde(default)]
    pub in_place_ns: Option<f64>,
    /// Memory that the machine can give out as hugetlb pages, which `largest_process_bytes` leaves out, bytes: its pools
    /// with what they may grow by, the larger of begin and end; `null` if unknown.
    #[serde(default)]
    pub hugetlb_bytes: Option<u64>,
    /// Page faults of the target, the kernel's own on its memory included; 0 if unknown.
    #[serde(default)]
    pub target_faults: u64,
    /// Share of time stolen by the hypervisor while recording; −1 if unknown.
    pub steal_share: f64,
    /// CRC-32 (of zlib and Ethernet) of each file of the tables, by its name in run/rank=0; empty in older recordings.
    #[serde(default)]
    pub checksums: BTreeMap<String, u32>,
}

/// What stands before the checksum of meta.json itself, which is its last field: the CRC-32 of all bytes before this.
const CHECKSUM: &str = ",\n  \"checksum\": ";

impl Meta {
    /// Part of the target's CPU time that was in the kernel; `None` if it is not known.
    pub fn kernel_share(&self) -> Option<f64> {
        let known = self.target_cpu_s > 0.0 && self.target_system_s >= 0.0;
        known.then(|| self.target_system_s / self.target_cpu_s)
    }

    /// The bytes of meta.json.
    ///
    /// # Errors
    /// If a number is one that JSON does not have.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let json = serde_json::to_string_pretty(self)?;
        let text = json.strip_suffix("\n}").unwrap_or(&json);
        let sum = crc32fast::hash(text.as_bytes());
        Ok(format!("{text}{CHECKSUM}{sum}\n}}\n"))
    }
}

/// Whether the bytes of a meta.json are those that were written; `None` where that cannot be told, as of older recordings.
pub fn is_whole(json: &[u8]) -> Option<bool> {
    let at = json.windows(CHECKSUM.len()).rposition(|bytes| bytes == CHECKSUM.as_bytes())?;
    let rest = std::str::from_utf8(&json[at + CHECKSUM.len()..]).ok()?;
    let sum: u32 = rest.trim_end().strip_suffix('}')?.trim_end().parse().ok()?;
    Some(sum == crc32fast::hash(&json[..at]))
}

fn unknown_seconds() -> f64 {
    -1.0
}
