//! A program that the emulated cpu cannot execute: which instruction it was, in which
//! function, and what to rebuild it with.

use nearfar_analyze::Input;
use nearfar_decode::{describe, of_avx512};
use nearfar_host::symbols::Module;
use nearfar_recording::{Columns, NONE};
use std::collections::BTreeSet;
use std::path::Path;

/// [`nearfar_recording::Loss::what`] of the row that holds the kernel's line.
pub(super) const ILLEGAL: &str = "illegal instruction";

/// In place of the kernel's line where there is none, as where the program handled the signal first.
pub(super) const NO_LINE: &str = "the kernel does not say at which instruction";

/// The guest kernel's line on a program that died of SIGILL:
/// `traps: app[71] trap invalid opcode ip:55d1c0de1139 sp:7ffd… error:0 in app[55d1…+1000]`.
pub(super) fn kernel_line() -> Option<String> {
    const READ_ALL: libc::c_int = 3;
    let mut buffer = vec![0u8; 1 << 18];
    // SAFETY: the kernel writes at most the given length into the buffer.
    let got = unsafe { libc::klogctl(READ_ALL, buffer.as_mut_ptr().cast(), buffer.len() as libc::c_int) };
    let text = String::from_utf8_lossy(buffer.get(..usize::try_from(got).ok()?)?).into_owned();
    text.lines().rfind(|l| l.contains("trap invalid opcode ip:")).map(str::to_owned)
}

fn address(line: &str) -> Option<u64> {
    let digits = line.split_once("ip:")?.1.split_whitespace().next()?;
    u64::from_str_radix(digits, 16).ok()
}

/// What happened and what to type, if `input` tells of it.
pub(super) fn explain(input: &Input) -> Option<String> {
    let row = (0..input.losses.len()).find(|&i| input.losses.what[i] == ILLEGAL)?;
    let Some(at) = address(&input.losses.why[row]) else { return Some(of_files(input)) };
    let m = &input.mappings;
    let map = (0..m.len()).rev().find(|&i| m.start[i] <= at && at < m.end[i] && m.module[i] != NONE);
    let (what, described) = match map {
        None => (format!("an instruction at {at:#x}, in code that belongs to no file"), None),
        Some(i) => {
            let path = &m.name[i];
            let module = Module::open(Path::new(path)).ok();
            let vaddr = module.as_ref().and_then(|f| f.vaddr_of_file_offset(at - m.start[i] + m.offset[i]));
            let code = module.as_ref().zip(vaddr).and_then(|(f, v)| f.code(v..v + 15).or(f.code(v..v + 1)));
            let described = code.and_then(describe);
            let place = place(module.as_ref().zip(vaddr), path);
            match described {
                Some(d) => (format!("`{}` in {place}", d.form), Some(d)),
                None => (format!("an instruction at {at:#x} in {place}"), None),
            }
        }
    };
    let advice = match described {
        Some(d) if d.is_avx512() => {
            format!("{NO_AVX512}, as its CPUID shows; this code does not ask. {REBUILD}")
        }
        Some(d) if !d.features.is_empty() => {
            format!("The emulated cpu lacks {}. Rebuild with -march=x86-64-v3.", d.features.join(", "))
        }
        _ => STOPPED_ITSELF.to_owned(),
    };
    Some(format!("the program died of SIGILL: {what}. {advice}"))
}

const NO_AVX512: &str = "The emulated cpu has AVX2 and no AVX-512";
const STOPPED_ITSELF: &str = "The program may have stopped itself (ud2: an assertion or __builtin_trap).";
const REBUILD: &str =
    "Rebuild it with -march=x86-64-v3 (instead of -march=native, skylake-avx512 or x86-64-v4).";

/// `function (file:line) of path`, as far as it is known.
fn place(at: Option<(&Module, u64)>, path: &str) -> String {
    match at.and_then(|(module, vaddr)| module.frames(vaddr).into_iter().next()) {
        Some(f) if f.line > 0 => format!("{} ({}:{}) of {path}", f.function, f.file, f.line),
        Some(f) if !f.function.is_empty() => format!("{} of {path}", f.function),
        _ => path.to_owned(),
    }
}

/// The same where nothing says which instruction it was, from the code of the program's own files.
fn of_files(input: &Input) -> String {
    let what = "the program died of SIGILL, and the kernel does not say at which instruction, as where a program handles the signal first \
                (gfortran's do)";
    let names = input.mappings.name.iter().zip(&input.mappings.module).filter(|(_, module)| **module != NONE);
    let own: BTreeSet<&str> =
        names.map(|(name, _)| &**name).filter(|name| !SYSTEM.iter().any(|of| name.starts_with(of))).collect();
    match own.into_iter().find_map(wide_code) {
        Some(found) => format!("{what}. {found}. {NO_AVX512}. {REBUILD}"),
        None => format!(
            "{what}. {NO_AVX512}, and the program's own files have no code that needs it. {STOPPED_ITSELF}"
        ),
    }
}

/// Where libraries come with the system: they ask which instructions a cpu has.
const SYSTEM: [&str; 2] = ["/lib", "/usr/lib"];
/// Parts of the names of functions that are called after the cpu was asked: of the C library and its vector functions, of OpenBLAS.
const ASKED: [&str; 4] = ["avx512", "evex", "skylakex", "_ZGVe"];

/// The first AVX-512 instruction of a file outside of functions that are called only where there is AVX-512.
fn wide_code(path: &str) -> Option<String> {
    let module = Module::open(Path::new(path)).ok()?;
    let (begin, code) = module.text()?;
    let asked =
        |at: u64| module.function(at).is_some_and(|name| ASKED.iter().any(|part| name.contains(part)));
    let (at, found) = of_avx512(code, begin).find(|&(at, _)| !asked(at))?;
    Some(format!("`{}` in {} is AVX-512", found.form, place(Some((&module, at)), path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_gives_the_address() {
        let line = "[    5.1] traps: a[71] trap invalid opcode ip:401136 sp:7ffe01 error:0 in a[401000+1000]";
        assert_eq!(address(line), Some(0x401136));
        assert_eq!(address("nothing"), None);
    }
}
