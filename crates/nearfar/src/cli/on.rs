//! The virtual machine of `record --on`: its flags, and what they ask for.

use super::machine::MachineArgs;
use super::parse::*;
use clap::Args;
use nearfar_record::collect::on::OnOptions;

/// The virtual machine of `record --on`.
#[derive(Args)]
#[command(next_help_heading = "On a machine you do not have")]
pub(super) struct OnArgs {
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    /// The firmware spreads memory over all nodes, page by page ("NUMA off")
    #[arg(long, requires = "on")]
    interleaved: bool,
    /// Leave OpenMP threads unbound [default: OMP_PROC_BIND=close, OMP_PLACES=cores unless you set them]
    #[arg(long, requires = "on")]
    unbound: bool,
    /// Huge pages in the guest
    #[arg(long, value_name = "WHEN", default_value = "madvise", value_parser = parse_huge_pages, requires = "on")]
    thp: nearfar_guest::HugePages,
    /// Let the guest's kernel migrate pages to the cpus that use them (AutoNUMA)
    #[arg(long, requires = "on")]
    numa_balancing: bool,
    /// Simulate without a hardware prefetcher
    #[arg(long, requires = "on")]
    no_prefetch: bool,
    /// Place pages in another order in physical memory, a number for each order [default: 0, in the order of first use]. Which lines share
    /// a set of a cache depends on it: what differs between two orders is chance, not the program
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true, requires = "on")]
    frames: u32,
    /// Run the emulated cpus one at a time, each for about 10 µs of simulated time and always the one that is furthest behind: far lines of
    /// twenty runs differed by 0.2 % at most instead of 0.7 %, and a run takes 1 to 6 times as long
    #[arg(long, requires = "on")]
    in_turns: bool,
    /// DRAM lines per sample, for objects and source lines; the traffic itself is counted exactly
    #[arg(long, value_name = "LINES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000), requires = "on")]
    lines_per_sample: u32,
    /// Accesses per sample, with which the run is sampled as a processor and a clock would, to compare with its counts
    #[arg(long, value_name = "ACCESSES", hide = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000), requires = "on")]
    accesses_per_sample: Option<u32>,
    /// Keep what the program writes in the virtual machine: no file of this host changes but the recording
    #[arg(long, requires = "on")]
    read_only: bool,
    /// Stop the program after this time (90s, 5m, 1h) and report what is known by then
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "on")]
    budget: Option<std::time::Duration>,
}

impl OnArgs {
    /// The same as words, to be typed again.
    pub(super) fn flags(&self) -> String {
        let mut words = self.machine.flags();
        let mut add = |on: bool, word: &str| {
            if on {
                words.push(word.to_owned())
            }
        };
        add(self.interleaved, "--interleaved");
        add(self.unbound, "--unbound");
        add(self.thp != nearfar_guest::HugePages::Madvise, &format!("--thp {}", self.thp.text()));
        add(self.numa_balancing, "--numa-balancing");
        add(self.no_prefetch, "--no-prefetch");
        add(self.frames > 0, &format!("--frames {}", self.frames));
        add(self.in_turns, "--in-turns");
        add(self.read_only, "--read-only");
        words.join(" ")
    }
}

/// What is emulated.
pub(super) fn on_options(name: &str, args: &OnArgs, quiet: bool) -> anyhow::Result<OnOptions> {
    Ok(OnOptions {
        machine: args.machine.scaled(name, args.interleaved)?,
        interleaved: args.interleaved,
        unbound: args.unbound,
        huge_pages: args.thp,
        numa_balancing: args.numa_balancing,
        prefetch: !args.no_prefetch,
        frames: args.frames,
        turns: args.in_turns,
        windows: None,
        memory_per_node: args.machine.memory_per_node,
        lines_per_sample: args.lines_per_sample,
        accesses_per_sample: args.accesses_per_sample,
        read_only: args.read_only,
        budget: args.budget,
        quiet,
        cpus: None,
        policy: None,
        aside: None,
    })
}
