//! What an instruction does to the general registers, as far as it is linear.

use iced_x86::{Instruction, InstructionInfo, Mnemonic, OpAccess, OpKind, Register};

use super::linear::{Linear, State, Width};

/// The number of a general register of any width; `None` for other registers.
pub(super) fn number(register: Register) -> Option<u8> {
    let full = register.full_register();
    if full.is_gpr64() { Some(full.number() as u8) } else { None }
}

/// Each register written, with its new value over the old ones where known.
#[derive(Debug)]
pub(super) struct Effects {
    written: Vec<(u8, Option<Linear>)>,
}

impl Effects {
    pub fn of(instruction: &Instruction, info: &InstructionInfo) -> Effects {
        let mut written: Vec<(u8, Option<Linear>)> = Vec::new();
        for used in info.used_registers() {
            let writes = matches!(
                used.access(),
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            let register = number(used.register()).filter(|_| writes);
            let new = register.filter(|new| !written.iter().any(|(known, _)| known == new));
            written.extend(new.map(|register| (register, None)));
        }
        for (register, value) in known_values(instruction) {
            if let Some(entry) = written.iter_mut().find(|(known, _)| *known == register) {
                entry.1 = Some(value);
            }
        }
        Effects { written }
    }

    pub fn registers(&self) -> impl Iterator<Item = u8> + '_ {
        self.written.iter().map(|(register, _)| *register)
    }

    /// Rewrites an expression over the registers after the instruction into
    /// one over the registers before it.
    pub fn before(&self, after: &Linear) -> Option<Linear> {
        after.substitute(&self.step())
    }

    /// `state` maps registers before the instruction to what is sampled earlier;
    /// becomes the same for the registers after it.
    pub fn advance(&self, state: &mut State) {
        let next: Vec<_> = self
            .written
            .iter()
            .map(|(register, value)| {
                let value = value.as_ref().and_then(|form| form.substitute(state));
                (*register, value)
            })
            .collect();
        for (register, value) in next {
            state[usize::from(register)] = value;
        }
    }

    /// `state` maps registers after the instruction to what is sampled later;
    /// becomes the same for the registers before it. A register that was
    /// overwritten is lost unless the update can be undone; a register that was
    /// copied from is found again in the copy.
    pub fn undo(&self, state: &mut State) {
        let after = state.clone();
        for (register, _) in &self.written {
            state[usize::from(*register)] = None;
        }
        for (register, value) in &self.written {
            let (Some(form), Some(result)) = (value, &after[usize::from(*register)]) else {
                continue;
            };
            // result = source + rest, so source = result - rest.
            let Some(source) = form.terms.iter().find(|term| {
                term.width == Width::Full && term.factor == 1 && state[usize::from(term.register)].is_none()
            }) else {
                continue;
            };
            let source = source.register;
            let rest = form.clone().plus(&Linear::register(source), -1);
            if rest.mentions(source) {
                continue;
            }
            if let Some(rest) = rest.substitute(state) {
                state[usize::from(source)] = Some(result.clone().plus(&rest, -1));
            }
        }
    }

    fn step(&self) -> State {
        let mut state = super::linear::identity();
        for (register, value) in &self.written {
            state[usize::from(*register)] = value.clone();
        }
        state
    }
}

/// New values of registers, over the registers before the instruction.
///
/// A 32-bit addition is taken as if it did not wrap: undoing `add eax, 1` is
/// then right for every index that is not at the edge of its type.
fn known_values(instruction: &Instruction) -> Vec<(u8, Linear)> {
    let mut values = Vec::new();
    stack_and_string_steps(instruction, &mut values);
    let destination = instruction.op0_register();
    let wide = destination.is_gpr64();
    if instruction.op0_kind() != OpKind::Register || !(wide || destination.is_gpr32()) {
        return values;
    }
    let Some(target) = number(destination) else {
        return values;
    };
    let own = Linear::register(target);
    let value = match instruction.mnemonic() {
        Mnemonic::Inc => Some(own.plus_constant(1)),
        Mnemonic::Dec => Some(own.plus_constant(-1)),
        Mnemonic::Add => second_operand(instruction).map(|other| own.plus(&other, 1)),
        Mnemonic::Sub if instruction.op1_register() == destination => Some(Linear::constant(0)),
        Mnemonic::Sub => second_operand(instruction).map(|other| own.plus(&other, -1)),
        Mnemonic::Xor if instruction.op1_register() == destination => Some(Linear::constant(0)),
        Mnemonic::Mov => match (instruction.op1_kind(), second_operand(instruction)) {
            (OpKind::Register, Some(_)) if !wide => {
                number(instruction.op1_register()).map(|source| Linear::widened(source, Width::Zero32))
            }
            (OpKind::Register, other) if wide => other,
            (_, Some(other)) => {
                Some(if wide { other } else { Linear::constant(other.constant & 0xffff_ffff) })
            }
            _ => None,
        },
        Mnemonic::Movsxd => widened(instruction, Width::Sign32, wide),
        Mnemonic::Movzx => match instruction.op1_register() {
            source if source.is_gpr16() => widened(instruction, Width::Zero16, true),
            // ah, bh, ch and dh are not the low byte.
            Register::AH | Register::BH | Register::CH | Register::DH => None,
            _ => widened(instruction, Width::Zero8, true),
        },
        Mnemonic::Cdqe => Some(Linear::widened(0, Width::Sign32)),
        Mnemonic::Lea => lea(instruction, target, wide),
        Mnemonic::Shl if wide && instruction.op1_kind() == OpKind::Immediate8 => {
            let shift = instruction.immediate8() & 63;
            Some(Linear::default().plus(&own, 1i64.wrapping_shl(u32::from(shift))))
        }
        _ => None,
    };
    values.extend(value.map(|form| (target, form)));
    values
}

fn widened(instruction: &Instruction, width: Width, possible: bool) -> Option<Linear> {
    let register = instruction.op1_kind() == OpKind::Register && possible;
    let source = register.then(|| number(instruction.op1_register()))??;
    Some(Linear::widened(source, width))
}

/// The second operand, where it is a register or an immediate.
pub(super) fn second_operand(instruction: &Instruction) -> Option<Linear> {
    match instruction.op1_kind() {
        OpKind::Register => number(instruction.op1_register()).map(Linear::register),
        OpKind::Immediate8
        | OpKind::Immediate8to32
        | OpKind::Immediate8to64
        | OpKind::Immediate32
        | OpKind::Immediate32to64
        | OpKind::Immediate64 => Some(Linear::constant(match instruction.op1_kind() {
            // `add eax, -1` is encoded as 0xffffffff.
            OpKind::Immediate32 | OpKind::Immediate8to32 => i64::from(instruction.immediate(1) as u32 as i32),
            _ => instruction.immediate(1) as i64,
        })),
        _ => None,
    }
}

fn lea(instruction: &Instruction, target: u8, wide: bool) -> Option<Linear> {
    let form = address(
        instruction.memory_base(),
        instruction.memory_index(),
        instruction.memory_index_scale(),
        instruction.memory_displacement64(),
    )?;
    match (wide, form.single()) {
        (true, _) => Some(form),
        (false, Some((source, _))) if source == target => Some(form),
        (false, Some((source, constant))) => {
            Some(Linear::widened(source, Width::Zero32).plus_constant(constant))
        }
        (false, None) => None,
    }
}

/// `base + scale * index + displacement`; `None` for vector indexes.
/// A RIP base is already in the displacement, as iced gives it.
pub(super) fn address(base: Register, index: Register, scale: u32, displacement: u64) -> Option<Linear> {
    let mut form = Linear::constant(displacement as i64);
    if base != Register::None && !base.is_ip() {
        form = form.plus(&Linear::register(number(base)?), 1);
    }
    if index != Register::None {
        form = form.plus(&Linear::register(number(index)?), i64::from(scale));
    }
    Some(form)
}

/// push, pop and string instructions move their pointers by known amounts. The
/// direction flag is taken as forward, as the ABI demands at every call.
fn stack_and_string_steps(instruction: &Instruction, values: &mut Vec<(u8, Linear)>) {
    let mut step = |register: u8, by: i64| {
        values.push((register, Linear::register(register).plus_constant(by)));
    };
    let moved = instruction.stack_pointer_increment();
    let replaced = instruction.op0_register() == Register::RSP; // `pop rsp`
    if instruction.is_stack_instruction() && moved != 0 && !replaced {
        step(4, i64::from(moved));
    }
    if instruction.is_string_instruction() && !repeats(instruction) {
        let size = instruction.memory_size().size() as i64;
        step(6, size);
        step(7, size);
    }
}

/// A string instruction with a repeat prefix.
pub(super) fn repeats(instruction: &Instruction) -> bool {
    instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}
