//! What the virtual machine's plugin writes before anybody knows the rows of the
//! recording that its threads and addresses belong to. Not part of a recording:
//! the binary turns these rows into rows of [`super::tables`] when the run is over.

use crate::table;

table! {
    /// A sample as the virtual machine's plugin writes it; becomes a row of `samples` when the run is over.
    RawSample / RawSamples = "sim_samples" {
        /// When, ns of the guest's CLOCK_MONOTONIC.
        time_ns: u64,
        /// Kernel index of the cpu.
        cpu: u16,
        /// Kernel thread id in the guest; 0 if unknown.
        tid: u32,
        /// Address of the instruction.
        ip: u64,
        /// Data address; for a line written back, of that line; 0 for a sample of time in an instruction without one.
        address: u64,
        /// An `Access`; unknown for a line written back.
        access: u8,
        /// Node of the memory; for a line from another node's cache, that node.
        page_node: i16,
        /// A `SampleSource`: a line from or to memory, one that a cache of another node supplied, an access, or time.
        source: u8,
        /// Lines that it stands for, accesses, or ns.
        stands_for: u32,
        /// The epoch that it is in; u32::MAX for accesses and time.
        epoch: u32,
        /// Where the data of an access came from: a `Served`; 0 for others.
        served: u8,
        /// Cycles that such an access waited; 0 for others.
        latency_cycles: u32,
    }
}

table! {
    /// A page's traffic as the virtual machine's plugin writes it; becomes a row of `page_traffic`.
    RawPage / RawPages = "sim_pages" {
        /// Kernel process id in the guest; 0 if unknown.
        pid: u32,
        /// First byte of the page.
        address: u64,
        /// Node of the cpus.
        from: i16,
        /// Node of the page.
        page_node: i16,
        /// Lines read from DRAM.
        read_lines: u64,
        /// Lines written to DRAM, streamed ones included.
        write_lines: u64,
        /// 1 if counted in the region of interest, else 0.
        region: u8,
    }
}

table! {
    /// What one cpu did in one epoch, or in a part of it, while its accesses were not counted (`record --sample-windows`).
    RawUncounted / RawUncounteds = "sim_uncounted" {
        /// Number of the epoch.
        epoch: u32,
        /// 1 inside the region of interest, else 0.
        region: u8,
        /// Kernel index of the cpu.
        cpu: u16,
        /// Instructions retired in user mode by the program.
        instructions: u64,
        /// Time by the core's own simulated clock, ns: that of its instructions at the speed of its last window.
        busy_ns: f64,
        /// Length of the epoch on the clock that all cpus share, ns; 0 if the run ended before the epoch.
        epoch_ns: f64,
    }
}

table! {
    /// Something that a program in the virtual machine reported about its run. Epochs after the first mark of
    /// `MAIN` are the program proper; what came before was loading.
    RawMark / RawMarks = "sim_marks" {
        /// When, ns of the guest's CLOCK_MONOTONIC; 0 if unknown.
        time_ns: u64,
        /// First epoch, on any cpu, that is after it.
        epoch: u32,
        /// A `MarkKind` of `tables`.
        what: u8,
        /// Kernel process id in the guest; 0 if unknown.
        pid: u32,
        /// Kernel thread id in the guest; 0 if unknown.
        tid: u32,
    }
}

table! {
    /// A phase began or ended in a program under the virtual machine.
    RawPhaseMark / RawPhaseMarks = "sim_phase_marks" {
        /// When, ns of the guest's CLOCK_MONOTONIC, as the phase has it.
        time_ns: u64,
        /// Kernel process id in the guest.
        pid: u32,
        /// Kernel thread id in the guest.
        tid: u32,
        /// Simulated time of the cpu, ns.
        simulated_ns: u64,
    }
}
