//! Symbols of programs compiled here, compared with what binutils and gdb's format
//! tools say of the same files. A missing compiler skips its tests, openly.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use nearfar::symbols::{Module, NameSource, Regs, Unwinder};
use tempfile::TempDir;

/// Runs a tool and returns its output; None when it is not installed.
fn tool(name: &str, args: &[&str]) -> Option<String> {
    let output = match Command::new(name).args(args).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: {name} is not installed");
            return None;
        }
        Err(error) => panic!("cannot run {name}: {error}"),
    };
    assert!(output.status.success(), "{name} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Compiles `source` in `dir`; None when the compiler is not installed.
fn compile(dir: &TempDir, compiler: &str, file: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let input = dir.path().join(file);
    // Rewriting an unchanged source would make it newer than binaries made from it.
    if std::fs::read_to_string(&input).ok().as_deref() != Some(source) {
        std::fs::write(&input, source).unwrap();
    }
    let output =
        dir.path().join(format!("{file}{}{compiler}", flags.concat().replace(['/', ',', '=', '.'], "_")));
    let (input, output_text) = (input.to_str().unwrap(), output.to_str().unwrap());
    let mut args = vec![input, "-g", "-o", output_text];
    args.extend(flags);
    tool(compiler, &args)?;
    Some(output)
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}

const C_SOURCE: &str = r#"#include <stdlib.h>
#include <string.h>
#include <stdio.h>
static double big_local_static(int i) {
    static double table[512];
    table[i & 511] += i;
    return table[(i * 7) & 511];
}
double global_array[1000] = { 1.0 };
char small;
static inline int add(int a, int b) {
    volatile int x = a;
    return x + b;
}
struct S { double *field; };
__attribute__((noinline)) int work(int n, struct S *s) {
    float *prev = (float *)malloc(n * sizeof(float));
    double *a;
    a = calloc(n, 8);
    s->field =
        malloc(n * 16);
    void *mem;
    if (posix_memalign(&mem, 64, n)) return 1;
    double *p = malloc(n * 3), *q = malloc(n * 5);
    memset(prev, n, n);
    int r = add(n, (int)a[n / 2]) + (int)big_local_static(n);
    printf("%p %p %p %p %p %p %d\n", (void*)prev, (void*)a, (void*)s->field, mem, (void*)p, (void*)q, r);
    return r;
}
int main(int argc, char **argv) {
    struct S s;
    global_array[argc] = argc;
    return work(argc * 1000, &s) == 12345;
}
"#;

const CPP_SOURCE: &str = r#"#include <vector>
#include <memory>
#include <cstdio>
#include <cstdlib>
namespace grid {
double cells[4096];
struct Field {
    double *data;
    size_t n;
    explicit Field(size_t n) : n(n) {
        this->data = new double[n];
    }
};
}
template <typename T> T sum(const std::vector<T> &v) {
    T s = 0;
    for (auto x : v) s += x;
    return s;
}
__attribute__((noinline)) double run(size_t n) {
    std::vector<float> prev(n);
    std::vector<double> next(n), other(n + 1);
    auto unique = std::make_unique<float[]>(n);
    double *raw = static_cast<double *>(std::malloc(n * 8));
    grid::Field field(n);
    prev.resize(n * 2);
    std::vector<double> copy = next;
    std::printf("%p %p %p %p %p %p\n", (void*)next.data(), (void*)other.data(), (void*)unique.get(), (void*)raw, (void*)field.data, (void*)copy.data());
    return sum(prev) + sum(next) + grid::cells[n & 4095] + sum(copy);
}
std::vector<double> at_start(5000);
int main(int argc, char **) {
    static int counts[300];
    counts[argc] = argc;
    return run(argc * 1000) > 1e9 ? counts[argc + 1] : 0;
}
"#;

const FORTRAN_SOURCE: &str = r#"module grid
  real(8), allocatable :: u(:)
  real(8) :: fixed(1000)
contains
  subroutine init(n)
    integer, intent(in) :: n
    allocate(u(n))
    u = 1
  end subroutine
end module
program stencil
  use grid
  real(8), allocatable :: a(:,:), b(:)
  real(8) :: w(2000), v(50)
  common /blk/ w, v
  call init(command_argument_count() + 100)
  allocate(a(100,100), &
           b(50))
  !$omp parallel do
  do i = 1, 50
    b(i) = i
  end do
  print *, sum(b), w(1), fixed(3), a(1,1)
end program
"#;

const OMP_SOURCE: &str = r#"#include <stdio.h>
double a[10000];
void init(double *x, int n) {
#pragma omp parallel for
    for (int i = 0; i < n; i++)
        x[i] = i;
}
int main(void) {
    init(a, 10000);
    printf("%f\n", a[77]);
    return 0;
}
"#;

/// Instruction addresses of the disassembled functions, by function.
fn disassembly(path: &Path) -> Option<Vec<(String, Vec<u64>)>> {
    let text = tool("objdump", &["-d", "--no-show-raw-insn", "-j", ".text", path.to_str().unwrap()])?;
    let mut functions: Vec<(String, Vec<u64>)> = Vec::new();
    for line in text.lines() {
        if let Some((_, name)) = line.strip_suffix(">:").and_then(|l| l.split_once(" <")) {
            functions.push((name.to_owned(), Vec::new()));
        } else if let Some((address, rest)) = line.trim_start().split_once(":\t")
            && !rest.is_empty()
            && let Some((_, list)) = functions.last_mut()
        {
            list.push(hex(address));
        }
    }
    Some(functions)
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
            if let Some(range) = &range {
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
                        || theirs.contains(&ours),
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

fn strip(path: &Path, args: &[&str]) -> PathBuf {
    let output = path.with_extension(format!("stripped{}", args.concat()));
    let mut all = args.to_vec();
    all.extend([path.to_str().unwrap(), "-o", output.to_str().unwrap()]);
    tool("strip", &all).unwrap();
    output
}

#[test]
fn a_stripped_program_keeps_its_function_bounds() {
    let dir = TempDir::new().unwrap();
    for flags in [&["-O2"][..], &["-O2", "-no-pie"], &["-O2", "-static"]] {
        let Some(path) = compile(&dir, "gcc", "a.c", C_SOURCE, flags) else {
            return;
        };
        let full = Module::open(&path).unwrap();
        let bare = Module::open(&strip(&path, &[])).unwrap();
        for (name, addresses) in disassembly(&path).unwrap() {
            if !["main", "work"].contains(&name.as_str()) {
                continue;
            }
            let range = full.function_range(addresses[0]).unwrap();
            // objdump lists the padding after a function with it.
            for &address in addresses.iter().filter(|a| range.contains(a)) {
                assert_eq!(full.function_range(address), Some(range.clone()), "{name}");
                assert_eq!(bare.function_range(address), Some(range.clone()), "{name}");
            }
            assert!(bare.frames(addresses[0]).is_empty());
            assert_eq!(bare.variable_at_call(addresses[0]), None);
        }
        assert_eq!(bare.is_static_executable(), flags.contains(&"-static"));
        assert_eq!(full.build_id(), bare.build_id());
        assert!(!bare.is_setuid());
    }
}

#[test]
fn a_debug_link_leads_to_the_debug_file() {
    let dir = TempDir::new().unwrap();
    for build_id in ["-Wl,--build-id=none", "-Wl,--build-id"] {
        let Some(path) = compile(&dir, "gcc", "a.c", C_SOURCE, &["-O2", build_id]) else {
            return;
        };
        let full = Module::open(&path).unwrap();
        let debug = path.with_extension("debug");
        let file = |p: &Path| p.to_str().unwrap().to_owned();
        tool("objcopy", &["--only-keep-debug", &file(&path), &file(&debug)]).unwrap();
        let stripped = strip(&path, &[]);
        tool("objcopy", &[&format!("--add-gnu-debuglink={}", file(&debug)), &file(&stripped)]).unwrap();
        let module = Module::open(&stripped).unwrap();
        let main = disassembly(&path).unwrap().into_iter().find(|f| f.0 == "work").unwrap();
        for address in main.1 {
            assert_eq!(module.frames(address), full.frames(address));
            assert_eq!(module.function_range(address), full.function_range(address));
        }
        assert_eq!(module.debug_file().unwrap(), debug.canonicalize().unwrap());
        assert_eq!(module.statics(100), full.statics(100));
        // Another build's debug file is refused.
        let Some(other) = compile(&dir, "gcc", "omp.c", OMP_SOURCE, &["-O2", build_id]) else {
            return;
        };
        tool("objcopy", &["--only-keep-debug", &file(&other), &file(&debug)]).unwrap();
        assert_eq!(Module::open(&stripped).unwrap().debug_file(), None);
    }
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
                .filter_map(|&c| module.variable_at_call(c + 4))
                .map(|v| v.name)
                .collect();
            names.sort();
            names
        };
        assert_eq!(names("malloc"), ["p", "prev", "q", "s->field"], "{flags:?}");
        assert_eq!(names("calloc"), ["a"]);
        assert_eq!(names("posix_memalign"), ["mem"]);
        let first = module.variable_at_call(calls(&path, "malloc")[0]).unwrap();
        assert_eq!(first.how, NameSource::Dwarf);
        // Without the source, the DWARF still names what is declared on the line.
        let source = dir.path().join("a.c");
        let hidden = dir.path().join("hidden");
        std::fs::rename(&source, &hidden).unwrap();
        let module = Module::open(&path).unwrap();
        let first = module.variable_at_call(calls(&path, "malloc")[0]).unwrap();
        assert_eq!((first.name.as_str(), first.how), ("prev", NameSource::Dwarf));
        assert_eq!(module.variable_at_call(calls(&path, "calloc")[0]), None);
        // A source newer than the binary is not believed.
        std::fs::copy(&hidden, &source).unwrap();
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
        let file = std::fs::File::options().append(true).open(&source).unwrap();
        file.set_modified(later).unwrap();
        let module = Module::open(&path).unwrap();
        assert_eq!(module.variable_at_call(calls(&path, "calloc")[0]), None);
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
        .filter_map(|&c| module.variable_at_call(c + 4))
        .map(|v| format!("{}:{}", v.at.line, v.name))
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
        let mut names: Vec<_> = calls(&path, "malloc")
            .iter()
            .filter_map(|&c| module.variable_at_call(c + 4))
            .map(|v| v.name)
            .collect();
        names.sort();
        names.dedup();
        assert_eq!(names, ["a|b", "u"], "{flags:?}");
    }
}

#[test]
fn file_offsets_become_addresses() {
    let dir = TempDir::new().unwrap();
    for flags in [&["-O2"][..], &["-O2", "-no-pie"], &["-O2", "-Wl,-z,noseparate-code"]] {
        let Some(path) = compile(&dir, "gcc", "a.c", C_SOURCE, flags) else {
            return;
        };
        let module = Module::open(&path).unwrap();
        let text = tool("readelf", &["-SW", path.to_str().unwrap()]).unwrap();
        let line = text.lines().find(|l| l.contains(" .text ")).unwrap();
        let fields: Vec<&str> = line.split_once(".text").unwrap().1.split_whitespace().collect();
        let (vaddr, offset) = (hex(fields[1]), hex(fields[2]));
        assert_eq!(module.vaddr_of_file_offset(offset), Some(vaddr));
        assert_eq!(module.vaddr_of_file_offset(u64::MAX), None);
        // The kernel maps from the page's beginning.
        let page = offset & !4095;
        let start = 0x7f00_0000_0000 + page;
        let bias = module.bias_of_mapping(start, page).unwrap();
        assert_eq!((start + (offset - page)).wrapping_sub(bias), vaddr);
    }
}

#[test]
fn what_is_no_elf_file_is_an_error() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    for path in [
        file("empty", b""),
        file("text", b"#!/bin/sh\necho hello\n"),
        file("magic", b"\x7fELF"),
        file("thirty_two", b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0"),
        dir.path().to_path_buf(),
        dir.path().join("missing"),
        PathBuf::from("/dev/zero"),
    ] {
        let error = Module::open(&path).unwrap_err();
        assert!(format!("{error:#}").contains(path.to_str().unwrap()), "{error:#}");
    }
}

#[test]
fn damaged_files_never_panic() {
    let dir = TempDir::new().unwrap();
    let mut good = Vec::new();
    for debug in ["-gz=none", "-gz=zlib", "-gdwarf-4"] {
        let flags = ["-O2", "-fopenmp", debug];
        let Some(path) = compile(&dir, "gcc", "omp.c", OMP_SOURCE, &flags) else {
            return;
        };
        good.push(std::fs::read(&path).unwrap());
    }
    let exercise = |bytes: &[u8], name: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let Ok(module) = Module::open(&path) else {
            return;
        };
        let module = Arc::new(module);
        for address in [0, 0x1000, 0x1080, 0x1180, 0x11c0, u64::MAX] {
            let _ = (
                module.frames(address),
                module.variable_at_call(address),
                module.vaddr_of_file_offset(address),
            );
            if let Some(range) = module.function_range(address) {
                let _ = module.code(range);
            }
        }
        let _ = (module.statics(1), module.build_id(), module.is_static_executable(), module.is_setuid());
        let mut unwinder = Unwinder::new();
        unwinder.add_mapping(1, 0x1000, 0x2000, 0x1000, module);
        let regs = Regs { ip: 0x1190, sp: 0x8000, bp: 0x8010, lr: 0x1190 };
        let _ = unwinder.unwind(1, regs, 0x8000, &[0x90, 0x11, 0, 0, 0, 0, 0, 0].repeat(64), 1000);
    };
    for length in (0..good[0].len()).step_by(97) {
        exercise(&good[0][..length], "truncated");
    }
    // A fixed sequence, so that a failure can be repeated.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let rounds = std::env::var("NEARFAR_FUZZ_ROUNDS").ok();
    for round in 0..rounds.map_or(900, |r| r.parse().unwrap()) {
        let mut bad = good[round % good.len()].clone();
        // Headers are few bytes: give them their share.
        let below = if round % 4 == 0 { 1024 } else { bad.len() };
        for _ in 0..1 + round % 4 {
            let at = if round % 5 == 1 { bad.len() - 1 - random(2400) } else { random(below) };
            bad[at] ^= 1 << random(8);
        }
        exercise(&bad, "flipped");
    }
}

const STACK_SOURCE: &str = r#"#include <cstdlib>
#include <cstring>
#include <vector>
#include <cstdio>
#include <dlfcn.h>
void *memset_address;
static int compare(const void *a, const void *b) {
    static int calls;
    if (++calls == 3) {
        void *volatile kept = calloc(1, 333);
        free(kept);
    }
    return *(const int *)a - *(const int *)b;
}
__attribute__((noinline)) int sort(int *p, int n) {
    qsort(p, n, sizeof *p, compare);
    return p[n / 2] + 1;
}
__attribute__((noinline)) int fill(std::vector<int> &v, int n) {
    v.resize(n);
    memset(v.data(), n, n * 4);
    v[7] = 3;
    return sort(v.data(), n) + 1;
}
int main(int argc, char **) {
    // The variant that libc chose for this processor: no symbol has its name.
    memset_address = dlsym(RTLD_DEFAULT, "memset");
    std::vector<int> v;
    int r = fill(v, argc * 1000);
    printf("%d\n", r);
    return r == 1;
}
"#;

/// A stopped thread: its registers, its stack, the chain that gdb finds and the
/// executable mappings (start, end, file offset, path).
struct Stopped {
    regs: Regs,
    stack: Vec<u8>,
    chain: Vec<u64>,
    mappings: Vec<(u64, u64, u64, String)>,
}

/// Runs `program` under gdb until `function` is called from below `fill`.
fn stop_at(dir: &TempDir, program: &Path, function: &str) -> Option<Stopped> {
    let stack = dir.path().join("stack.bin");
    let commands = [
        "set confirm off".to_owned(),
        "set breakpoint pending on".to_owned(),
        "set debuginfod enabled off".to_owned(),
        "set environment LD_BIND_NOW 1".to_owned(),
        "break fill".to_owned(),
        "run".to_owned(),
        format!("break {function}"),
        "continue".to_owned(),
        // In the middle of the function, where frame pointers would mislead.
        "stepi 3".to_owned(),
        "printf \"REGS %lx %lx %lx\\n\", $rip, $rsp, $rbp".to_owned(),
        // At most 8 KiB, as perf would; the stack of a small program may be shorter.
        format!(
            "python\nsp = int(gdb.parse_and_eval('$rsp').cast(gdb.lookup_type('unsigned long')))\n\
             maps = [l.split()[0].split('-') for l in open('/proc/%d/maps' % gdb.selected_inferior().pid)]\n\
             end = [int(e, 16) for s, e in maps if int(s, 16) <= sp < int(e, 16)][0]\n\
             open('{}', 'wb').write(gdb.selected_inferior().read_memory(sp, min(8192, end - sp)))\nend",
            stack.display()
        ),
        "backtrace -past-main off".to_owned(),
        "python\nf = gdb.newest_frame()\nwhile f is not None:\n  print('CHAIN %x' % f.pc()) if f.type() != gdb.INLINE_FRAME else None\n  f = f.older()\nend".to_owned(),
        "python print(''.join('MAP ' + l for l in open('/proc/%d/maps' % gdb.selected_inferior().pid)))".to_owned(),
        "kill".to_owned(),
    ];
    let script = dir.path().join("script.gdb");
    std::fs::write(&script, commands.join("\n") + "\n").unwrap();
    let text =
        tool("gdb", &["-q", "-nx", "-batch", "-x", script.to_str().unwrap(), program.to_str().unwrap()])?;
    let Some(regs) = text.lines().find_map(|l| l.strip_prefix("REGS ")) else {
        eprintln!("SKIPPED: gdb cannot run programs here:\n{text}");
        return None;
    };
    let regs: Vec<u64> = regs.split_whitespace().map(hex).collect();
    let chain = text.lines().filter_map(|l| l.strip_prefix("CHAIN ")).map(hex).collect();
    let mappings = text
        .lines()
        .filter_map(|l| l.strip_prefix("MAP "))
        .filter(|l| l.contains("r-xp"))
        .map(|l| {
            let fields: Vec<&str> = l.split_whitespace().collect();
            let (start, end) = fields[0].split_once('-').unwrap();
            (hex(start), hex(end), hex(fields[2]), fields.get(5).unwrap_or(&"").to_string())
        })
        .collect();
    Some(Stopped {
        regs: Regs { ip: regs[0], sp: regs[1], bp: regs[2], lr: 0 },
        stack: std::fs::read(stack).unwrap(),
        chain,
        mappings,
    })
}

#[test]
#[cfg(target_arch = "x86_64")]
fn stacks_unwind_as_gdb_does() {
    let dir = TempDir::new().unwrap();
    for flags in [&["-O2", "-fomit-frame-pointer"][..], &["-O2", "-no-pie"], &["-O0"]] {
        let Some(program) = compile(&dir, "g++", "stack.cc", STACK_SOURCE, flags) else {
            return;
        };
        // Through libstdc++'s operator new; a leaf in hand-written assembly; through
        // libc's qsort back into the program and into libc again.
        for (function, least) in [("malloc", 3), ("*(long)memset_address", 3), ("calloc", 5)] {
            let Some(stopped) = stop_at(&dir, &program, function) else {
                return;
            };
            let mut unwinder = Unwinder::new();
            for (start, end, offset, path) in &stopped.mappings {
                if let Ok(module) = Module::open(Path::new(path)) {
                    unwinder.add_mapping(7, *start, *end, *offset, Arc::new(module));
                }
            }
            let Stopped { regs, stack, chain, .. } = &stopped;
            let ours = unwinder.unwind(7, *regs, regs.sp, stack, 100);
            assert!(chain.len() >= least, "{function}: {chain:x?}");
            // gdb ends at main, we go on to _start.
            assert_eq!(ours[..chain.len().min(ours.len())], chain[..], "{function} {flags:?} {ours:x?}");
            // A short copy gives a shorter chain with the same beginning.
            for bytes in (0..stack.len()).step_by(8) {
                let part = unwinder.unwind(7, *regs, regs.sp, &stack[..bytes], 100);
                assert!(!part.is_empty() && ours.starts_with(&part), "{bytes}");
            }
            assert_eq!(unwinder.unwind(7, *regs, regs.sp, stack, 2), ours[..2]);
            assert_eq!(unwinder.unwind(8, *regs, regs.sp, stack, 9), [regs.ip]);
            unwinder.fork(7, 8);
            unwinder.forget(7);
            assert_eq!(unwinder.unwind(8, *regs, regs.sp, stack, 100), ours);
            assert_eq!(unwinder.unwind(7, *regs, regs.sp, stack, 100), [regs.ip]);
        }
    }
}
