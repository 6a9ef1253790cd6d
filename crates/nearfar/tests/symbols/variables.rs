//! Names of static variables, and of what calls allocate.

use crate::compiled::{C_SOURCE, CPP_SOURCE, FORTRAN_SOURCE, compile, hex, strip, tool};
use nearfar_host::symbols::{Module, NameSource, Received};
use std::path::Path;
use tempfile::TempDir;

/// What the innermost function of the program's own does with what the call allocates.
pub fn innermost(module: &Module, vaddr: u64) -> Option<Received> {
    module.received_at_call(vaddr).into_iter().next()
}

/// The first name, with its line.
fn named(module: &Module, vaddr: u64) -> Option<(u32, String)> {
    let received = module.received_at_call(vaddr).into_iter().find(|r| r.name.is_some())?;
    Some((module.frames(vaddr)[usize::from(received.depth)].line, received.name?))
}

/// The addresses of calls whose target's name contains `target`, in order.
fn calls(path: &Path, target: &str) -> Vec<u64> {
    let text = tool("objdump", &["-d", "--no-show-raw-insn", path.to_str().unwrap()]).unwrap();
    text.lines()
        .filter(|l| {
            (l.contains("call ") || l.contains("jmp "))
                && !l.contains('*')
                && l.contains(&format!("<{target}"))
                && !l.ends_with(">:")
        })
        .filter_map(|l| Some(hex(l.trim_start().split_once(':')?.0)))
        .collect()
}

/// What is declared beside a call on its line is not what the call is assigned to.
#[test]
fn without_the_source_an_array_of_numbers_receives_nothing_and_one_of_pointers_does() {
    const SOURCE: &str = "#include <stdlib.h>
static double *grid;
int main(void) {
    grid = malloc(1 << 20); unsigned long ids[4] = {0};
    double *rows[2] = {malloc(1 << 20), 0};
    return ids[1] == 3 || rows[1] || !grid;
}
";
    let dir = TempDir::new().unwrap();
    let Some(path) = compile(&dir, "gcc", "beside.c", SOURCE, &["-O0"]) else { return };
    let module = Module::open(&path).unwrap();
    let at = calls(&path, "malloc");
    let text: Vec<_> = at.iter().filter_map(|&call| named(&module, call)).collect();
    assert_eq!(text, [(4, "grid".to_owned()), (5, "rows".to_owned())]);
    std::fs::remove_file(dir.path().join("beside.c")).unwrap();
    let module = Module::open(&path).unwrap();
    let bare: Vec<_> = at.iter().filter_map(|&call| named(&module, call)).collect();
    assert_eq!(bare, [(5, "rows".to_owned())]);
}

#[test]
fn statics_agree_with_nm() {
    let dir = TempDir::new().unwrap();
    for path in [
        compile(&dir, "gcc", "a.c", C_SOURCE, &["-O2"]),
        compile(&dir, "g++", "b.cc", CPP_SOURCE, &["-O2", "-no-pie"]),
        compile(&dir, "gfortran", "f.f90", FORTRAN_SOURCE, &["-O2"]),
    ]
    .into_iter()
    .flatten()
    {
        let ours = Module::open(&path).unwrap().statics(256);
        let text = tool("nm", &["-S", path.to_str().unwrap()]).unwrap();
        for line in text.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [address, size, kind, name] = fields[..] else {
                continue;
            };
            if "bBdDrR".contains(kind) && hex(size) >= 256 {
                let found = ours.iter().find(|s| s.vaddr == hex(address) && s.bytes == hex(size));
                assert!(found.is_some(), "{name} of {}: {ours:?}", path.display());
            }
        }
    }
}

#[test]
fn statics_have_the_sources_names_and_places() {
    let dir = TempDir::new().unwrap();
    let c = compile(&dir, "gcc", "a.c", C_SOURCE, &["-O2"]);
    let cpp = compile(&dir, "g++", "b.cc", CPP_SOURCE, &["-O2"]);
    let fortran = compile(&dir, "gfortran", "f.f90", FORTRAN_SOURCE, &["-O2"]);
    for (path, expected) in [
        (c, &[("table", 4096, 5), ("global_array", 8000, 9)][..]),
        (cpp, &[("grid::cells", 32768, 6), ("main::counts", 1200, 33)]),
        (fortran, &[("grid::fixed", 8000, 3), ("common /blk/", 16400, 15)]),
    ] {
        let Some(path) = path else { continue };
        let statics = Module::open(&path).unwrap().statics(1000);
        for &(name, bytes, line) in expected {
            let found = statics.iter().find(|s| s.name == name);
            let found = found.unwrap_or_else(|| panic!("no {name}: {statics:?}"));
            assert_eq!((found.bytes, found.line), (bytes, line), "{found:?}");
            assert!(Path::new(&found.file).is_absolute(), "{found:?}");
        }
        // Without symbols the DWARF alone must do; without DWARF the symbols.
        for flag in ["--strip-debug", "--keep-section=.debug_*"] {
            let bare = Module::open(&strip(&path, &[flag])).unwrap().statics(1000);
            for &(name, bytes, _) in expected {
                let found = bare
                    .iter()
                    .any(|s| s.bytes == bytes && s.name.ends_with(name.rsplit("::").next().unwrap()));
                assert!(found, "{flag}: {name}: {bare:?}");
            }
        }
    }
}

#[test]
fn c_allocations_are_named() {
    let dir = TempDir::new().unwrap();
    for flags in [&["-O0"][..], &["-O2"]] {
        let Some(path) = compile(&dir, "gcc", "a.c", C_SOURCE, flags) else {
            return;
        };
        let module = Module::open(&path).unwrap();
        let names = |target: &str| -> Vec<_> {
            let mut names: Vec<_> = calls(&path, target)
                .iter()
                // The caller's side knows return addresses: any byte of the call will do.
                .filter_map(|&c| Some(named(&module, c + 4)?.1))
                .collect();
            names.sort();
            names
        };
        assert_eq!(names("malloc"), ["p", "prev", "q", "s->field"], "{flags:?}");
        assert_eq!(names("calloc"), ["a"]);
        assert_eq!(names("posix_memalign"), ["mem"]);
        let first = innermost(&module, calls(&path, "malloc")[0]).unwrap();
        assert_eq!(first.how, NameSource::Dwarf);
        // Without the source, the DWARF still names what is declared on the line.
        let source = dir.path().join("a.c");
        let hidden = dir.path().join("hidden");
        std::fs::rename(&source, &hidden).unwrap();
        let module = Module::open(&path).unwrap();
        let first = innermost(&module, calls(&path, "malloc")[0]).unwrap();
        assert_eq!((first.name.as_deref(), first.how), (Some("prev"), NameSource::Dwarf));
        assert_eq!(named(&module, calls(&path, "calloc")[0]), None);
        // A source newer than the binary is not believed.
        std::fs::copy(&hidden, &source).unwrap();
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
        let file = std::fs::File::options().append(true).open(&source).unwrap();
        file.set_modified(later).unwrap();
        let module = Module::open(&path).unwrap();
        assert_eq!(named(&module, calls(&path, "calloc")[0]), None);
        drop(file);
        std::fs::rename(&hidden, &source).unwrap();
    }
}

#[test]
fn cpp_allocations_are_named() {
    let dir = TempDir::new().unwrap();
    let Some(path) = compile(&dir, "g++", "b.cc", CPP_SOURCE, &["-O2"]) else {
        return;
    };
    let module = Module::open(&path).unwrap();
    let mut names: Vec<_> = calls(&path, "_Zn")
        .iter()
        .chain(&calls(&path, "malloc"))
        .filter_map(|&c| named(&module, c + 4))
        .map(|(line, name)| format!("{line}:{name}"))
        .collect();
    names.sort();
    names.dedup();
    eprintln!("{names:?}");
    for expected in
        ["11:this->data", "21:prev", "22:next", "22:other", "23:unique", "24:raw", "27:copy", "31:at_start"]
    {
        assert!(names.iter().any(|n| n == expected), "{expected}: {names:?}");
    }
}

#[test]
fn fortran_allocations_are_named() {
    let dir = TempDir::new().unwrap();
    for flags in [&["-O0", "-fopenmp"][..], &["-O2", "-fopenmp"]] {
        let Some(path) = compile(&dir, "gfortran", "f.f90", FORTRAN_SOURCE, flags) else {
            return;
        };
        let module = Module::open(&path).unwrap();
        let mut names: Vec<_> =
            calls(&path, "malloc").iter().filter_map(|&c| Some(named(&module, c + 4)?.1)).collect();
        names.sort();
        names.dedup();
        assert_eq!(names, ["a|b", "u"], "{flags:?}");
    }
}
