//! Rule P for one sampled instruction: where its address may come from, best first.
//!
//! A plan is made once per instruction. Walking backwards from the sample, each
//! operand becomes an expression over the registers at its own place; it is
//! carried further back (an address register that was overwritten may have been
//! computed from others that still hold) until all registers in it can be
//! expressed in sampled ones.

use iced_x86::{
    FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess, Register,
};

use super::effect::{self, Effects};
use super::function::{Function, Step};
use super::linear::{self, Linear, State};
use super::operand::{self, Operand};
use super::{Registers, Resolved};
use nearfar_recording::{Access, Resolution};

/// How many instructions to look at on each side of the sample.
const REACH: usize = 16;
/// Candidates to keep: the first one is nearly always possible, and a large
/// program has many sampled places.
const KEPT: usize = 6;
/// How far back a value consumed by the predecessor is followed.
const DATAFLOW_REACH: usize = 6;
/// User addresses begin above the unmappable first 64 KiB (vm.mmap_min_addr).
const LOWEST_ADDRESS: u64 = 0x1_0000;
/// With five-level page tables user addresses end here.
const HIGHEST_ADDRESS: u64 = 1 << 56;
/// A lone register is taken as a pointer from here on, where programs that are
/// not position-independent are linked; smaller values are indexes.
const LOWEST_POINTER: u64 = 0x40_0000;

/// Classes of candidates, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    String,
    Exact,
    Next,
    Object,
    Dataflow,
    /// A constant of the program, which the retired instruction also read.
    Constant,
    LoadBehind,
    StoreBehind,
    LoadAhead,
    StoreAhead,
    NextBehind,
    ObjectBehind,
    SpillBehind,
    SpillAhead,
}

impl Rank {
    fn resolution(self) -> Resolution {
        match self {
            Rank::String => Resolution::String,
            Rank::Exact | Rank::Constant => Resolution::Exact,
            Rank::Next => Resolution::Next,
            Rank::Object | Rank::ObjectBehind => Resolution::Object,
            _ => Resolution::Near,
        }
    }
}

#[derive(Clone, Debug)]
struct Candidate {
    rank: Rank,
    distance: usize,
    address: Linear,
    /// The register that must hold a pointer for this to make sense: of a
    /// pointer chase, whose last link is null.
    pointer: Option<u8>,
    narrow: bool,
    access: Access,
    operand_ip: u64,
}

impl Candidate {
    fn address(&self, registers: &Registers) -> Option<u64> {
        let sum = self.address.evaluate(&registers.gpr);
        let address = if self.narrow { sum & 0xffff_ffff } else { sum };
        let lowest = match self.rank {
            Rank::Object | Rank::ObjectBehind => LOWEST_POINTER,
            _ => LOWEST_ADDRESS,
        };
        // With rcx = 0 the string instruction has not begun or is already done.
        let idle = self.rank == Rank::String && registers.gpr[1] == 0;
        let null = self.pointer.is_some_and(|register| registers.gpr[usize::from(register)] < LOWEST_POINTER);
        (!idle && !null && (lowest..HIGHEST_ADDRESS).contains(&address)).then_some(address)
    }
}

/// What is known about one sampled instruction.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    candidates: Vec<Candidate>,
    /// Some instruction in reach has a memory operand, or the code is unknown.
    memory: bool,
}

impl Plan {
    /// For code that cannot be read.
    pub fn unknown() -> Plan {
        Plan { candidates: Vec::new(), memory: true }
    }

    /// The first candidate that gives a possible user address.
    pub fn resolve(&self, registers: &Registers) -> Resolved {
        for candidate in &self.candidates {
            if let Some(address) = candidate.address(registers) {
                return Resolved {
                    resolution: candidate.rank.resolution(),
                    access: candidate.access,
                    address,
                    operand_ip: candidate.operand_ip,
                };
            }
        }
        Resolved {
            resolution: match self.memory {
                true => Resolution::Unresolved,
                false => Resolution::Compute,
            },
            access: Access::Unknown,
            address: 0,
            operand_ip: registers.ip,
        }
    }

    pub fn build(function: &Function, at: usize, factory: &mut InstructionInfoFactory) -> Plan {
        let mut plan = Plan::default();
        plan.string(&function.instructions[at]);
        plan.behind(function, at, factory);
        plan.ahead(function, at, factory);
        // Stable: of equals, the one pushed first.
        plan.candidates.sort_by_key(|candidate| (candidate.rank, candidate.distance));
        plan.candidates.truncate(KEPT);
        plan.candidates.shrink_to_fit();
        plan
    }

    /// A repeated string instruction is sampled at itself.
    fn string(&mut self, instruction: &Instruction) {
        if let Some((register, access)) = repeated(instruction) {
            self.memory = true;
            self.candidates.push(Candidate {
                rank: Rank::String,
                distance: 0,
                address: Linear::register(register),
                pointer: None,
                narrow: false,
                access,
                operand_ip: instruction.ip(),
            });
        }
    }

    fn behind(&mut self, function: &Function, at: usize, factory: &mut InstructionInfoFactory) {
        let path = function.backwards(at, REACH);
        let retired = retired_together(function, &path);
        let awaited = awaited_loads(function, &path, retired, factory);
        let mut state = linear::identity();
        let mut touched: u16 = 0;
        let mut pending: Vec<Pending> = Vec::new();
        for (distance, step) in path.iter().enumerate() {
            let instruction = &function.instructions[step.index];
            let info = factory.info(instruction);
            let effects = Effects::of(instruction, info);
            let last = distance < retired;
            if let Some((register, access)) = repeated(instruction) {
                // What it did is behind its registers, not at them.
                let size = instruction.memory_size().size() as i64;
                pending.push(Pending {
                    rank: if last { Rank::Exact } else { Rank::StoreBehind },
                    form: Linear::register(register).plus_constant(-size),
                    distance,
                    operand_ip: instruction.ip(),
                    access,
                    narrow: false,
                });
                self.settle(&mut pending, &state, step.certain);
            }
            pending.retain_mut(|waiting| match effects.before(&waiting.form) {
                Some(form) => {
                    waiting.form = form;
                    true
                }
                None => false,
            });
            effects.undo(&mut state);
            if let Some(operand) = operand::blamed(instruction, info, function.frame_pointer) {
                self.memory = true;
                if repeated(instruction).is_none() {
                    let found = Found {
                        operand,
                        distance,
                        last,
                        awaited: awaited & 1 << distance != 0,
                        operand_ip: instruction.ip(),
                    };
                    self.next_execution(&found, function, (at, step.index), touched, factory);
                    found.wait(&mut pending);
                }
            }
            self.settle(&mut pending, &state, step.certain);
            for register in effects.registers() {
                touched |= 1 << register;
            }
        }
    }

    /// Turns those that can be expressed in sampled registers into candidates.
    fn settle(&mut self, pending: &mut Vec<Pending>, state: &State, certain: bool) {
        pending.retain(|waiting| {
            let Some(address) = waiting.form.substitute(state) else {
                return true;
            };
            let rank = match waiting.rank {
                // Computed on a way that may not have been the one taken.
                Rank::Exact if !certain => Rank::LoadBehind,
                rank => rank,
            };
            self.candidates.push(Candidate {
                rank,
                distance: waiting.distance,
                address,
                pointer: None,
                narrow: waiting.narrow,
                access: waiting.access,
                operand_ip: waiting.operand_ip,
            });
            false
        });
    }

    /// A load that replaced its own pointer, or its own index: the registers say where it goes next.
    ///
    /// A pointer that was loaded is likely to be followed. An index (`mov eax, [rdi + rax * 4]`) is only if the way from the sample leads to the
    /// same load with nothing else in the register; elsewhere what a table holds says nothing about the next index.
    fn next_execution(
        &mut self,
        found: &Found,
        function: &Function,
        (at, from): (usize, usize),
        touched: u16,
        factory: &mut InstructionInfoFactory,
    ) {
        let instruction = &function.instructions[from];
        let (Some(form), Some(base)) = (&found.operand.address, effect::number(instruction.memory_base()))
        else {
            return;
        };
        let loaded = instruction.op0_register();
        let later = form.terms.iter().any(|term| touched & 1 << term.register != 0);
        if instruction.mnemonic() != Mnemonic::Mov || later || found.operand.spill {
            return;
        }
        let follows = loaded == instruction.memory_base() && loaded.is_gpr64();
        let counts = loaded.full_register() == instruction.memory_index()
            && (loaded.is_gpr64() || loaded.is_gpr32())
            && comes_again(function, (at, from), form, factory);
        if follows || counts {
            self.candidates.push(Candidate {
                rank: if found.last { Rank::Next } else { Rank::NextBehind },
                distance: found.distance,
                address: form.clone(),
                pointer: Some(base),
                narrow: found.operand.narrow,
                access: found.operand.access,
                operand_ip: found.operand_ip,
            });
        }
    }

    fn ahead(&mut self, function: &Function, at: usize, factory: &mut InstructionInfoFactory) {
        let mut state = linear::identity();
        for (distance, index) in function.forwards(at, REACH).into_iter().enumerate() {
            let instruction = &function.instructions[index];
            let info = factory.info(instruction);
            let effects = Effects::of(instruction, info);
            if let Some(operand) = operand::blamed(instruction, info, function.frame_pointer) {
                self.memory = true;
                let address = operand.address.as_ref().and_then(|form| form.substitute(&state));
                let rank = match operand.access {
                    _ if operand.spill => Rank::SpillAhead,
                    Access::Store => Rank::StoreAhead,
                    _ => Rank::LoadAhead,
                };
                let pointer = operand.pointers.iter().filter_map(|form| form.substitute(&state));
                let candidates = match address {
                    Some(address) => vec![(rank, address)],
                    None => pointer.map(|form| (Rank::ObjectBehind, form)).collect(),
                };
                for (rank, address) in candidates {
                    self.candidates.push(Candidate {
                        rank,
                        distance,
                        address,
                        pointer: None,
                        narrow: operand.narrow,
                        access: operand.access,
                        operand_ip: instruction.ip(),
                    });
                }
            }
            effects.advance(&mut state);
        }
    }
}

/// An operand behind the sample.
struct Found {
    operand: Operand,
    distance: usize,
    /// It belongs to what retired last.
    last: bool,
    /// What retired last waited for it.
    awaited: bool,
    operand_ip: u64,
}

impl Found {
    fn wait(self, pending: &mut Vec<Pending>) {
        let (operand, rank) = (&self.operand, self.rank());
        let mut push = |rank, form: &Linear| {
            pending.push(Pending {
                rank,
                form: form.clone(),
                distance: self.distance,
                operand_ip: self.operand_ip,
                access: operand.access,
                narrow: operand.narrow,
            });
        };
        if let Some(form) = &operand.address {
            push(rank, form);
        }
        if !operand.spill {
            let rank = if self.last { Rank::Object } else { Rank::ObjectBehind };
            for form in &operand.pointers {
                push(rank, form);
            }
        }
    }

    fn rank(&self) -> Rank {
        match self.operand.access {
            _ if self.last && is_constant(&self.operand) => Rank::Constant,
            _ if self.last => Rank::Exact,
            _ if self.operand.spill => Rank::SpillBehind,
            Access::Store => Rank::StoreBehind,
            _ if self.awaited => Rank::Dataflow,
            _ => Rank::LoadBehind,
        }
    }
}

/// A load from an address fixed in the code: a coefficient or a mask of a loop.
/// It stays in the first-level cache, so what the instruction waited for is its
/// other operand: a stencil's `vfmadd132ps table(%rip), %ymm0, %ymm2` waits for the grid.
fn is_constant(operand: &Operand) -> bool {
    operand.access == Access::Load && operand.address.as_ref().is_some_and(|form| form.terms.is_empty())
}

/// An operand on its way back to registers that still hold.
struct Pending {
    rank: Rank,
    /// Over the registers at the place the walk has reached.
    form: Linear,
    distance: usize,
    operand_ip: u64,
    access: Access,
    narrow: bool,
}

/// The pointer that shows the progress of a repeated string instruction, and
/// what it does there: the destination of `movs`, as that is what gets placed.
fn repeated(instruction: &Instruction) -> Option<(u8, Access)> {
    const RSI: u8 = 6;
    const RDI: u8 = 7;
    if !effect::repeats(instruction) {
        return None;
    }
    match instruction.mnemonic() {
        Mnemonic::Movsb | Mnemonic::Movsw | Mnemonic::Movsd | Mnemonic::Movsq => Some((RDI, Access::Store)),
        Mnemonic::Stosb | Mnemonic::Stosw | Mnemonic::Stosd | Mnemonic::Stosq => Some((RDI, Access::Store)),
        Mnemonic::Scasb | Mnemonic::Scasw | Mnemonic::Scasd | Mnemonic::Scasq => Some((RDI, Access::Load)),
        Mnemonic::Lodsb | Mnemonic::Lodsw | Mnemonic::Lodsd | Mnemonic::Lodsq => Some((RSI, Access::Load)),
        Mnemonic::Cmpsb | Mnemonic::Cmpsw | Mnemonic::Cmpsd | Mnemonic::Cmpsq => Some((RSI, Access::Load)),
        _ => None,
    }
}

/// Whether the way from an instruction leads to another one before anything changes the registers of an address there.
fn comes_again(
    function: &Function,
    (at, load): (usize, usize),
    form: &Linear,
    factory: &mut InstructionInfoFactory,
) -> bool {
    for index in function.forwards(at, REACH) {
        if index == load {
            return true;
        }
        let instruction = &function.instructions[index];
        let effects = Effects::of(instruction, factory.info(instruction));
        if effects.registers().any(|r| form.terms.iter().any(|term| term.register == r)) {
            return false;
        }
    }
    false
}

/// How many of the last steps retired as one: two for a comparison fused with
/// the conditional jump behind it, else one.
fn retired_together(function: &Function, path: &[Step]) -> usize {
    let [jump, before, ..] = path else {
        return 1;
    };
    let fusible = matches!(
        function.instructions[before.index].mnemonic(),
        Mnemonic::Cmp
            | Mnemonic::Test
            | Mnemonic::Add
            | Mnemonic::Sub
            | Mnemonic::And
            | Mnemonic::Inc
            | Mnemonic::Dec
    );
    let conditional = function.instructions[jump.index].flow_control() == FlowControl::ConditionalBranch;
    let pair = fusible && conditional && before.index + 1 == jump.index && before.certain;
    if pair { 2 } else { 1 }
}

/// Which steps (a bit each) load what the predecessor consumes, where it has no
/// memory operand of its own: the usual wait of arithmetic for a value.
fn awaited_loads(
    function: &Function,
    path: &[Step],
    retired: usize,
    factory: &mut InstructionInfoFactory,
) -> u32 {
    let mut loads = 0;
    let mut registers: Vec<Register> = Vec::new();
    let mut flags = 0;
    for (distance, step) in path.iter().enumerate().take(DATAFLOW_REACH + 1) {
        let instruction = &function.instructions[step.index];
        let info = factory.info(instruction);
        let operand = operand::blamed(instruction, info, function.frame_pointer);
        let load = operand.is_some_and(|operand| operand.access != Access::Store && !is_constant(&operand));
        if distance < retired && load {
            return 0;
        }
        let written = with_access(
            info,
            &[OpAccess::Write, OpAccess::CondWrite, OpAccess::ReadWrite, OpAccess::ReadCondWrite],
        );
        let feeds = flags & instruction.rflags_modified() != 0
            || written.iter().any(|register| registers.contains(register));
        if distance > 0 && !feeds {
            continue;
        }
        registers.retain(|register| !written.contains(register));
        flags &= !instruction.rflags_modified();
        if load {
            loads |= 1 << distance;
        } else {
            registers.extend(with_access(
                info,
                &[OpAccess::Read, OpAccess::CondRead, OpAccess::ReadWrite, OpAccess::ReadCondWrite],
            ));
            flags |= instruction.rflags_read();
        }
    }
    loads
}

fn with_access(info: &InstructionInfo, accesses: &[OpAccess]) -> Vec<Register> {
    info.used_registers()
        .iter()
        .filter(|used| accesses.contains(&used.access()))
        .map(|used| used.register().full_register())
        .collect()
}
