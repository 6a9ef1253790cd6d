//! Stacks, unwound as gdb does it.

use crate::compiled::{compile, hex, tool};
use nearfar_host::symbols::{Module, Regs, Unwinder};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

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
            // A page of each library is mapped anew, as where another one writes hooks into it, and one is given back: none that the stack
            // goes through.
            for (start, end, offset, path) in &stopped.mappings {
                let Ok(module) = Module::open(Path::new(path)) else { continue };
                let module = Arc::new(module);
                let used = |page: u64| chain.iter().any(|address| (page..page + 4096).contains(address));
                let inner: Vec<u64> = (*start..*end).step_by(4096).filter(|page| !used(*page)).collect();
                if let [.., hooked, gone, _] = inner[..] {
                    unwinder.add_mapping(8, hooked, hooked + 4096, offset + (hooked - start), module);
                    unwinder.remove_mapping(8, gone, gone + 4096);
                }
            }
            assert_eq!(unwinder.unwind(8, *regs, regs.sp, stack, 100), ours);
        }
    }
}
