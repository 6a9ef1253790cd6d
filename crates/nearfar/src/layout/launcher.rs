//! Which launcher is here.

use anyhow::{Result, bail};
use nearfar_host::target::find_program;
use nearfar_machine::launch::Launcher;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// Names of launchers, the first that is found is taken.
const NAMES: [&str; 3] = ["mpirun", "srun", "mpiexec"];

/// A launcher and what it is called here.
pub struct Chosen {
    /// Which.
    pub launcher: Launcher,
    /// As it is typed.
    pub program: String,
    /// What should be known about the choice.
    pub note: Option<String>,
}

/// The launcher called `wanted`, or any. For a `dry_run` it need not be here.
///
/// # Errors
/// If it is not here, or none that is known.
pub fn choose(wanted: Option<&str>, dry_run: bool) -> Result<Chosen> {
    let here = |name: &str| find_program(OsStr::new(name)).is_ok();
    let name = wanted.or_else(|| NAMES.into_iter().find(|name| here(name)));
    let Some(name) = name.filter(|name| here(name)) else {
        let name = wanted.unwrap_or(NAMES[0]);
        if !dry_run {
            let package = match name {
                "srun" => "slurm-client, with Slurm running",
                "mpiexec" => "mpich",
                _ => "openmpi-bin",
            };
            bail!(
                "{name} is not here (looked for in PATH). Install it (Debian: {package}), load its module, choose \
                 another by --launcher, or add --dry-run to only see its line"
            );
        }
        let launcher = match name {
            "srun" => Launcher::Slurm,
            "mpiexec" => Launcher::Hydra,
            _ => Launcher::OpenMpi4,
        };
        let note = Some(match launcher {
            Launcher::OpenMpi4 => {
                "mpirun is not here: the line is Open MPI 4's; Open MPI 5 takes it too unless it \
                                   names a rankfile, whose numbers are others there"
                    .to_owned()
            }
            other => format!("{name} is not here: the line is that of {}", other.name()),
        });
        return Ok(Chosen { launcher, program: name.to_owned(), note });
    };
    let mut said = version(name);
    let mut program = name;
    // Where several are installed, mpiexec may be another's, and Hydra's has a second name.
    if name == "mpiexec" && Launcher::from_version(&said) != Some(Launcher::Hydra) && here("mpiexec.hydra") {
        program = "mpiexec.hydra";
        said = version(program);
    }
    let Some(launcher) = Launcher::from_version(&said) else {
        let first = said.lines().find(|l| !l.trim().is_empty()).unwrap_or("nothing").trim();
        bail!(
            "`{program} --version` says: {first}. Lines are known for Open MPI's mpirun, Slurm's srun and Hydra's \
             mpiexec (MPICH, not Intel's); choose one by --launcher"
        );
    };
    Ok(Chosen { launcher, program: program.to_owned(), note: None })
}

fn version(program: &str) -> String {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    output.map_or_else(
        |error| error.to_string(),
        |o| format!("{}{}", String::from_utf8_lossy(&o.stdout), String::from_utf8_lossy(&o.stderr)),
    )
}
