//! `nearfar topo`.

use super::{file, look, machine};
use anyhow::{Context, Result};
use clap::Args;
use nearfar_guest::{GuestOptions, Job, Progress, Setup, Shape, Stream};
use nearfar_host::discover;
use nearfar_machine::topology::{Topology, judge};
use nearfar_report::topology::{to_numactl, to_svg, to_text};
use std::ffi::OsString;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show the machine: packages, nodes, caches, memory, distances, devices, and what you may use of it
///
/// What is unknown is called unknown (null in JSON). `Mind` at the end says what is wrong or easily
/// misread: a cpuset with its memory elsewhere, distances that were not measured, GPU memory among the nodes.
/// Memory modules and hardware prefetchers are only root's to read.
#[derive(Args)]
#[command(after_help = TOPO_EXAMPLES)]
pub(super) struct TopoArgs {
    /// Write JSON
    #[arg(long, conflicts_with_all = ["numactl", "svg", "capture"])]
    json: bool,
    /// Write what `numactl -H` would
    #[arg(long, conflicts_with_all = ["svg", "capture"])]
    numactl: bool,
    /// Draw a picture for a slide and write it to FILE, `-` for standard output
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the files that all of this is read from to FILE, `-` for standard output: a tar archive, compressed by gzip,
    /// that `--from` reads on any machine; for a bug report
    #[arg(long, value_name = "FILE", conflicts_with_all = ["svg", "machine", "from"])]
    capture: Option<PathBuf>,
    #[command(flatten)]
    force: file::Force,
    /// Read a captured machine: an archive of `--capture` or of hwloc-gather-topology, or a folder with copies of its
    /// sys/ and proc/
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["machine", "on"])]
    from: Option<PathBuf>,
    /// Show a described machine: a machine file, the name of one that comes with nearfar, or a shape such as 2x22
    #[arg(long = "as", alias = "machine", value_name = "MACHINE", conflicts_with = "on")]
    machine: Option<String>,
    #[command(flatten)]
    on: machine::MachineArgs,
    /// Inside the virtual machine: the cpus on which programs run there
    #[arg(long, value_name = "CPUS", hide = true)]
    on_cpus: Option<nearfar_machine::cpulist::CpuList>,
    #[command(flatten)]
    look: look::Look,
}

const TOPO_EXAMPLES: &str = "Examples:
  nearfar topo                              this machine, as a picture of text
  nearfar topo --svg machine.svg            the same for a slide
  nearfar topo --as epyc-9654-2s-nps4       a machine that you do not have
  nearfar topo --on 4x2                     one that is emulated, as its Linux kernel sees it
  nearfar topo --capture machine.tar.gz     what a bug report about it needs
  nearfar topo --from machine.tar.gz        that machine, read anywhere
  nearfar topo --json | jq '.nodes[] | {id, cpus, memory_kb}'

A captured machine has the files that nearfar reads and no others (`tar tzf` lists them); the firmware's table of memory \
modules is left out, because it has serial numbers. hwloc-gather-topology writes more.
";

/// Reads the topology and writes it in the form that was asked for.
pub fn run(args: &TopoArgs) -> Result<ExitCode> {
    if let Some(name) = &args.on.on {
        return inside(name, args);
    }
    if let Some(cpus) = &args.on_cpus {
        nearfar_host::target::all_stay_on(cpus).context("cannot run where programs run")?;
    }
    if let Some(file) = &args.capture {
        super::file::may_write(file, args.force.force)?;
        super::file::write(file, discover::capture(Path::new("/"))?, args.force.force)?;
        return Ok(ExitCode::SUCCESS);
    }
    let topology = read(args)?;
    if let Some(file) = &args.svg {
        super::file::write(file, to_svg(&topology), args.force.force)?;
    } else if args.json {
        super::show::page(&topology.to_json())?;
    } else if args.numactl {
        super::show::page(&to_numactl(&topology))?;
    } else {
        let (width, color) = args.look.resolve();
        super::show::page(&to_text(&topology, width, color))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(args: &TopoArgs) -> Result<Topology> {
    let here = Path::new("/");
    match (&args.machine, &args.from) {
        (Some(argument), _) => {
            let machine = discover::machine_from_argument(argument)?;
            let source = machine.figures.topology.as_ref().map_or("its description", |p| p.source.as_str());
            Ok(judge(Topology::from_machine(&machine, source)))
        }
        (None, Some(from)) if from.is_dir() => discover::topology(from).with_context(|| {
            format!("{} holds no captured machine; give a folder with sys/ in it", from.display())
        }),
        (None, Some(from)) => discover::topology_of_archive(from).with_context(|| {
            format!(
                "{} is not a captured machine; give a tar archive or a folder with sys/ in it",
                from.display()
            )
        }),
        (None, None) => match &args.on_cpus {
            // numactl in there shows the recorder's cpu, too.
            Some(cpus) if !args.numactl => discover::topology_of_cpus(here, cpus),
            _ => discover::topology(here),
        },
    }
}

/// This program again, inside the virtual machine: what its kernel says, not what was asked of QEMU.
fn inside(name: &str, args: &TopoArgs) -> Result<ExitCode> {
    let machine = args.on.scaled(name, false)?;
    let memory_per_node = Some(args.on.memory_per_node);
    let shape = Shape::from_machine(&machine, &GuestOptions { memory_per_node })?;
    let mut say = |progress: Progress| nearfar_host::say!("nearfar: {progress}");
    let snapshot = Setup::find(&mut say)?.ensure_snapshot(&shape, &mut say)?;
    let own_cpus = shape.machine_cpus();
    nearfar_host::say!(
        "nearfar: the machine's cpus are {own_cpus}; cpu {}, which only the recorder uses, is in --numactl and --capture only; caches are those that QEMU shows, \
         `record --on` simulates those of the description",
        shape.housekeeping
    );
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let mut arguments: Vec<OsString> = vec![own.into(), "topo".into(), "--on-cpus".into(), own_cpus.into()];
    arguments.extend(args.look.flags().map(OsString::from));
    if args.json {
        arguments.push("--json".into());
    }
    if args.numactl {
        arguments.push("--numactl".into());
    }
    for (flag, file) in [("--svg", &args.svg), ("--capture", &args.capture)] {
        if let Some(file) = file {
            arguments.extend([flag.into(), file.into()]);
            if args.force.force {
                arguments.push("--force".into());
            }
        }
    }
    // Nothing of a terminal goes through: it is asked for width and colour here.
    snapshot.run(Job { stdin: Stream::Null, ..Job::new(arguments) })?.ending.pass_on()
}
