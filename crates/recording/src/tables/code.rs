//! Places in the code.

use crate::table;

table! {
    /// A code address that other tables refer to.
    Location / Locations = "locations" {
        /// Row id.
        id: u32,
        /// Its address space; a fork's child refers to those of its parent while both have the same file there.
        process: u32,
        /// Virtual address in that address space.
        address: u64,
        /// The module it is in; u32::MAX for generated code.
        module: u32,
        /// Offset in the module's file.
        file_offset: u64,
    }
}

table! {
    /// A mapped file that holds code or static data.
    Module / Modules = "modules" {
        /// Row id.
        id: u32,
        /// Path as the kernel gave it.
        path: String,
        /// Build id in hex; empty if none; `another file` if it was gone and its path led to another one.
        build_id: String,
        /// 1 for libraries that run on behalf of their caller (libc, allocators, libstdc++, OpenMP runtimes): a site inside is reported as its caller's line.
        runtime: u8,
    }
}

table! {
    /// Function and line of a location, one row per inlined frame, innermost (depth 0) first.
    Symbol / Symbols = "symbols" {
        /// Which location.
        location: u32,
        /// 0 is the innermost inlined function; the highest is the real one.
        depth: u16,
        /// Demangled name; empty if unknown.
        function: String,
        /// Source file; empty if unknown.
        file: String,
        /// Line in it; 0 if unknown.
        line: u32,
    }
}

table! {
    /// A frame of a call chain.
    ChainFrame / ChainFrames = "chains" {
        /// Chain id; rows of one chain are adjacent.
        chain: u32,
        /// 0 is where the event happened, 1 its caller, and so on.
        depth: u16,
        /// The frame's location. Callers are return addresses less one, so that their line is the call's.
        location: u32,
    }
}
