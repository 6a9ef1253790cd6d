//! Compiles the first process of the virtual machine (src/init/*.c), a static program.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    build_init();
}

fn build_init() {
    let manifest = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let directory = Path::new(&manifest).join("src/init");
    println!("cargo::rerun-if-changed={}", directory.display());
    let output = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("nearfar-init");
    // A program of its own: also beside a command that is linked with musl the system's compiler makes it.
    let target = env::var("TARGET").expect("cargo sets it").replace("-musl", "-gnu");
    let compiler = cc::Build::new().cargo_metadata(false).opt_level(2).target(&target).get_compiler();
    let status = compiler
        .to_command()
        // The guest has no libraries.
        .args(["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-static", "-s", "-fno-sanitize=all"])
        .args(["-Wall", "-Wextra", "-Werror"])
        .args(c_files(&directory))
        .arg("-o")
        .arg(&output)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!(
            "the C compiler could not build the virtual machine's init in {}: {status} (is there a static C \
             library? Debian has it in libc6-dev, Fedora in glibc-static)",
            directory.display()
        ),
        Err(error) => panic!("cannot run the C compiler {}: {error}", compiler.path().display()),
    }
}

fn c_files(directory: &Path) -> Vec<PathBuf> {
    let mut sources: Vec<_> = fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    sources.sort();
    sources
}
