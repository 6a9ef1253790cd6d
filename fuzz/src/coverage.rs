//! Which files of the corpus reach something that the others do not; `fuzz/minimise` builds and runs it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

// First and end of the counters that `-C instrument-coverage` adds to code. The linker defines such symbols for each section.
unsafe extern "C" {
    #[link_name = "__start___llvm_prf_cnts"]
    static mut FIRST: u64;
    #[link_name = "__stop___llvm_prf_cnts"]
    static mut END: u64;
}

/// The regions of code that a file reaches.
fn reached(target: fn(&[u8]), bytes: &[u8]) -> BTreeSet<usize> {
    // SAFETY: one thread; the section is an array of u64, which only compiled-in increments touch otherwise.
    let counters = unsafe {
        let (first, end) = (&raw mut FIRST, &raw mut END);
        std::slice::from_raw_parts_mut(first, end.offset_from(first) as usize)
    };
    counters.fill(0);
    target(bytes);
    (0..counters.len()).filter(|&i| counters[i] > 0).collect()
}

/// Files with a name were put there by hand: seeds, and what once broke nearfar. The fuzzer names its own by their hash.
fn is_found(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or("");
    name.len() == 40 && name.bytes().all(|b| b.is_ascii_hexdigit())
}

fn minimise(name: &str, target: fn(&[u8]), remove: bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let mut files: Vec<(PathBuf, u64, BTreeSet<usize>)> = files
        .into_iter()
        .map(|file| {
            let bytes = fs::read(&file).unwrap();
            // The first run also reaches what is done once in a process, which belongs to no file.
            reached(target, &bytes);
            let reached = reached(target, &bytes);
            (file, bytes.len() as u64, reached)
        })
        .collect();
    let (count, all) = (files.len(), files.iter().flat_map(|f| &f.2).collect::<BTreeSet<_>>().len());
    let mut kept = 0;
    let mut seen = BTreeSet::new();
    // Those with a name stay; then always the file that reaches most that is new, of several the smallest.
    files.sort_by_key(|(file, ..)| is_found(file));
    while !files.is_empty() {
        let new = |f: &(PathBuf, u64, BTreeSet<usize>)| f.2.difference(&seen).count();
        let next = match files.iter().position(|f| !is_found(&f.0)) {
            Some(named) => named,
            None => {
                (0..files.len()).max_by_key(|&i| (new(&files[i]), std::cmp::Reverse(files[i].1))).unwrap()
            }
        };
        if is_found(&files[next].0) && new(&files[next]) == 0 {
            break;
        }
        seen.extend(files.remove(next).2);
        kept += 1;
    }
    println!("{name:<12} {count:>4} files reach {all:>5} regions, {kept:>3} of them {:>5}", seen.len());
    if remove {
        files.iter().for_each(|f| fs::remove_file(&f.0).unwrap());
    }
}

fn main() {
    let remove = std::env::args().nth(1).as_deref() == Some("--remove");
    macro_rules! targets {
        ($($name:ident,)*) => {$( minimise(stringify!($name), nearfar_fuzz::$name, remove); )*};
    }
    targets! { journal, table, meta, machine, placement, topology, decoder, names, dwarf, perf_data, foreign_text, }
}
