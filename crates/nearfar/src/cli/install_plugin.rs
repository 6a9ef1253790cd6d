//! `doctor --install-plugin`: what `cargo install` leaves out. It installs commands, and the virtual machine's plugin is a
//! library that QEMU loads.

use anyhow::{Context, Result, bail};
use nearfar_host::output::replace;
use nearfar_host::target::find_program;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PACKAGE: &str = "nearfar-qemu-plugin";
const FILE: &str = "libnearfar_qemu_plugin.so";

/// Builds the plugin in a checkout of the sources, and puts it where this command looks for it.
pub(super) fn install(checkout: &Path) -> Result<()> {
    let manifest = checkout.join("Cargo.toml");
    if !checkout.join("crates/qemu-plugin/Cargo.toml").is_file() || !manifest.is_file() {
        bail!(
            "{} has no sources of nearfar (no crates/qemu-plugin); name the directory that they were cloned to, where \
             `cargo install --path crates/nearfar` was typed",
            checkout.display()
        );
    }
    let (built, version) = build(&manifest)?;
    // Both read the other's files: they are one version's.
    if version != env!("CARGO_PKG_VERSION") {
        bail!(
            "the sources in {} are of version {version}, this command is of {}; install both from there: cargo install --path \
             {}",
            checkout.display(),
            env!("CARGO_PKG_VERSION"),
            checkout.join("crates/nearfar").display()
        );
    }
    let bytes = std::fs::read(&built).with_context(|| built.display().to_string())?;
    let place = place(&std::env::current_exe().context("cannot find this command's own file")?);
    let put = replace(&place, &bytes)
        .and_then(|()| std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)));
    put.with_context(|| {
        format!(
            "{}; if it belongs to root, run this as root, or set NEARFAR_PLUGIN={}",
            place.display(),
            built.display()
        )
    })?;
    nearfar_host::say!("nearfar: the virtual machine's plugin is {}", place.display());
    Ok(())
}

/// The plugin's file and version, as cargo names them.
fn build(manifest: &Path) -> Result<(PathBuf, String)> {
    let cargo = find_program("cargo".as_ref()).context("cargo builds the plugin")?;
    let run = Command::new(cargo)
        .args(["build", "--release", "--locked", "--package", PACKAGE])
        .arg("--message-format=json-render-diagnostics")
        .arg("--manifest-path")
        .arg(manifest)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo cannot be run")?;
    if !run.status.success() {
        bail!("cargo could not build the plugin ({})", run.status);
    }
    let text = String::from_utf8_lossy(&run.stdout);
    let built = text.lines().filter_map(artifact).next_back();
    built.with_context(|| format!("cargo built the plugin, but named no {FILE}"))
}

/// File and version in a line of cargo's, if it is of the plugin.
fn artifact(line: &str) -> Option<(PathBuf, String)> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let files = message["filenames"].as_array()?;
    let file = files.iter().filter_map(|f| f.as_str()).find(|f| Path::new(f).ends_with(FILE))?;
    // `path+file:///src/crates/qemu-plugin#nearfar-qemu-plugin@0.1.0`; `#0.1.0` where the folder has the package's name.
    let id = message["package_id"].as_str()?;
    let version = id.rsplit(['#', '@']).next()?;
    Some((PathBuf::from(file), version.to_owned()))
}

/// `../lib/nearfar` of a package, if it is there; else beside the command.
fn place(command: &Path) -> PathBuf {
    let library = command.parent().and_then(Path::parent).map(|prefix| prefix.join("lib/nearfar"));
    library.filter(|l| l.is_dir()).map_or_else(|| command.with_file_name(FILE), |l| l.join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_names_the_plugin_and_its_version() {
        let line = r#"{"reason":"compiler-artifact","package_id":"path+file:///s/crates/qemu-plugin#nearfar-qemu-plugin@0.1.0","filenames":["/t/release/libnearfar_qemu_plugin.so"]}"#;
        let found = Some((PathBuf::from("/t/release/libnearfar_qemu_plugin.so"), "0.1.0".to_owned()));
        assert_eq!(artifact(line), found);
        assert_eq!(artifact(&line.replace("libnearfar_qemu_plugin.so", "libnearfar_simulate.rlib")), None);
        assert_eq!(artifact("warning: not JSON"), None);
    }
}
