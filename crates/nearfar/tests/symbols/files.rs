//! Stripped files, debug files, damaged ones; addresses in files and in memory.

use crate::compiled::{C_SOURCE, OMP_SOURCE, compile, disassembly, hex, strip, tool};
use nearfar_host::symbols::{Module, Regs, Unwinder};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

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
                assert_eq!(bare.code_range(address), Some(range.clone()), "{name}");
            }
            assert!(bare.frames(addresses[0]).is_empty());
            assert_eq!(bare.received_at_call(addresses[0]), []);
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
        // Of a library that acts for its caller only the symbols are taken from there.
        let library = stripped.with_file_name("libnuma.so.1");
        std::fs::copy(&stripped, &library).unwrap();
        let library = Module::open(&library).unwrap();
        let main = disassembly(&path).unwrap().into_iter().find(|f| f.0 == "work").unwrap();
        for address in main.1 {
            assert_eq!(module.frames(address), full.frames(address));
            assert_eq!(module.function_range(address), full.function_range(address));
            let [frame] = &library.frames(address)[..] else { panic!("{:?}", library.frames(address)) };
            assert_eq!((&*frame.function, &*frame.file, frame.line), ("work", "", 0));
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
                module.received_at_call(address),
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

/// The unwind tables have one range for all stubs of a procedure linkage table, which is no function.
#[test]
fn a_procedure_linkage_table_is_no_function() {
    let dir = TempDir::new().unwrap();
    let Some(path) = compile(&dir, "gcc", "a.c", C_SOURCE, &["-O2", "-Wl,-z,lazy"]) else {
        return;
    };
    let module = Module::open(&path).unwrap();
    let text = tool("readelf", &["-SW", path.to_str().unwrap()]).unwrap();
    let line = text.lines().find(|l| l.contains(" .plt ")).unwrap();
    let fields: Vec<&str> = line.split_once(".plt").unwrap().1.split_whitespace().collect();
    let stub = hex(fields[1]) + 16;
    assert_eq!((module.function_range(stub), module.code_range(stub)), (None, None));
}
