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
    "libtbbmalloc",
    "libtbbmalloc_proxy",
];

/// MPI's libraries and those that carry its messages: Open MPI, MPICH, Intel MPI and MVAPICH2, UCX, libfabric, PSM2. They wait
/// and copy for the rank that calls.
const MESSAGES: &[&str] = &[
    "libmpi",
    "libmpich",
    "libmpicxx",
    "libmpifort",
    "libmpichcxx",
    "libmpichfort",
    "libopen-pal",
    "libopen-rte",
    "libucp",
    "libuct",
    "libucs",
    "libucm",
    "libfabric",
    "libpsm2",
];
/// What the names of their parts begin with; Open MPI's plug-ins are `mca_*`.
const PARTS: &[&str] = &["libmpi_", "libmca_", "mca_", "libuct_", "libucx_"];

/// Whether the module at `path` acts on behalf of its caller: the C library, the
/// language's runtime, OpenMP's, an allocator, MPI, our own agent, the vdso.
pub fn is_runtime(path: &str) -> bool {
    let file = file_name(path);
    file == "[vdso]"
        || file == KERNEL_MODULE
        || file.starts_with("linux-vdso")
        || is_agent(path)
        || library(file).is_some_and(|name| {
            RUNTIME.contains(&name)
                || name.starts_with("ld-linux")
                || name.starts_with("ld-musl")
                || carries_messages(name)
        })
}

/// Whether a library of this name is MPI's.
fn carries_messages(name: &str) -> bool {
    MESSAGES.contains(&name) || PARTS.iter().any(|start| name.starts_with(start))
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

/// Whether functions of the module at `path` may be known to wait by their names. NumPy's and SciPy's wheels call their
/// OpenBLAS `libscipy_openblas64_`.
pub fn may_wait_by_name(path: &str) -> bool {
    is_runtime(path) || library(file_name(path)).is_some_and(|name| name.contains("openblas"))
}

/// What the name of a place in the code says about waiting there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// A thread there waits for others.
    Always,
    /// It does unless its loop writes to one place after the other: then it copies or reduces.
    UnlessItWrites,
    /// Nothing.
    Unknown,
}

/// Whether time in this module (and function, where known) is waiting, not work.
///
/// OpenMP's runtimes spin at barriers before they sleep. Debian's libgomp has no names
/// for those loops, and its entry points (`GOMP_parallel` and the like) return at once;
/// so any time inside an OpenMP runtime counts as waiting, except in the functions
/// known to work for the program: allocation, and libgomp's device copies.
///
/// MPI's libraries ask all neighbours in turn until a message is there, in functions without names, too. They also
/// pack and reduce the program's arrays; such a loop writes along memory, and one that asks does not. (Open MPI copies
/// with the C library's `memcpy`, which is not in question here.)
pub fn waits(module_path: &str, function: Option<&str>) -> Waits {
    let name = library(file_name(module_path));
    let openmp = name.is_some_and(|n| ["libgomp", "libomp", "libiomp5"].contains(&n));
    let waits = match function {
        Some(function) if openmp => !works_for_program(function),
        Some(function) => is_spin_function(function),
        None => openmp,
    };
    match waits {
        true => Waits::Always,
        false if name.is_some_and(carries_messages) => Waits::UnlessItWrites,
        false => Waits::Unknown,
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
        // OpenBLAS: until one of its threads is free, and until they are done.
        "exec_blas_async",
        "blas_thread_server",
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
        let always = |path, function| waits(path, function) == Waits::Always;
        let gomp = "/usr/lib/x86_64-linux-gnu/libgomp.so.1.0.0";
        assert!(always(gomp, None));
        assert!(always(gomp, Some("gomp_team_barrier_wait_end")));
        assert!(!always(gomp, Some("omp_alloc")));
        assert!(!always("/home/me/a.out", None));
        assert!(!always("/home/me/a.out", Some("main [omp parallel]")));
        assert!(always("/home/me/static", Some("gomp_team_barrier_wait_end")));
        assert!(always("/usr/lib/libc.so.6", Some("sched_yield")));
        assert!(!always("/usr/lib/libc.so.6", Some("memset")));
        let blas = "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblasp-r0.3.21.so";
        assert!(may_wait_by_name(blas) && always(blas, Some("exec_blas_async")));
        let wheel = "/venv/lib/python3.11/site-packages/numpy.libs/libscipy_openblas64_-32a4b2a6.so";
        assert!(may_wait_by_name(wheel) && always(wheel, Some("blas_thread_server")));
        assert!(!always(blas, Some("dgemm_kernel_SKYLAKEX")) && !always(blas, None));
        assert!(may_wait_by_name(gomp) && !may_wait_by_name("/home/me/libsolver.so"));
    }

    #[test]
    fn time_in_mpi_is_waiting_unless_it_writes() {
        for path in [
            "/usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4",
            "/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3/mca_btl_vader.so",
            "/usr/lib/x86_64-linux-gnu/libopen-pal.so.40.30.2",
            "/usr/lib/x86_64-linux-gnu/libmpich.so.12.2.2",
            "/usr/lib/x86_64-linux-gnu/ucx/libuct_ib.so.0.0.0",
        ] {
            assert!(is_runtime(path), "{path}");
            assert_eq!(waits(path, None), Waits::UnlessItWrites, "{path}");
        }
        assert_eq!(waits("/home/me/mca_solver", None), Waits::Unknown);
        assert_eq!(waits("/usr/lib/libhdf5_openmpi.so.103", None), Waits::Unknown);
        assert_eq!(waits("/home/me/libmpitools.so", None), Waits::Unknown);
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
