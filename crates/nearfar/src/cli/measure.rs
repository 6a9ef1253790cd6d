//! `nearfar measure`.

use super::MeasureArgs;
use crate::measure::{Wanted, measure};
use anyhow::Result;
use nearfar_report::measured::to_text;
use std::io::IsTerminal;
use std::process::ExitCode;

/// Measures and prints.
pub fn run(args: &MeasureArgs) -> Result<ExitCode> {
    if let Some(file) = &args.output {
        super::file::may_write(file, args.force.force)?;
    }
    let wanted = Wanted { part: args.what, quick: args.quick, array_bytes: args.array };
    let terminal = std::io::stderr().is_terminal();
    let mut say = |what: &str| {
        if terminal {
            // Over the last line, of which nothing is left.
            crate::out::progress(&format!("nearfar: {what}"));
        }
    };
    let (machine, measured) = measure(&wanted, &mut say)?;
    if terminal {
        crate::out::progress("");
    }
    if args.json {
        super::show::page(&measured.to_json())?;
    } else {
        let (width, color) = args.look.resolve();
        super::show::page(&to_text(&measured, width, color))?;
    }
    if let Some(file) = &args.output {
        super::file::write(file, measured.into_machine(machine).to_toml(), args.force.force)?;
    }
    Ok(ExitCode::SUCCESS)
}
