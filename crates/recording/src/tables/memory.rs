//! Objects, ranges of addresses, and the nodes of pages.

use crate::column::Text;
use crate::table;

table! {
    /// A range of memory with a lifetime and, where known, an allocation site and a name.
    MemoryObject / MemoryObjects = "objects" {
        /// Row id; what other tables call `object`.
        id: u32,
        /// Its address space.
        process: u32,
        /// An `ObjectKind`.
        kind: u8,
        /// First byte.
        address: u64,
        /// Size in bytes.
        bytes: u64,
        /// Start of its life, ns; 0 if it was there before the recording.
        born_ns: u64,
        /// Allocating thread.
        thread: u32,
        /// Call chain of the allocation; u32::MAX if unknown.
        chain: u32,
        /// Name known from the system (mapping, symbol, `nearfar_name`); empty if none.
        name: Text,
        /// The object it was reallocated from; its pages may have moved with it.
        previous: u32,
        /// For a sampled small allocation: bytes of allocations that it stands for; else equal to `bytes`.
        represents: u64,
    }
}

table! {
    /// The end of an object's life.
    ObjectEnd / ObjectEnds = "object_ends" {
        /// Which object.
        object: u32,
        /// When, ns.
        time_ns: u64,
    }
}

table! {
    /// Allocations of one site that are not in `objects`: so many came and went at once that they were counted only.
    AllocationGroup / AllocationGroups = "allocation_groups", added {
        /// Address space.
        process: u32,
        /// Call chain of the allocation; u32::MAX if unknown.
        chain: u32,
        /// How many.
        count: u64,
        /// Their bytes in all.
        bytes: u64,
    }
}

table! {
    /// The variables that the functions of an allocation's call chain put the memory into, innermost first.
    SiteName / SiteNames = "site_names" {
        /// The allocation's call chain.
        chain: u32,
        /// The variable's name as in the source; empty where the function returns the memory at once.
        name: String,
        /// How it was found: `dwarf` or `source`.
        how: String,
        /// The frame's location; u32::MAX in older recordings, which name the innermost frame that has a name.
        location: u32 = crate::NONE,
        /// Which of the functions inlined there: the symbols' `depth`.
        depth: u16 = 0,
        /// 1 if that function returns the memory to its caller, an allocation helper; 0 if not; 2 if its source was not to be had.
        handed_on: u8 = 2,
    }
}

table! {
    /// A system call that changes what later faults in a range mean.
    RangeEvent / RangeEvents = "range_events" {
        /// When, ns.
        time_ns: u64,
        /// Address space.
        process: u32,
        /// A `RangeKind`.
        kind: u8,
        /// First byte of the range.
        address: u64,
        /// Size in bytes.
        bytes: u64,
        /// New first byte (mremap); else 0.
        to: u64,
        /// The thread that called; u32::MAX if unknown.
        thread: u32 = crate::NONE,
    }
}

table! {
    /// Pages seen present on a node: a run of pages with the same answer.
    PageNode / PageNodes = "page_nodes" ["homes"] {
        /// When it was looked at, ns.
        time_ns: u64,
        /// Address space.
        process: u32,
        /// First page's address.
        address: u64,
        /// Number of pages looked at in this run.
        pages: u32,
        /// Distance between the pages looked at, in bytes (4096 = each page).
        stride: u64,
        /// Node; −1 if the page was not present.
        node: i16,
        /// log2 of the page's size where the kernel told; 0 if unknown.
        page_shift: u8,
    }
}

table! {
    /// A mapping of an address space.
    Mapping / Mappings = "mappings" {
        /// When it was seen, ns.
        time_ns: u64,
        /// Address space.
        process: u32,
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
        /// File offset of `start`.
        offset: u64,
        /// The file as a module; u32::MAX if none.
        module: u32,
        /// Bits: 1 read, 2 write, 4 execute, 8 shared.
        flags: u8,
        /// Name as in /proc/PID/maps: a path, `[heap]`, `[stack]`, `//anon`.
        name: String,
    }
}
