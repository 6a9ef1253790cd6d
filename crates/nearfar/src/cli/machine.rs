//! Which virtual machine: the flags that `record --on` and `topo --on` have in common.

use super::parse::parse_bytes;
use anyhow::{Context, Result};
use clap::Args;
use nearfar_machine::Machine;
use nearfar_machine::scale::{ScaleOptions, scale};

/// Flags of a machine that can be emulated on any host, for advice. A shape such as 2x2 can be, too, by assumed figures.
pub(super) const EMULATED: &str = "--on xeon-e5-2699v4-2s --cpus-per-node 4";

/// The machine, and how much of it should be there.
#[derive(Args)]
#[command(next_help_heading = "On a machine you do not have")]
pub(super) struct MachineArgs {
    /// Run on an emulated MACHINE: a machine file, the name of one that comes with nearfar, or a shape such as 2x4, whose
    /// figures are assumed
    #[arg(long, value_name = "MACHINE")]
    pub on: Option<String>,
    /// Scale the machine down to N cpus per node; caches and bandwidths that they share shrink with them
    #[arg(long, value_name = "N", requires = "on", value_parser = clap::value_parser!(u32).range(1..=4096))]
    cpus_per_node: Option<u32>,
    /// Keep the hardware threads of each core [default: one per core]
    #[arg(long, requires = "on")]
    smt: bool,
    /// Memory of each node (512M, 4G); the host must have that of all nodes together
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = parse_bytes, requires = "on")]
    pub memory_per_node: u64,
}

impl MachineArgs {
    /// The same as words, to be typed again.
    pub fn flags(&self) -> Vec<String> {
        let mut words: Vec<String> = self.on.iter().map(|name| format!("--on {name}")).collect();
        words.extend(self.cpus_per_node.map(|n| format!("--cpus-per-node {n}")));
        if self.smt {
            words.push("--smt".to_owned());
        }
        if self.memory_per_node != 1 << 30 {
            words.push(format!("--memory-per-node {}", self.memory_per_node));
        }
        words
    }

    /// The machine called `name`, scaled as it should be emulated.
    pub fn scaled(&self, name: &str, interleaved: bool) -> Result<Machine> {
        let whole =
            nearfar_host::discover::machine_with_figures(name).with_context(|| format!("--on {name}"))?;
        let wanted = ScaleOptions { cpus_per_node: self.cpus_per_node, smt: self.smt, interleaved };
        scale(&whole, &wanted).with_context(|| format!("--on {name}"))
    }
}
