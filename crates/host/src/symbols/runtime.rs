//! Which code acts on behalf of its caller.
//!
//! A page first touched inside `memset`, or a sample inside OpenMP's barrier, says
//! something about the program's own frame further up. These tables say what to step
//! over. They go by file and function names, because that is all a stripped library
//! offers.

use super::Frame;
use nearfar_recording::KERNEL_MODULE;

/// File names, without version, of libraries that act for their caller. Python, numpy,
/// BLAS and the like are not among them: work done there is the program's own.
const RUNTIME: &[&str] = &[
    // the C library and its parts
    "libc",
    "libm",
    "libmvec",
    "libpthread",
    "libdl",
    "librt",
    "ld-linux",
    "ld-musl",
    "ld-linux-x86-64",
    "ld-linux-aarch64",
    // language runtimes
    "libstdc++",
    "libc++",
    "libc++abi",
    "libgcc_s",
    "libgfortran",
    "libquadmath",
    "libflang",
    "libFortranRuntime",
    // OpenMP
    "libgomp",
    "libomp",
    "libiomp5",
    // allocators
    "libjemalloc",
    "libtcmalloc",
    "libtcmalloc_minimal",
    "libmimalloc",
    "libmimalloc-secure",
    "libhoard",
    "libnuma",
    "libmemkind",
    // MPI: waits and copies for the rank that calls it
    "libmpi",
    "libmpich",
    "libmpi_cxx",
    "libmpi_mpifh",
    "libopen-pal",
    "libopen-rte",
    "libucp",
    "libuct",
    "libucs",
];

/// Whether the module at `path` acts on behalf of its caller: the C library, the
/// language's runtime, OpenMP's, an allocator, MPI, our own agent, the vdso.
pub fn is_runtime(path: &str) -> bool {
    let file = file_name(path);
    file == "[vdso]"
        || file == KERNEL_MODULE
        || file.starts_with("linux-vdso")
        || is_agent(path)
        || library(file).is_some_and(|name| {
            RUNTIME.contains(&name) || name.starts_with("ld-linux") || name.starts_with("ld-musl")
        })
}

/// What the names of the memory begin with that the agent shares with the recorder.
pub const AGENT_MEMORY: &str = "/memfd:nearfar-agent";

/// Whether the module at `path` is our own agent.
pub fn is_agent(path: &str) -> bool {
    let file = file_name(path);
    file.starts_with("nearfar-agent") && file.contains(".so")
}

fn file_name(path: &str) -> &str {
    // The kernel appends this to a mapped file that was replaced since.
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

/// `libgomp` for `libgomp.so.1.0.0`, `libc` for `libc-2.31.so`; None for other files.
fn library(file: &str) -> Option<&str> {
    let (stem, after) = file.split_once(".so")?;
    if !(after.is_empty() || after.starts_with('.') || after.starts_with('-')) {
        return None;
    }
    // Old glibc put its version in the name; wheels append a hash (`libgomp-a34b3233`).
    match stem.rsplit_once('-') {
        Some((name, tail))
            if tail.bytes().any(|b| b.is_ascii_digit())
                && tail.bytes().all(|b| b.is_ascii_hexdigit() || b == b'.') =>
        {
            Some(name)
        }
        _ => Some(stem),
    }
}

/// Whether a function belongs to an allocator, by its readable name. The pages that it
/// touches for its own bookkeeping are placed by it, not by the program's loops.
pub fn is_allocator_function(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "malloc",
        "calloc",
        "realloc",
        "reallocarray",
        "free",
        "cfree",
        "memalign",
        "aligned_alloc",
        "posix_memalign",
        "valloc",
        "pvalloc",
        "malloc_consolidate",
        "malloc_trim",
        "systrim",
        "sysmalloc",
        "sysmalloc_mmap",
        "unlink_chunk",
        "munmap_chunk",
        "mremap_chunk",
        "ptmalloc_init",
        "tcache_init",
        "checked_request2size",
        "alloc_perturb",
        "new_heap",
        "grow_heap",
        "heap_trim",
        "new_arena",
        "arena_get2",
        "operator delete",
        "operator new",
    ];
    const PREFIXES: &[&str] = &[
        "_int_malloc",
        "_int_free",
        "_int_realloc",
        "_int_memalign",
        "_mid_memalign",
        "__libc_malloc",
        "__libc_calloc",
        "__libc_realloc",
        "__libc_free",
        "__libc_memalign",
        "__libc_valloc",
        "__libc_pvalloc",
        "__posix_memalign",
        "tcache_",
        "arena_get",
        "operator new(",
        "operator new[",
        "operator delete(",
        "operator delete[",
        "je_",
        "tc_malloc",
        "tc_calloc",
        "tc_new",
        "tcmalloc::",
        "mi_malloc",
        "mi_calloc",
        "mi_new",
        "_mi_",
        "mi_heap_",
    ];
    NAMES.contains(&name) || PREFIXES.iter().any(|p| name.starts_with(p))
}

/// Whether time in this module (and function, where known) is waiting, not work.
///
/// OpenMP's runtimes spin at barriers before they sleep. Debian's libgomp has no names
/// for those loops, and its entry points (`GOMP_parallel` and the like) return at once;
/// so any time inside an OpenMP runtime counts as waiting, except in the functions
/// known to work for the program: allocation, and libgomp's device copies.
pub fn spins(module_path: &str, function: Option<&str>) -> bool {
    let file = file_name(module_path);
    let openmp = library(file).is_some_and(|n| ["libgomp", "libomp", "libiomp5"].contains(&n));
    match function {
        Some(name) if openmp => !works_for_program(name),
        Some(name) => is_spin_function(name),
        None => openmp,
    }
}

fn works_for_program(name: &str) -> bool {
    [
        "omp_alloc",
        "omp_aligned_alloc",
        "omp_calloc",
        "omp_realloc",
        "omp_target_mem",
        "kmp_malloc",
        "kmp_calloc",
        "___kmp_allocate",
        "__kmp_fast_allocate",
    ]
    .iter()
    .any(|known| name.starts_with(known))
        || is_allocator_function(name)
}

/// Wait loops known by name wherever they are linked: a static program contains its
/// OpenMP runtime.
fn is_spin_function(name: &str) -> bool {
    const NAMES: &[&str] = &["do_spin", "do_wait", "cpu_relax", "sched_yield", "__sched_yield"];
    const PREFIXES: &[&str] = &[
        "gomp_barrier",
        "gomp_team_barrier",
        "gomp_team_end",
        "gomp_thread_start",
        "gomp_simple_barrier",
        "gomp_mutex_lock_slow",
        "gomp_sem_wait",
        "gomp_ptrlock_get_slow",
        "__kmp_wait",
        "__kmp_flag_",
        "__kmp_hyper_barrier",
        "__kmp_hierarchical_barrier",
        "__kmp_dist_barrier",
        "__kmp_linear_barrier",
        "__kmp_tree_barrier",
        "__kmp_fork_barrier",
        "__kmp_join_barrier",
        "__kmp_barrier",
        "__kmp_yield",
        "__kmp_x86_pause",
        "__kmp_execute_tasks",
        "__kmp_acquire_",
        "__kmp_launch_thread",
        "pthread_spin_lock",
        "__pthread_spin_lock",
        "__pthread_mutex_lock_full",
        "pthread_barrier_wait",
        "__pthread_barrier_wait",
    ];
    // `bool __kmp_wait_template<...>(...)`: a demangled template starts with its type.
    let plain = name.split('(').next().unwrap_or(name);
    NAMES.contains(&plain)
        || PREFIXES.iter().any(|p| plain.starts_with(p))
        || plain.contains(" __kmp_wait_template<")
}

/// Whether a frame is code of the language's own library (headers of `std::`), which
/// is stepped over when looking for the user's line.
pub fn is_library_frame(frame: &Frame) -> bool {
    const DIRECTORIES: &[&str] = &["/include/c++/", "/rustc/", "/lib/rustlib/src/", "/c++/v1/"];
    const FUNCTIONS: &[&str] =
        &["std::", "__gnu_cxx::", "operator new", "operator delete", "alloc::", "core::"];
    // A template's demangled name begins with its return type, so the file decides
    // first; names serve where no file exists.
    DIRECTORIES.iter().any(|d| frame.file.contains(d))
        // gcc's own headers: omp.h, immintrin.h, mm_malloc.h.
        || frame.file.contains("/lib/gcc/") && frame.file.contains("/include/")
        || FUNCTIONS.iter().any(|f| frame.function.starts_with(f))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtime_libraries_are_told_from_programs_by_file_name() {
        for path in [
            "/usr/lib/x86_64-linux-gnu/libc.so.6",
            "/lib/x86_64-linux-gnu/libc-2.31.so",
            "/lib64/ld-linux-x86-64.so.2",
            "/lib/ld-musl-x86_64.so.1",
            "/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30",
            "/usr/lib/llvm-16/lib/libc++.so.1.0",
            "/usr/lib/libgomp.so.1 (deleted)",
            "/venv/numpy.libs/libgomp-a34b3233.so.1.0.0",
            "/usr/lib/libiomp5.so",
            "/usr/lib/libm.so.6",
            "/opt/nearfar-agent-1234.so",
            "nearfar-agent.so",
            "[vdso]",
            "[kernel]",
        ] {
            assert!(is_runtime(path), "{path}");
        }
        for path in [
            "/usr/bin/python3.11",
            "/usr/lib/libpython3.11.so.1.0",
            "/x/numpy/core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so",
            "/usr/lib/libopenblas.so.0",
            "/home/me/libc/stencil",
            "/home/me/a.out",
            "/home/me/libcfd.so",
            "/home/me/libmesh.so",
            "[heap]",
            "",
        ] {
            assert!(!is_runtime(path), "{path}");
        }
    }

    #[test]
    fn time_in_an_openmp_runtime_is_waiting_unless_known_otherwise() {
        let gomp = "/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0";
        assert!(spins(gomp, None));
        assert!(spins(gomp, Some("gomp_team_barrier_wait_end")));
        assert!(!spins(gomp, Some("omp_alloc")));
        assert!(!spins("/home/me/a.out", None));
        assert!(!spins("/home/me/a.out", Some("main [omp parallel]")));
        assert!(spins("/home/me/static", Some("gomp_team_barrier_wait_end")));
        assert!(spins("/usr/lib/libc.so.6", Some("sched_yield")));
        assert!(!spins("/usr/lib/libc.so.6", Some("memset")));
    }

    #[test]
    fn allocators_are_known_by_name() {
        for name in ["_int_malloc", "sysmalloc", "malloc", "operator new(unsigned long)"] {
            assert!(is_allocator_function(name), "{name}");
        }
        for name in ["main", "my_malloc_wrapper", "memset", "mi_solver"] {
            assert!(!is_allocator_function(name), "{name}");
        }
    }
}
