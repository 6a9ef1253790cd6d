//! Functions, lines and inlined functions of instructions.

use crate::compiled::{
    C_SOURCE, CPP_SOURCE, FORTRAN_SOURCE, OMP_SOURCE, compile, disassembly, hex, strip, tool,
};
use nearfar_host::symbols::Module;
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;

/// Function, file and line.
type Place = (String, String, u32);

/// `addr2line -f -i -C` for many addresses: (function, file, line) innermost first.
fn addr2line(path: &Path, addresses: &[u64]) -> Option<BTreeMap<u64, Vec<Place>>> {
    let mut args =
        vec!["-a".to_owned(), "-f".into(), "-i".into(), "-C".into(), "-e".into(), path.display().to_string()];
    args.extend(addresses.iter().map(|a| format!("{a:#x}")));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let text = tool("addr2line", &args)?;
    let mut found: BTreeMap<u64, Vec<Place>> = BTreeMap::new();
    let (mut at, mut function) = (0, None::<String>);
    for line in text.lines() {
        if let Some(address) = line.strip_prefix("0x") {
            at = hex(address);
            found.entry(at).or_default();
        } else if let Some(name) = function.take() {
            let place = line.split(" (discriminator").next().unwrap();
            let (file, line) = place.rsplit_once(':').unwrap();
            found.get_mut(&at).unwrap().push((name, file.to_owned(), line.parse().unwrap_or(0)));
        } else {
            function = Some(line.to_owned());
        }
    }
    Some(found)
}

/// A function's name without what the two demanglers write differently.
fn bare(name: &str) -> String {
    let name = name.split("._omp_fn").next().unwrap().replace(" [omp parallel]", "");
    let name = name.split(" [clone").next().unwrap();
    name.chars().filter(|c| !c.is_whitespace()).collect::<String>().replace("(void)", "()")
}

fn compare_with_binutils(path: &Path) {
    let module = Module::open(path).unwrap();
    let Some(functions) = disassembly(path) else {
        return;
    };
    let all: Vec<u64> = functions.iter().flat_map(|f| f.1.clone()).collect();
    let starts: std::collections::HashSet<u64> = all.iter().copied().collect();
    let mut without_function = 0;
    for chunk in all.chunks(400) {
        let Some(expected) = addr2line(path, chunk) else {
            return;
        };
        for (&address, expected) in &expected {
            let range = module.function_range(address);
            // Where no function is known, neither table may invent one.
            assert_eq!(module.code_range(address).is_some(), range.is_some(), "{address:#x}");
            for range in [range.clone(), module.code_range(address)].iter().flatten() {
                assert!(range.contains(&address), "{address:#x} {range:x?}");
                assert!(
                    starts.contains(&range.start),
                    "{address:#x}: {:#x} is inside an instruction",
                    range.start
                );
                assert_eq!(module.code(range.clone()).unwrap().len() as u64, range.end - range.start);
            }
            let known: Vec<_> = expected.iter().filter(|e| e.2 != 0).collect();
            // Padding after a function has a line for binutils.
            if known.is_empty() || range.is_none() {
                without_function += usize::from(range.is_none());
                continue;
            }
            let frames = module.frames(address);
            let ours: Vec<(String, u32)> = frames.iter().map(|f| (bare(&f.function), f.line)).collect();
            let theirs: Vec<(String, u32)> = expected.iter().map(|e| (bare(&e.0), e.2)).collect();
            // For clang's scattered inlined ranges the two tools disagree about which of
            // them hold a prologue's instructions: compare the ends of the lists only.
            if path.to_str().unwrap().contains("clang") {
                assert_eq!(ours[0].1, theirs[0].1, "{address:#x}: {ours:?} {theirs:?}");
                continue;
            }
            let lines = |list: &[(String, u32)]| list.iter().map(|l| l.1).collect::<Vec<_>>();
            assert_eq!(lines(&ours), lines(&theirs), "{}: {address:#x}: {ours:?} {theirs:?}", path.display());
            for (frame, expected) in frames.iter().zip(expected) {
                // Debian 12's binutils names the unit's own file for some DWARF 5 entries,
                // seen from lines that it does not have.
                let has_line = std::fs::read_to_string(&expected.1)
                    .is_ok_and(|t| t.lines().count() >= expected.2 as usize);
                if has_line {
                    assert_eq!(frame.file, expected.1, "{address:#x}");
                }
                // The demanglers differ in templates' details, and binutils gives some
                // inlined functions' short names.
                let head = |name: &str| {
                    // gfortran's `__module_MOD_name` is `module::name` here.
                    let name = bare(name).replace("_MOD_", "::");
                    let name = name.trim_start_matches('_');
                    name.split(['<', '(']).next().unwrap().to_owned()
                };
                let (ours, theirs) = (head(&frame.function), head(&expected.0));
                assert!(
                    // cpp_demangle does not know all of the grammar.
                    ours.starts_with('Z')
                        || theirs.starts_with("GLOBAL__")
                        // A Fortran main program has its own name in the DWARF.
                        || theirs == "MAIN__"
                        || ours.contains(&theirs)
                        || theirs.contains(&ours)
                        // Behind a return type that has brackets itself.
                        || expected.0.contains(&format!(" {ours}<")),
                    "{address:#x}: {ours} / {theirs}"
                );
            }
        }
    }
    assert!(without_function * 20 <= all.len(), "{without_function} of {}", all.len());
}

#[test]
fn frames_and_functions_agree_with_binutils() {
    let dir = TempDir::new().unwrap();
    for flags in [
        &["-O2"][..],
        &["-O0"],
        &["-O3", "-no-pie"],
        &["-O2", "-gdwarf-4"],
        &["-O2", "-gz=zlib"],
        &["-O2", "-static"],
    ] {
        let c = compile(&dir, "gcc", "a.c", C_SOURCE, flags);
        // A static program's libc is too much to compare instruction by instruction.
        if !flags.contains(&"-static") {
            for path in c.into_iter().chain(compile(&dir, "g++", "b.cc", CPP_SOURCE, flags)) {
                compare_with_binutils(&path);
            }
        }
    }
    for path in [
        compile(&dir, "gcc", "omp.c", OMP_SOURCE, &["-O2", "-fopenmp"]),
        compile(&dir, "gfortran", "f.f90", FORTRAN_SOURCE, &["-O2", "-fopenmp"]),
        compile(&dir, "g++", "b.cc", CPP_SOURCE, &["-O2", "-flto"]),
        compile(&dir, "clang", "a.c", C_SOURCE, &["-O2"]),
        compile(&dir, "clang++", "b.cc", CPP_SOURCE, &["-O2"]),
    ]
    .into_iter()
    .flatten()
    {
        compare_with_binutils(&path);
    }
}

#[test]
fn outlined_openmp_functions_carry_their_parents_name() {
    let dir = TempDir::new().unwrap();
    let Some(path) = compile(&dir, "gcc", "omp.c", OMP_SOURCE, &["-O2", "-fopenmp"]) else {
        return;
    };
    let stripped = strip(&path, &["--strip-debug"]);
    for path in [path, stripped] {
        let module = Module::open(&path).unwrap();
        let outlined: Vec<_> =
            disassembly(&path).unwrap().into_iter().filter(|f| f.0.contains("_omp_fn")).collect();
        assert_eq!(outlined.len(), 1);
        let frames = module.frames(outlined[0].1[3]);
        assert_eq!(frames.last().unwrap().function, "init [omp parallel]");
    }
}
