//! A kernel from Debian's archive into the cache: downloaded and unpacked, not installed.

use super::error::GuestError;
use super::{Progress, bzimage, cache, modules, process};
use nearfar_host::input;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Downloads the package on which `linux-image-amd64` depends; the directory that it became.
pub(super) fn by_apt(cache: &Path, progress: &mut dyn FnMut(Progress)) -> Result<PathBuf, GuestError> {
    let said = run(Command::new("apt-cache").args(["depends", "linux-image-amd64"]))?;
    // "  Depends: linux-image-6.1.0-56-amd64", and variants with alternatives before it.
    let package = said
        .lines()
        .filter_map(|line| line.trim().trim_start_matches('|').strip_prefix("Depends: "))
        .find(|name| is_generic(name))
        .ok_or_else(|| GuestError::Tool {
            command: "apt-cache depends linux-image-amd64".into(),
            why: "it names no package linux-image-VERSION-amd64 (type: sudo apt-get update; this works with \
                  Debian's archive)"
                .into(),
        })?
        .to_owned();
    let scratch = cache::Scratch::new(cache, "fetch")?;
    progress(Progress::Downloading { package: package.clone() });
    run(Command::new("apt-get").args(["download", &package]).current_dir(scratch.path()))?;
    let deb = fs::read_dir(scratch.path())
        .map_err(GuestError::host("cannot read the download"))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|e| e == "deb"))
        .ok_or_else(|| GuestError::Tool {
            command: format!("apt-get download {package}"),
            why: "it brought no .deb".into(),
        })?;
    from_package(cache, &deb, progress)
}

/// Unpacks what the guest needs of a package; the directory that it became.
pub(super) fn from_package(
    cache: &Path,
    deb: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<PathBuf, GuestError> {
    let name = deb.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // linux-image-6.1.0-56-amd64_6.1.192-2_amd64.deb: the same release is rebuilt at times.
    let target = cache.join("kernels").join(name.trim_end_matches(".deb"));
    // An earlier version may have kept fewer modules.
    let whole =
        |target: &Path| target.join("vmlinuz").is_file() && modules::load(&target.join("modules")).is_ok();
    if whole(&target) {
        return Ok(target);
    }
    let unfit = |why: String| GuestError::NoKernel { tried: format!("{name}: {why}") };
    // dpkg-deb would wait for what comes out of a FIFO.
    input::open(deb).map_err(|why| unfit(why.to_string()))?;
    progress(Progress::Unpacking { package: name.clone() });
    let scratch = cache::Scratch::new(cache, "unpack")?;
    let tree = scratch.path().join("tree");
    run(Command::new("dpkg-deb").arg("-x").arg(deb).arg(&tree))?;
    let boot = fs::read_dir(tree.join("boot")).map_err(|_| unfit("it has no kernel".into()))?;
    let image = boot
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("vmlinuz")))
        .ok_or_else(|| unfit("it has no kernel".into()))?;
    let release = bzimage::release(&image).map_err(unfit)?;
    // Since Debian 13 below usr.
    let all = ["lib/modules", "usr/lib/modules"]
        .map(|place| tree.join(place).join(&release))
        .into_iter()
        .find(|place| place.is_dir())
        .ok_or_else(|| unfit(format!("it has no modules for {release}")))?;
    let wanted = modules::load(&all).map_err(unfit)?;
    let result = scratch.path().join("kernel");
    let failed = || GuestError::host(format!("cannot write below {}", cache.display()));
    fs::create_dir_all(result.join("modules")).map_err(failed())?;
    for module in &wanted {
        fs::write(result.join(format!("modules/{}.ko", module.name)), &module.bytes).map_err(failed())?;
    }
    let _ = fs::copy(all.join("modules.builtin"), result.join("modules/modules.builtin"));
    fs::copy(&image, result.join("vmlinuz")).map_err(failed())?;
    fs::create_dir_all(cache.join("kernels")).map_err(failed())?;
    // Machines that run keep their open files.
    if target.exists() && !whole(&target) {
        let _ = fs::rename(&target, scratch.path().join("old"));
    }
    match fs::rename(&result, &target) {
        Ok(()) => Ok(target),
        // Another process was faster, with the same files.
        Err(_) if whole(&target) => Ok(target),
        Err(error) => Err(failed()(error)),
    }
}

/// `linux-image-6.1.0-56-amd64`, not `linux-image-6.1.0-56-cloud-amd64` or `-rt-amd64`.
fn is_generic(package: &str) -> bool {
    package
        .strip_prefix("linux-image-")
        .and_then(|rest| rest.strip_suffix("-amd64"))
        .is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '-' | '+')))
        || package.strip_prefix("linux-image-").is_some_and(|rest| {
            // 6.12.43+deb13-amd64
            rest.ends_with("-amd64")
                && rest.contains("+deb")
                && !rest.contains("cloud")
                && !rest.contains("-rt")
        })
}

fn run(command: &mut Command) -> Result<String, GuestError> {
    let shown = format!("{command:?}").replace('"', "");
    let failed = |why: String| GuestError::Tool { command: shown.clone(), why };
    process::dies_with_us(command, Vec::new());
    let output = command.stdin(Stdio::null()).env("LC_ALL", "C").output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(said.trim().lines().last().unwrap_or("it failed without a word").to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::is_generic;

    #[test]
    fn only_generic_kernels_are_taken() {
        for name in ["linux-image-6.1.0-56-amd64", "linux-image-6.12.43+deb13-amd64"] {
            assert!(is_generic(name), "{name}");
        }
        for name in [
            "linux-image-6.1.0-56-cloud-amd64",
            "linux-image-6.1.0-56-rt-amd64",
            "linux-image-6.12.43+deb13-cloud-amd64",
            "linux-image-amd64",
            "linux-image-6.1.0-56-amd64-unsigned",
        ] {
            assert!(!is_generic(name), "{name}");
        }
    }
}
