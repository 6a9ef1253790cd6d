//! Processes and threads.

use crate::table;

table! {
    /// An address space: a program image in a process. `exec` ends one and begins the next.
    Process / Processes = "processes" {
        /// Row id; what other tables call `process`.
        id: u32,
        /// Kernel process id.
        pid: u32,
        /// The address space it was forked or exec'ed from.
        parent: u32,
        /// 1 if it began as a copy of its parent (fork), 0 if as a fresh image (exec).
        forked: u8,
        /// Begin, ns.
        start_ns: u64,
        /// Path of the executable.
        executable: String,
    }
}

table! {
    /// The end of an address space.
    ProcessEnd / ProcessEnds = "process_ends" {
        /// Which address space.
        process: u32,
        /// When, ns.
        time_ns: u64,
    }
}

table! {
    /// A thread, numbered in creation order.
    Thread / Threads = "threads" {
        /// Row id; what other tables call `thread`. Ascending in creation order.
        id: u32,
        /// Its address space.
        process: u32,
        /// Kernel thread id.
        tid: u32,
        /// Begin, ns.
        start_ns: u64,
        /// Name as the kernel knows it (comm).
        name: String,
    }
}
