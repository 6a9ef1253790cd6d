//! All commands with their flags, defined once: parser, help, man pages and completions come from here.

use super::{
    cache, check, cure, diff, doctor, export, exporter, file, fix_flags, import, layout_flags, list, measure,
    record, report_flags, reproduce, run, subject, top, topo, where_is,
};
use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;
use std::sync::LazyLock;

const EXAMPLES: &str = "Examples:
  nearfar record ./app --its-flags        run the program and record it
  nearfar record --on xeon-e5-2699v4-2s --cpus-per-node 4 ./app
                                          the same on an emulated machine: every access counted
  nearfar report                          where it touches far memory, who placed it, what to change
  nearfar report --as 4x16 --json         the same recording judged on a machine of 4 nodes
  nearfar show grid                       all of one object or function: who placed it, who uses it, what repairs it
  nearfar list                            the recordings of this directory
  nearfar cure ./app                      all of it: find, repair without a recompile, prove
  nearfar fix                             what repairs it without a recompile, as a placement file
  nearfar diff before.nearfar after.nearfar
                                          what a change brought: time, objects, nodes
  nearfar check ./app                     is NUMA hurting it? several placements, timed in random order
  nearfar where 1234                      where a running process's threads and pages are
  nearfar top                             the machine while it works: nodes, cores, processes
  nearfar topo                            the machine: nodes, cpus, memory, caches, distances
  nearfar doctor                          what works here, and what unlocks the rest";

/// Which memory accesses are near, which are far, why, and what to change.
#[derive(Parser)]
#[command(name = "nearfar", version, long_version = features(), after_help = EXAMPLES, max_term_width = 100)]
#[command(arg_required_else_help = true, subcommand_required = true)]
pub struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What `--version` says: this build, what it reads, and what it has. `-V` is the number alone.
fn features() -> &'static str {
    static SAID: LazyLock<String> = LazyLock::new(said_of_this_build);
    &SAID
}

fn said_of_this_build() -> String {
    use std::env::consts::ARCH;
    let libc = match (cfg!(target_env = "musl"), cfg!(target_feature = "crt-static")) {
        (true, _) => "static, musl",
        (false, true) => "static, glibc",
        (false, false) => "glibc",
    };
    let has = |there: bool| if there { "+" } else { "-" };
    let x86 = cfg!(target_arch = "x86_64");
    let shared = !cfg!(target_feature = "crt-static");
    let plugin = nearfar_record::collect::on::parts::parts().is_ok();
    format!(
        "{}\nbuilt for  {ARCH} Linux, {libc}{}\nreads      recordings up to format {}\nfeatures   +agent {}addresses \
         {}gpu {}emulator-plugin\n\nWhat works on this machine: nearfar doctor",
        env!("CARGO_PKG_VERSION"),
        if cfg!(debug_assertions) { ", debug" } else { "" },
        nearfar_recording::FORMAT_VERSION,
        has(x86),
        has(shared),
        has(plugin),
    )
}

#[derive(Subcommand)]
pub(super) enum Command {
    Record(record::RecordArgs),
    Report(report_flags::ReportArgs),
    Show(subject::ShowArgs),
    List(list::ListArgs),
    Diff(diff::DiffArgs),
    Export(export::ExportArgs),
    Fix(fix_flags::FixArgs),
    Cure(cure::CureArgs),
    Run(run::RunArgs),
    Check(check::CheckArgs),
    Layout(layout_flags::LayoutArgs),
    Where(where_is::WhereArgs),
    Topo(topo::TopoArgs),
    Top(top::TopArgs),
    Exporter(exporter::ExporterArgs),
    Measure(measure::MeasureArgs),
    Reproduce(reproduce::ReproduceArgs),
    Import(import::ImportArgs),
    Doctor(doctor::DoctorArgs),
    Cache(cache::CacheArgs),
    /// Keep what the recorder inherited to us open
    #[command(name = nearfar_host::holder::COMMAND, hide = true)]
    Hold,
    /// Print a shell's completions: nearfar completions bash > /etc/bash_completion.d/nearfar
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages to a directory
    Man {
        /// Where to
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        #[command(flatten)]
        force: file::Force,
    },
}

/// The command line as clap knows it.
pub fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    /// Whether the parser takes `value` for `arg`. What is missing beside it is another error, and comes later.
    fn takes(sub: &str, arg: &clap::Arg, value: &str) -> bool {
        let word = match (arg.get_long(), arg.get_short()) {
            (Some(long), _) => format!("--{long}={value}"),
            (None, Some(short)) => format!("-{short}{value}"),
            (None, None) => value.to_owned(),
        };
        let mut words = ["nearfar", sub, &word].map(std::ffi::OsString::from).to_vec();
        // As a user types it: after `top` or `where` a number is a value, and a word may be a program.
        if !value.starts_with(char::is_alphabetic) {
            words = super::super::words::separated(words, &command());
        }
        match command().try_get_matches_from(words) {
            Ok(_) => true,
            Err(error) => {
                use clap::error::ErrorKind::{InvalidValue, UnknownArgument, ValueValidation};
                !matches!(error.kind(), InvalidValue | UnknownArgument | ValueValidation)
            }
        }
    }

    #[test]
    fn every_number_of_every_flag_has_limits() {
        let absurd = [
            "1e308",
            "-1e308",
            "inf",
            "-inf",
            "nan",
            "1e19",
            "1e18",
            "-1",
            "4294967296",
            "18446744073709551615",
            "18446744073709551616",
            "340282366920938463463374607431768211456",
        ];
        let mut numbers = Vec::new();
        for sub in command().get_subcommands() {
            for arg in
                sub.get_arguments().filter(|a| a.get_action().takes_values() && a.get_id() != "command")
            {
                let name = format!("{} {}", sub.get_name(), arg.get_id());
                let sane = ["1", "2", "64", "100"].iter().any(|value| takes(sub.get_name(), arg, value));
                if !sane || takes(sub.get_name(), arg, "words") {
                    continue;
                }
                // Sizes may have more than 32 bits.
                let size = takes(sub.get_name(), arg, "1G");
                for value in absurd.iter().filter(|v| !size || **v != "4294967296") {
                    assert!(!takes(sub.get_name(), arg, value), "{name} takes {value}");
                }
                numbers.push(name);
            }
        }
        for known in [
            "record look_interval",
            "record max_size",
            "where pid",
            "top interval",
            "report width",
            "run skip",
        ] {
            assert!(numbers.iter().any(|n| n == known), "{known} is not among {numbers:?}");
        }
        assert!(numbers.len() > 40, "{numbers:?}");
    }
}
