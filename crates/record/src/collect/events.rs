//! From events to rows: what a perf record or an agent record means for the tables.

mod mappings;

use super::perf::event::{Body, Event, MemoryAccess};
use super::process_table::ProcessTable;
use super::progress::{At, Progress};
use crate::store::Tables;
use nearfar_decode::Registers;
use nearfar_host::proc;
use nearfar_host::symbols::Regs;
use nearfar_recording::*;
use std::collections::HashMap;

/// Frames of a call chain at most.
const MAX_FRAMES: usize = 64;

/// A chain that waits for the row of its fault: (ip, address, chain).
type Waiting = (u64, u64, u32);

/// Turns events into rows.
pub struct Interpreter {
    /// The processes.
    pub processes: ProcessTable,
    /// CPU time that a clock sample stands for, ns.
    pub sample_weight_ns: u32,
    /// Whether rule P holds here; otherwise samples keep their instruction only.
    pub decode: bool,
    /// Unwind clock samples by .eh_frame instead of frame pointers.
    pub unwind_samples: bool,
    /// Chains and rows of the same fault come as two events, in either order.
    waiting_chain: HashMap<u32, Waiting>,
    last_fault: HashMap<u32, (u64, u64, usize)>,
    /// Path of the agent's shared file, which is not part of the program.
    pub own_files: Vec<String>,
    /// Records lost so far, by kind, not yet written.
    pub lost: u64,
    /// Times that the kernel throttled the events.
    pub throttled: u64,
    /// Set where every process of the machine is recorded but this one: the threads and mappings of a process that ran before
    /// are read when it first runs.
    pub all_but: Option<u32>,
    /// Samples so far.
    pub samples: u64,
    /// How far threads were in loops.
    progress: Progress,
}

impl Interpreter {
    /// an interpreter of a process table without processes.
    pub fn new(sample_weight_ns: u32, decode: bool) -> Interpreter {
        Interpreter {
            processes: ProcessTable::new(),
            sample_weight_ns,
            decode,
            unwind_samples: false,
            waiting_chain: HashMap::new(),
            last_fault: HashMap::new(),
            own_files: Vec::new(),
            lost: 0,
            throttled: 0,
            all_but: None,
            samples: 0,
            progress: Progress::default(),
        }
    }

    /// To be called when the tables were written out: row numbers start anew.
    pub fn flushed(&mut self) {
        self.last_fault.clear();
    }

    /// Interprets one perf event.
    pub fn event(&mut self, event: Event, tables: &mut Tables) {
        let Event { time_ns, pid, tid, cpu, body } = event;
        if let Some(own) = self.all_but {
            match &body {
                _ if pid == own => return,
                Body::Fork { parent_pid } => self.meet(*parent_pid, time_ns, tables),
                // What it was before is gone, and its mappings follow.
                Body::Comm { exec: true, .. } | Body::Exit => {}
                _ => self.meet(pid, time_ns, tables),
            }
        }
        self.samples += u64::from(matches!(body, Body::Clock { .. } | Body::Memory(_)));
        match body {
            Body::Clock { ip, cpu_ns, registers, chain, stack } => {
                let Some(registers) = general_registers(&registers, ip) else {
                    return self.bare_sample(
                        SampleAt { time_ns, cpu_ns, pid, tid, cpu, weight_ns: self.sample_weight_ns },
                        ip,
                        &chain,
                        tables,
                    );
                };
                let space = self.processes.space_of(pid, time_ns, tables);
                let chain = if self.unwind_samples && !stack.is_empty() {
                    let regs = Regs { ip, sp: registers.gpr[4], bp: registers.gpr[5], lr: 0 };
                    self.processes.unwinder.unwind(space, regs, regs.sp, &stack, MAX_FRAMES)
                } else {
                    chain
                };
                let at = SampleAt { time_ns, cpu_ns, pid, tid, cpu, weight_ns: self.sample_weight_ns };
                self.sample(at, registers, &chain, SampleSource::Clock, tables);
            }
            Body::Fault { ip, address, page_bytes } => {
                self.fault(time_ns, pid, tid, cpu, ip, address, page_bytes, tables);
            }
            Body::FaultChain { ip, address, registers, stack } => {
                // The kernel's own instruction has no frames; those of the call that it works for do.
                let at = if in_kernel(ip) { user_ip(&registers).unwrap_or(ip) } else { ip };
                let Some(registers) = general_registers(&registers, at) else {
                    return;
                };
                let space = self.processes.space_of(pid, time_ns, tables);
                let regs = Regs { ip: at, sp: registers.gpr[4], bp: registers.gpr[5], lr: 0 };
                let frames = self.processes.unwinder.unwind(space, regs, regs.sp, &stack, MAX_FRAMES);
                let chain = self.processes.chain(space, &frames, tables);
                match self.last_fault.get(&tid) {
                    Some(&(last_ip, last_address, row)) if (last_ip, last_address) == (ip, address) => {
                        tables.faults.chain[row] = chain;
                    }
                    _ => {
                        self.waiting_chain.insert(tid, (ip, address, chain));
                    }
                }
            }
            Body::Memory(access) => self.access(time_ns, pid, tid, cpu, &access, tables),
            Body::Mmap { start, bytes, offset, protection, flags, file, name } => {
                let space = self.processes.space_of(pid, time_ns, tables);
                let mut bits = (protection & 7) as u8;
                if flags & libc::MAP_SHARED as u32 != 0 {
                    bits |= 8;
                }
                let stack = flags & libc::MAP_STACK as u32 != 0;
                let map = proc::Map { start, end: start + bytes, flags: bits, offset, file, name };
                self.mapping(space, &map, stack, time_ns, tables);
            }
            Body::Comm { name, exec } => {
                if exec {
                    self.exec(pid, tid, time_ns, name, tables);
                } else if !self.processes.knows_thread(pid, tid) {
                    let space = self.processes.space_of(pid, time_ns, tables);
                    self.processes.add_thread(space, tid, time_ns, name, tables);
                }
            }
            Body::Fork { parent_pid } => {
                if pid != parent_pid {
                    self.fork(parent_pid, pid, time_ns, tables);
                }
                let space = self.processes.space_of(pid, time_ns, tables);
                let name = self.processes.name_of(pid, tid);
                self.processes.add_thread(space, tid, time_ns, name, tables);
            }
            Body::Exit => {
                self.processes.end_thread(tid);
                self.waiting_chain.remove(&tid);
                self.last_fault.remove(&tid);
                if pid == tid {
                    self.processes.end_space(pid, time_ns, tables);
                }
            }
            Body::Lost { count } => self.lost = self.lost.saturating_add(count),
            // Chains are a sample of the faults anyway.
            Body::LostChains { .. } => {}
            Body::Throttled => self.throttled += 1,
        }
    }

    /// A process that ran before it was recorded: its threads and mappings as they are now.
    pub fn meet(&mut self, pid: u32, time_ns: u64, tables: &mut Tables) {
        if self.processes.knows(pid) {
            return;
        }
        let space = self.processes.add_space(pid, NONE, false, time_ns, tables);
        for tid in proc::threads(pid) {
            self.processes.add_thread(space, tid, time_ns, proc::name(pid, tid), tables);
        }
        self.scan_maps(pid, time_ns, tables);
    }

    /// A child process as a copy of its parent.
    pub fn fork(&mut self, parent_pid: u32, pid: u32, time_ns: u64, tables: &mut Tables) -> u32 {
        let parent = self.processes.space_of(parent_pid, time_ns, tables);
        self.processes.add_space(pid, parent, true, time_ns, tables)
    }

    /// A new program image in a process.
    pub fn exec(&mut self, pid: u32, tid: u32, time_ns: u64, name: String, tables: &mut Tables) -> u32 {
        let old = self.processes.end_space(pid, time_ns, tables).unwrap_or(NONE);
        let space = self.processes.add_space(pid, old, false, time_ns, tables);
        self.processes.add_thread(space, tid, time_ns, name, tables);
        space
    }

    /// A clock or signal sample with registers. `chain[0]`, if any, is the sampled ip.
    pub fn sample(
        &mut self,
        at: SampleAt,
        registers: Registers,
        chain: &[u64],
        source: SampleSource,
        tables: &mut Tables,
    ) {
        let SampleAt { time_ns, cpu_ns, pid, tid, cpu, weight_ns } = at;
        let space = self.processes.space_of(pid, time_ns, tables);
        let thread = self.processes.thread(pid, tid, time_ns, tables);
        let ip = match in_kernel(registers.ip) {
            true => self.processes.kernel_location(space, tables),
            false => self.processes.location(space, registers.ip, tables),
        };
        let chain = if chain.is_empty() { NONE } else { self.processes.chain(space, chain, tables) };
        let mut row = AccessSample {
            time_ns,
            thread,
            cpu: cpu as u16,
            ip,
            operand_ip: ip,
            address: 0,
            resolution: Resolution::Unresolved as u8,
            access: Access::Unknown as u8,
            chain,
            weight_ns,
            lines: 0,
            page_node: -1,
            epoch: NONE,
            served: 0,
            latency_cycles: 0,
            period: 0,
            data_src: 0,
            source: source as u8,
        };
        if self.processes.spins(space, registers.ip) {
            row.resolution = Resolution::Spinning as u8;
        } else if self.decode {
            let resolved = self
                .processes
                .with_code(space, registers.ip, |decoder, code| decoder.resolve(space, &registers, |_| code));
            row.resolution = resolved.resolution as u8;
            row.access = resolved.access as u8;
            row.address = resolved.address;
            row.operand_ip = self.processes.location(space, resolved.operand_ip, tables);
            let at = At { time_ns, cpu_ns, space, thread, cpu: cpu as u16, ip };
            self.progress.note(at, &registers, &mut self.processes, tables);
        }
        tables.samples.push(row);
    }

    /// A sampled access: the processor said the address and where the data came from.
    fn access(
        &mut self,
        time_ns: u64,
        pid: u32,
        tid: u32,
        cpu: u32,
        access: &MemoryAccess,
        tables: &mut Tables,
    ) {
        let space = self.processes.space_of(pid, time_ns, tables);
        let thread = self.processes.thread(pid, tid, time_ns, tables);
        let ip = match in_kernel(access.ip) {
            true => self.processes.kernel_location(space, tables),
            false => self.processes.location(space, access.ip, tables),
        };
        let chain = match access.chain.as_slice() {
            [] => NONE,
            chain => self.processes.chain(space, chain, tables),
        };
        let known = access.address != 0 && !in_kernel(access.address);
        tables.samples.push(AccessSample {
            time_ns,
            thread,
            cpu: u16::try_from(cpu).unwrap_or(u16::MAX),
            ip,
            operand_ip: ip,
            address: if known { access.address } else { 0 },
            resolution: if known { Resolution::Exact } else { Resolution::Unresolved } as u8,
            access: access.access,
            chain,
            weight_ns: 0,
            source: SampleSource::Hardware as u8,
            lines: 0,
            page_node: access.page_node,
            epoch: NONE,
            served: access.served,
            latency_cycles: access.latency_cycles,
            period: access.period,
            data_src: access.data_src,
        });
    }

    /// A sample without registers: the time is known, the address is not.
    fn bare_sample(&mut self, at: SampleAt, ip: u64, chain: &[u64], tables: &mut Tables) {
        let decode = std::mem::replace(&mut self.decode, false);
        self.sample(at, Registers { ip, ..Registers::default() }, chain, SampleSource::Clock, tables);
        self.decode = decode;
    }

    #[allow(clippy::too_many_arguments)] // the fields of one record
    fn fault(
        &mut self,
        time_ns: u64,
        pid: u32,
        tid: u32,
        cpu: u32,
        ip: u64,
        address: u64,
        page_bytes: u64,
        tables: &mut Tables,
    ) {
        let space = self.processes.space_of(pid, time_ns, tables);
        let thread = self.processes.thread(pid, tid, time_ns, tables);
        let (location, access) = match in_kernel(ip) {
            // What it copies to or from is not known of its instruction.
            true => (self.processes.kernel_location(space, tables), Access::Unknown),
            false => self.processes.fault_location(space, ip, tables),
        };
        let chain = match self.waiting_chain.remove(&tid) {
            Some((its_ip, its_address, chain)) if (its_ip, its_address) == (ip, address) => chain,
            _ => NONE,
        };
        self.last_fault.insert(tid, (ip, address, tables.faults.len()));
        tables.faults.push(PageFault {
            time_ns,
            thread,
            cpu: cpu as u16,
            ip: location,
            address,
            access: access as u8,
            chain,
            page_shift: if page_bytes > 0 { page_bytes.ilog2() as u8 } else { 0 },
        });
    }
}

/// When and where a sample was taken.
#[derive(Clone, Copy, Debug)]
pub struct SampleAt {
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// CPU time that the thread had used, ns; [`UNCOUNTED`] if unknown.
    pub cpu_ns: u64,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Cpu, kernel index.
    pub cpu: u32,
    /// CPU time that it stands for, ns.
    pub weight_ns: u32,
}

/// Whether an instruction is the kernel's: on x86-64 and AArch64 its half of the addresses has the top bit set.
pub fn in_kernel(ip: u64) -> bool {
    ip >> 63 == 1
}

/// Where the program entered the kernel.
fn user_ip(kernel: &[u64]) -> Option<u64> {
    kernel.get(USER_IP).copied().filter(|&ip| ip != 0 && !in_kernel(ip))
}

/// Position of the instruction pointer among the registers asked for.
#[cfg(target_arch = "x86_64")]
const USER_IP: usize = 8;
/// Position of the instruction pointer among the registers asked for.
#[cfg(target_arch = "aarch64")]
const USER_IP: usize = 32;

/// Registers in the kernel's order (ax bx cx dx si di bp sp ip r8…r15) as the decoder wants them.
pub fn general_registers(kernel: &[u64], ip: u64) -> Option<Registers> {
    let &[ax, bx, cx, dx, si, di, bp, sp, _ip, r8, r9, r10, r11, r12, r13, r14, r15] = kernel else {
        return None;
    };
    Some(Registers { gpr: [ax, cx, dx, bx, sp, bp, si, di, r8, r9, r10, r11, r12, r13, r14, r15], ip })
}
