//! Compiles what the recorder preloads: the agent (agent/*.c), a shared object.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    build_agent();
}

fn build_agent() {
    let manifest = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let agent = Path::new(&manifest).join("../../agent");
    println!("cargo::rerun-if-changed={}", agent.display());
    let output = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("nearfar-agent.so");

    let sources = c_files(&agent);
    // It uses no C library: also beside a command that is linked with musl the system's compiler makes it.
    let target = env::var("TARGET").expect("cargo sets it").replace("-musl", "-gnu");
    let compiler = cc::Build::new().cargo_metadata(false).opt_level(2).target(&target).get_compiler();
    let status = compiler
        .to_command()
        .args(["-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden"])
        // Each recording reads it and compares it; with debug information it has seven times the bytes.
        .arg("-g0")
        // No library and none of the compiler's own references to one: agent/system.h says why.
        .args(["-nostdlib", "-ffreestanding", "-fno-stack-protector", "-U_FORTIFY_SOURCE"])
        .args(["-fno-tree-loop-distribute-patterns"])
        // The program's sanitizer has no place in it, nor the fuzzer's.
        .arg("-fno-sanitize=all")
        // A hook finds its caller's stack pointer through its own frame pointer.
        .args(["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"])
        // Our malloc is not the compiler's: no calls of it may be invented or removed.
        .args(["-fno-builtin-malloc", "-fno-builtin-calloc", "-fno-builtin-realloc", "-fno-builtin-free"])
        // Atomics that ask for the processor's kind at run time ask the C library.
        .args(target.starts_with("aarch64").then_some("-mno-outline-atomics"))
        .args(["-Wall", "-Wextra", "-Werror"])
        .args(&sources)
        .arg("-Wl,-z,defs")
        .arg("-o")
        .arg(&output)
        // Of the compiler itself, linked in: division of 128 bits.
        .arg("-lgcc")
        .status();
    match status {
        Ok(status) if status.success() => name(&output),
        Ok(status) => panic!("the C compiler could not build the agent in {}: {status}", agent.display()),
        Err(error) => panic!(
            "cannot run the C compiler {}: {error}; a C compiler is needed to build nearfar",
            compiler.path().display()
        ),
    }
}

/// The number in the name of the directory that it is installed in. Made here: in an emulated machine, a recorder
/// without optimisation would take 70 ms for it in each recording.
fn name(agent: &Path) {
    let mut hasher = DefaultHasher::new();
    fs::read(agent).expect("the compiler wrote it").hash(&mut hasher);
    println!("cargo::rustc-env=NEARFAR_AGENT_NUMBER={:016x}", hasher.finish());
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
