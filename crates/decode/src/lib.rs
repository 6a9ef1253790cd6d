//! From a timer sample's registers to the memory address that took the time: rule P.
//!
//! A timer interrupt waits for the instruction that stalls to retire, so the
//! sampled instruction is the one *behind* it, and the registers are those after
//! it. Rule P reads the stalled instruction's operand back from them:
//!
//! 1. `exact`: the operand of the instruction that retired last, which is the
//!    one above the sample, or the end of the loop where the sample is a loop
//!    head. A comparison and the jump fused with it count as one. Its address
//!    registers must still hold, or be computable from registers that do.
//! 2. `string`: a `rep` instruction at the sample itself, which is interruptible
//!    and keeps its progress in its registers. It is asked first, because long
//!    copies take more samples than what precedes them.
//! 3. `next`: a load that replaced its own pointer (`mov rax, [rax]`). The new
//!    pointer is where the same load goes next.
//! 4. `object`: only the pointer of the operand holds, not its index.
//! 5. `near`: another operand within 16 instructions. In order: a load whose
//!    value the last instruction consumed; the closest load behind the sample,
//!    with pointer updates undone; a store behind; a load ahead; a store ahead;
//!    pointers only; spilled registers, which are in the cache.
//! 6. `unresolved` if memory is touched but nothing of this holds, `compute` if
//!    none is touched.
//!
//! Each step only counts if it gives a possible user address; else the following
//! one is asked. Whether a sample is a wait loop (`spinning`) is the caller's to say.
//!
//! Measured with a task-clock sample per ms of CPU time on an AMD EPYC (Zen 3,
//! family 25), GCC 12. "In the array" is the share of all samples inside
//! one of the arrays that the loop works on, as the program printed them:
//!
//! | program | exact | string | next | object | near | in the array |
//! |---|---|---|---|---|---|---|
//! | STREAM triad | 89.1 | 0 | 0 | 0 | 10.9 | 99.9 |
//! | pointer chase | 1.2 | 0 | 98.4 | 0 | 0.4 | 99.4 |
//! | 16th-order stencil, AVX2 | 57.6 | 0 | 0 | 0 | 42.4 | 99.8 |
//! | gather loop, scalar | 98.5 | 0 | 0 | 0 | 1.5 | 99.9 |
//! | column walk | 98.5 | 0 | 0 | 0 | 1.5 | 99.9 |
//! | `std::unordered_map` | 95.4 | 0 | 0.2 | 0 | 4.4 | – |
//! | `rep movsb`, `rep stosb` | 0.3 | 99.4 | 0 | 0 | 0.3 | 99.9 |
//! | xz -3 | 44.5 | 0 | 0 | 46.5 | 8.9 | – |
//! | python3, dict and sort | 61.7 | 0 | 1.2 | 1.5 | 35.4 | – |
//!
//! Five phases that timed themselves (stream, random reads, fill, index chase,
//! histogram; one array each) and 9,098 samples: the worst share of an array was
//! 0.11 percentage points off. The index chase (`mov rax, [rsi + rax * 8]`, 66 %
//! of the time) is `object`.
//!
//! The stencil's `near` is arithmetic waiting for arithmetic: its input comes
//! from the cache. Intel (family 6 model 207) gave 94, 81, 91, 96 and 93 % exact
//! for triad, stencil, gather, column walk and map, and 96 % next for the chase.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use iced_x86::{Decoder as X86, DecoderOptions, InstructionInfoFactory};

use nearfar_recording::Access;

mod effect;
mod function;
mod linear;
pub mod loops;
mod needs;
mod operand;
mod plan;
pub mod translate;
mod value;

pub use needs::{Described, describe, of_avx512};
pub use value::{FunctionCode, Registers, Resolved};

use function::Function;
use loops::{CodeLoop, Core};
use plan::Plan;

/// Whether rule P is known to hold on an architecture, as `uname -m` names it.
///
/// It rests on the skid of timer samples, which was measured on x86-64 only.
pub fn supported(arch: &str) -> bool {
    arch == "x86_64"
}

/// Instructions of decoded functions to keep; they take 40 bytes each.
const KEPT_INSTRUCTIONS: usize = 256 * 1024;

/// Loops without known bounds of their functions that are looked at for one around an instruction. // chosen
const NESTED: usize = 4;

/// Resolves samples; decodes each sampled instruction once.
pub struct Decoder {
    /// By address space: those of ten thousand short processes come and go beside a long one.
    known: HashMap<u32, Known>,
    kept: usize,
    factory: InstructionInfoFactory,
    /// The processor that the code runs on; `None`: what loops cost is not known.
    pub core: Option<&'static Core>,
}

/// What is known of the code of an address space.
#[derive(Default)]
struct Known {
    plans: HashMap<u64, Plan>,
    /// Decoded functions by their start: neighbouring samples share them.
    functions: BTreeMap<u64, Function>,
    /// Loops whose functions have no known bounds, by their start.
    unbounded: BTreeMap<u64, Function>,
    /// Loops by sampled instruction.
    loops: HashMap<u64, Option<Arc<CodeLoop>>>,
    /// The same by their first and last instruction.
    by_range: HashMap<(u64, u64), Arc<CodeLoop>>,
}

impl Known {
    /// Instructions of the functions.
    fn kept(&self) -> usize {
        self.functions.values().chain(self.unbounded.values()).map(|f| f.instructions.len()).sum()
    }
}

/// The code whose loops an instruction may be in, and its index there.
fn around<'a>(
    functions: &'a BTreeMap<u64, Function>,
    unbounded: &'a BTreeMap<u64, Function>,
    ip: u64,
) -> Option<(&'a Function, usize)> {
    let whole = functions.range(..=ip).next_back();
    // An inner loop that was found first begins nearer than the one around it.
    let loops = unbounded.range(..=ip).rev().take(NESTED);
    whole.into_iter().chain(loops).find_map(|(_, function)| Some((function, function.index(ip)?)))
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder::new()
    }
}

impl Decoder {
    /// A decoder that knows no code yet.
    pub fn new() -> Self {
        Decoder { known: HashMap::new(), kept: 0, factory: InstructionInfoFactory::new(), core: None }
    }

    /// The address that a sample of the address space `space` stands for.
    ///
    /// `code` is asked for the function around `registers.ip`, at most once per
    /// place; what it answers, `None` included, holds until [`Decoder::forget`].
    pub fn resolve<'c>(
        &mut self,
        space: u32,
        registers: &Registers,
        code: impl FnOnce(u64) -> Option<FunctionCode<'c>>,
    ) -> Resolved {
        if let Some(plan) = self.known.get(&space).and_then(|known| known.plans.get(&registers.ip)) {
            return plan.resolve(registers);
        }
        let plan = self.plan(space, registers.ip, code);
        let resolved = plan.resolve(registers);
        self.known.entry(space).or_default().plans.insert(registers.ip, plan);
        resolved
    }

    /// The innermost loop around an instruction that was resolved; `None` if it is in none, or if it is longer than the code that
    /// is known around it.
    pub fn loop_around(&mut self, space: u32, ip: u64) -> Option<Arc<CodeLoop>> {
        let known = self.known.get_mut(&space)?;
        if let Some(found) = known.loops.get(&ip) {
            return found.clone();
        }
        let (function, at) = around(&known.functions, &known.unbounded, ip)?;
        let found = CodeLoop::range(function, at).map(|span| {
            // All instructions of a loop share it.
            let head = function.instructions[*span.start()].ip();
            let last = function.instructions[*span.end()].ip();
            let make = || Arc::new(CodeLoop::of(function, span, self.core, &mut self.factory));
            known.by_range.entry((head, last)).or_insert_with(make).clone()
        });
        known.loops.insert(ip, found.clone());
        found
    }

    /// Whether the instruction at `ip`, which was resolved, copies or works on an array: it repeats itself (`rep movsb`), or the
    /// innermost loop around it writes to one place after the other.
    pub fn writes_along(&mut self, space: u32, ip: u64) -> bool {
        let known = self.known.get(&space);
        let found = known.and_then(|known| around(&known.functions, &known.unbounded, ip));
        let repeats = found
            .map(|(function, at)| &function.instructions[at])
            .is_some_and(|i| i.is_string_instruction() && (i.has_rep_prefix() || i.has_repne_prefix()));
        repeats || self.loop_around(space, ip).is_some_and(|code| code.writes_along())
    }

    /// What the instruction at `ip` does to memory, as a page fault there asks.
    ///
    /// One with two operands (`movs`, `push [m]`) may have faulted at either:
    /// load and store together. Unknown where no code exists or no operand,
    /// as when the instruction itself had to be fetched.
    pub fn access_at(&mut self, ip: u64, code: Option<FunctionCode<'_>>) -> Access {
        let bytes = code.and_then(|code| {
            let offset = usize::try_from(ip.checked_sub(code.start)?).ok()?;
            code.bytes.get(offset..)
        });
        bytes.map_or(Access::Unknown, |bytes| {
            let instruction = X86::with_ip(64, bytes, ip, DecoderOptions::NONE).decode();
            operand::access(&instruction, self.factory.info(&instruction))
        })
    }

    /// Drops what is known of an address space: it was replaced by exec, or its
    /// code changed.
    pub fn forget(&mut self, space: u32) {
        if let Some(known) = self.known.remove(&space) {
            self.kept -= known.kept();
        }
    }

    fn plan<'c>(&mut self, space: u32, ip: u64, code: impl FnOnce(u64) -> Option<FunctionCode<'c>>) -> Plan {
        let known = self.known.entry(space).or_default();
        let known = known.functions.range(..=ip).next_back();
        let place = known.and_then(|(_, function)| Some((function, function.index(ip)?)));
        if let Some((function, at)) = place {
            return Plan::build(function, at, &mut self.factory);
        }
        let code = code(ip);
        let Some((function, whole)) = code.and_then(|code| Function::around(&code, ip)) else {
            return Plan::unknown();
        };
        let plan = match function.index(ip) {
            Some(at) => Plan::build(&function, at, &mut self.factory),
            None => Plan::unknown(),
        };
        let kept = if whole { Some(function) } else { code.and_then(|code| Function::looped(&code, ip)) };
        if let Some(function) = kept {
            self.keep(space, function, whole);
        }
        plan
    }

    /// Keeps a function, or a loop of one whose bounds are not known.
    fn keep(&mut self, space: u32, function: Function, whole: bool) {
        if self.kept > KEPT_INSTRUCTIONS {
            for known in self.known.values_mut() {
                known.functions.clear();
                known.unbounded.clear();
            }
            self.kept = 0;
        }
        self.kept += function.instructions.len();
        let known = self.known.entry(space).or_default();
        let functions = if whole { &mut known.functions } else { &mut known.unbounded };
        if let Some(replaced) = functions.insert(function.start, function) {
            self.kept -= replaced.instructions.len();
        }
    }
}
