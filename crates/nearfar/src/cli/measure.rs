//! `nearfar measure`.

use super::MeasureArgs;
use crate::measure::{Wanted, measure};
use anyhow::{Context, Result};
use nearfar_model::report::measured::to_text;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Measures and prints.
pub fn run(args: &MeasureArgs) -> Result<ExitCode> {
    if let Some(file) = &args.output
        && file.exists()
    {
        anyhow::bail!("{} is there already; nothing is overwritten", file.display());
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
    let mut out = std::io::stdout().lock();
    if args.json {
        write!(out, "{}", measured.to_json())?;
    } else {
        let (width, color) = args.look.resolve();
        write!(out, "{}", to_text(&measured, width, color))?;
    }
    if let Some(file) = &args.output {
        crate::output::create(file, measured.into_machine(machine).to_toml().as_bytes())
            .with_context(|| format!("cannot write the machine file {}", file.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
