//! The files of nearfar that `record --on` needs beside the command.

use crate::collect::inside;
use anyhow::anyhow;
use std::path::PathBuf;

/// What of nearfar runs in the virtual machine and in QEMU: files that are installed with the command.
#[derive(Clone, Debug)]
pub struct Parts {
    /// QEMU's plugin.
    pub plugin: PathBuf,
    /// What should be preloaded into QEMU with it.
    pub preload: Vec<PathBuf>,
    /// The recorder inside.
    pub recorder: PathBuf,
}

/// Finds them.
///
/// # Errors
/// If one that is needed is not installed.
pub fn parts() -> anyhow::Result<Parts> {
    let plugin = beside("libnearfar_qemu_plugin.so", "NEARFAR_PLUGIN").map_err(|tried| {
        anyhow!(
            "the virtual machine's plugin libnearfar_qemu_plugin.so is missing; looked for it at {tried}. \
             Type `nearfar doctor --install-plugin SOURCES` (the checkout that nearfar was built from), or name it in \
             NEARFAR_PLUGIN"
        )
    })?;
    let recorder = beside(inside::PROGRAM, "NEARFAR_INSIDE").map_err(|tried| {
        anyhow!(
            "the recorder that runs in the virtual machine, {}, is missing; looked for it at {tried}. nearfar's package and \
             `cargo install` install it with the command: copy it from there, or name it in NEARFAR_INSIDE",
            inside::PROGRAM
        )
    })?;
    let preload = beside("libnearfar_fma.so", "NEARFAR_FMA").into_iter().collect();
    Ok(Parts { plugin, preload, recorder })
}

/// A file that is installed with this binary: beside it, or where `variable` says.
fn beside(name: &str, variable: &str) -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os(variable).map(PathBuf::from) {
        return if path.is_file() { Ok(path) } else { Err(path.display().to_string()) };
    }
    let binary = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut tried = Vec::new();
    for directory in binary.ancestors().skip(1).take(2) {
        // target/debug, and for tests that run from target/debug/deps its parent.
        for path in [directory.join(name), directory.join("lib/nearfar").join(name)] {
            if path.is_file() {
                return Ok(path);
            }
            tried.push(path.display().to_string());
        }
    }
    Err(tried.join(", "))
}
