//! What is asked for when QEMU translates a block.

use crate::api::{Block, Instruction, NO_REGISTERS, PluginId, READ_AND_WRITE, api};
use crate::arguments::Mode;
use crate::callbacks;
use crate::chain;
use crate::code::{self, KERNEL, KernelCode, MARK, MARKED_LOAD, UserCode};
use crate::flops::{self, Ran};
use crate::guard::panic_text;
use crate::plugin_state::plugin;
use crate::userdata::Site;
use iced_x86::InstructionInfoFactory;
use libc::c_void;
use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::Mutex;

/// Addresses behind a mark: a load that faults is translated anew, without the mark before it.
static MARKED: Mutex<Option<HashSet<u64>>> = Mutex::new(None);

thread_local! {
    /// Where the code of the recorder is that runs on this thread's vCPU. Only blocks that this vCPU translates are meant:
    /// at the same address another program has its own pages, and its own blocks of them, which other vCPUs translate.
    static OWN_CODE: RefCell<Range<u64>> = const { RefCell::new(0..0) };
}

/// Changes what is known of it, on its thread.
pub fn own_code(change: impl FnOnce(&mut Range<u64>)) {
    OWN_CODE.with_borrow_mut(change);
}

/// QEMU translates a block.
pub extern "C" fn translate(_id: PluginId, block: *mut Block) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| instrument(block))) {
        plugin().fail(&panic_text(&*panic));
    }
}

/// An instruction that is being translated.
struct Seen<'a> {
    handle: *mut Instruction,
    address: u64,
    bytes: &'a [u8],
}

fn instrument(block: *mut Block) {
    let api = api();
    // SAFETY: `block` and its instructions are QEMU's, valid while it translates, which is now. The bytes
    // are QEMU's copy of as many as it says.
    let instructions: Vec<Seen> = unsafe {
        (0..(api.block_length)(block))
            .map(|i| {
                let handle = (api.block_instruction)(block, i);
                let data = (api.instruction_data)(handle).cast::<u8>();
                let bytes = std::slice::from_raw_parts(data, (api.instruction_size)(handle));
                Seen { handle, address: (api.instruction_address)(handle), bytes }
            })
            .collect()
    };
    let Some(first) = instructions.first() else { return };
    if plugin().arguments.mode == Mode::Empty {
        if first.address < KERNEL {
            instructions.iter().for_each(|i| on_memory(i, callbacks::empty, null_mut()));
        }
    } else if first.address >= KERNEL {
        kernel(&instructions);
    } else if OWN_CODE.with_borrow(|code| code.contains(&first.address)) {
        hypercalls(&instructions);
    } else {
        user(block, &instructions);
    }
}

/// Of the kernel's instructions only those that tell something are called back for: most of what a short run executes is
/// the kernel's.
fn kernel(instructions: &[Seen]) {
    for seen in instructions {
        match code::kernel_code(seen.bytes, seen.address, &plugin().arguments.functions) {
            KernelCode::Other => {}
            KernelCode::ReadsNextTask(offset) => {
                on_memory(seen, callbacks::next_task, offset as usize as *mut c_void)
            }
            KernelCode::Wakes => on_memory(seen, callbacks::wake, null_mut()),
            KernelCode::Starts => on_memory(seen, callbacks::start, null_mut()),
            KernelCode::SwitchedStack => on_memory(seen, callbacks::stack, null_mut()),
            KernelCode::FlushesTranslations => on_instruction(seen, callbacks::flush),
            KernelCode::AwaitsAll => on_instruction(seen, callbacks::await_all),
            KernelCode::Pauses => on_instruction(seen, callbacks::pause),
            KernelCode::SwapsGs => on_instruction(seen, callbacks::swap_gs),
            KernelCode::PageFaults => on_instruction(seen, callbacks::page_fault),
            KernelCode::ClearsHuge => on_instruction(seen, callbacks::clear_huge),
        }
    }
}

/// Nothing of the recorder's code is counted. Only its hypercalls matter: it announces the program that it starts.
fn hypercalls(instructions: &[Seen]) {
    for (i, seen) in instructions.iter().enumerate() {
        if is_bell(instructions, i) {
            on_memory(seen, callbacks::hypercall, null_mut());
        }
    }
}

fn user(block: *mut Block, instructions: &[Seen]) {
    let mut factory = InstructionInfoFactory::new();
    let decoded: Vec<_> = instructions.iter().map(|i| code::decode(i.bytes, i.address)).collect();
    let codes: Vec<UserCode> = decoded.iter().map(|i| code::user_code(i, &mut factory)).collect();
    let chained = chain::chained(&decoded, &mut factory);
    let bells: Vec<bool> = (0..instructions.len()).map(|i| is_bell(instructions, i)).collect();
    // A system call ends its block, so a hypercall's load is never in the same block behind it.
    let ran = flops::number(Ran::of(&decoded));
    let teller = (0..codes.len()).find(|&i| codes[i].one_access && !bells[i]);
    if teller.is_none() {
        on_block(block, callbacks::block, ran);
    }
    for (i, seen) in instructions.iter().enumerate() {
        if bells[i] {
            on_memory(seen, callbacks::hypercall, null_mut());
            continue;
        }
        if codes[i].syscall {
            on_instruction(seen, callbacks::call);
        }
        let told = if teller == Some(i) { ran } else { 0 };
        let site = Site::new(seen.address, chained[i].map(|first| instructions[first].address), told);
        let access = match (codes[i].streams, plugin().arguments.accesses.is_some()) {
            (false, false) if codes[i].locks => callbacks::locked,
            (false, false) => callbacks::access,
            (true, false) => callbacks::stream,
            (false, true) => callbacks::sampled_access,
            (true, true) => callbacks::sampled_stream,
        };
        on_memory(seen, access, site.into_pointer());
    }
}

/// Whether the instruction at `i` is a hypercall's load.
fn is_bell(instructions: &[Seen], i: usize) -> bool {
    let seen = &instructions[i];
    if seen.bytes != MARK && seen.bytes != MARKED_LOAD {
        return false;
    }
    let mut marked = MARKED.lock().unwrap_or_else(|e| e.into_inner());
    let marked = marked.get_or_insert_default();
    if seen.bytes == MARK {
        marked.insert(seen.address + MARK.len() as u64);
    }
    seen.bytes == MARKED_LOAD
        && if i == 0 { marked.contains(&seen.address) } else { instructions[i - 1].bytes == MARK }
}

fn on_memory(seen: &Seen, callback: crate::api::MemoryCallback, data: *mut c_void) {
    // SAFETY: the instruction is being translated; the callback is ours and `data` is only a number.
    unsafe { (api().on_memory)(seen.handle, callback, NO_REGISTERS, READ_AND_WRITE, data) }
}

fn on_instruction(seen: &Seen, callback: crate::api::ExecuteCallback) {
    // SAFETY: as in `on_memory`.
    unsafe { (api().on_instruction)(seen.handle, callback, NO_REGISTERS, null_mut()) }
}

fn on_block(block: *mut Block, callback: crate::api::ExecuteCallback, data: u16) {
    // SAFETY: as in `on_memory`.
    unsafe { (api().on_block)(block, callback, NO_REGISTERS, usize::from(data) as *mut c_void) }
}
