//! `nearfar topo`.

use super::TopoArgs;
use crate::discover;
use anyhow::{Context, Result};
use nearfar_model::report::topology::{to_numactl, to_svg, to_text};
use nearfar_model::topology::{Topology, judge};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Reads the topology and writes it in the form that was asked for.
pub fn run(args: &TopoArgs) -> Result<ExitCode> {
    let topology = read(args)?;
    let mut out = std::io::stdout().lock();
    if let Some(file) = &args.svg {
        std::fs::write(file, to_svg(&topology))
            .with_context(|| format!("cannot write the picture to {}", file.display()))?;
    } else if args.json {
        write!(out, "{}", topology.to_json())?;
    } else if args.numactl {
        write!(out, "{}", to_numactl(&topology))?;
    } else {
        let (width, color) = args.look.resolve();
        write!(out, "{}", to_text(&topology, width, color))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(args: &TopoArgs) -> Result<Topology> {
    match (&args.machine, &args.from) {
        (Some(argument), _) => {
            let machine = discover::machine_from_argument(argument)?;
            let source = machine.figures.topology.as_ref().map_or("its description", |p| p.source.as_str());
            Ok(judge(Topology::from_machine(&machine, source)))
        }
        (None, Some(folder)) => discover::topology(folder).with_context(|| {
            format!("{} holds no captured machine; give a folder with sys/ in it", folder.display())
        }),
        (None, None) => discover::topology(Path::new("/")),
    }
}
