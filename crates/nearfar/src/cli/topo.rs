//! `nearfar topo`.

use super::TopoArgs;
use crate::discover;
use crate::guest::{GuestOptions, Job, Progress, Setup, Shape, Stream};
use anyhow::{Context, Result};
use nearfar_machine::topology::{Topology, judge};
use nearfar_report::topology::{to_numactl, to_svg, to_text};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Reads the topology and writes it in the form that was asked for.
pub fn run(args: &TopoArgs) -> Result<ExitCode> {
    if let Some(name) = &args.on.on {
        return inside(name, args);
    }
    if let Some(cpus) = &args.on_cpus {
        crate::host::target::all_stay_on(cpus).context("cannot run where programs run")?;
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
    let mut say = |progress: Progress| crate::say!("nearfar: {progress}");
    let snapshot = Setup::find(&mut say)?.ensure_snapshot(&shape, &mut say)?;
    let own_cpus = shape.machine_cpus();
    crate::say!(
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
