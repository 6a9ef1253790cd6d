//! A program that the emulated cpu cannot execute: which instruction it was, in which
//! function, and what to rebuild it with.

use nearfar_analyze::Input;
use nearfar_decode::describe;
use nearfar_host::symbols::Module;
use nearfar_recording::{Columns, NONE};
use std::path::Path;

/// [`nearfar_recording::Loss::what`] of the row that holds the kernel's line.
pub(super) const ILLEGAL: &str = "illegal instruction";

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
    let at = address(&input.losses.why[row])?;
    let m = &input.mappings;
    let map = (0..m.len()).rev().find(|&i| m.start[i] <= at && at < m.end[i] && m.module[i] != NONE);
    let (what, features) = match map {
        None => (format!("an instruction at {at:#x}, in code that belongs to no file"), Vec::new()),
        Some(i) => {
            let path = &m.name[i];
            let module = Module::open(Path::new(path)).ok();
            let vaddr = module.as_ref().and_then(|f| f.vaddr_of_file_offset(at - m.start[i] + m.offset[i]));
            let code = module.as_ref().zip(vaddr).and_then(|(f, v)| f.code(v..v + 15).or(f.code(v..v + 1)));
            let described = code.and_then(describe);
            let frame = module.as_ref().zip(vaddr).and_then(|(f, v)| f.frames(v).into_iter().next());
            let place = match frame {
                Some(f) if f.line > 0 => format!("{} ({}:{}) of {path}", f.function, f.file, f.line),
                Some(f) if !f.function.is_empty() => format!("{} of {path}", f.function),
                _ => path.clone(),
            };
            match described {
                Some(d) => (format!("`{}` in {place}", d.form), d.features),
                None => (format!("an instruction at {at:#x} in {place}"), Vec::new()),
            }
        }
    };
    let advice = if features.iter().any(|f| f.starts_with("AVX512")) {
        "The emulated cpu has AVX2 and no AVX-512, as its CPUID shows; this code does not ask. Rebuild it \
         with -march=x86-64-v3 (instead of -march=native, skylake-avx512 or x86-64-v4)."
            .to_owned()
    } else if features.is_empty() {
        "The program may have stopped itself (ud2: an assertion or __builtin_trap).".to_owned()
    } else {
        format!("The emulated cpu lacks {}. Rebuild with -march=x86-64-v3.", features.join(", "))
    };
    Some(format!("the program died of SIGILL: {what}. {advice}"))
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
