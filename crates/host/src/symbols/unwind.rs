//! Return addresses from registers and a copy of the stack.
//!
//! The rules come from `.eh_frame` (or `.debug_frame`), which every distribution's
//! libraries keep after stripping, so programs without frame pointers unwind too.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use framehop::{ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Unwinder as _};

use super::Module;
use super::image::OwnedSection;

/// The registers that unwinding starts from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Regs {
    /// Instruction pointer (aarch64: pc).
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer (x86-64: rbp, aarch64: x29).
    pub bp: u64,
    /// Link register (aarch64: x30); unused on x86-64.
    pub lr: u64,
}

/// Unwinds the stacks of several address spaces, on the architecture it runs on.
///
/// An address space is named by a number of the caller's choosing: one per process,
/// forgotten at `exec` and exit.
#[derive(Default)]
pub struct Unwinder {
    spaces: HashMap<u32, Space>,
    /// Rules already worked out; the crate keeps those of different spaces apart.
    cache: framehop::CacheNative<MayAllocateDuringUnwind>,
}

#[derive(Default)]
struct Space {
    unwinder: framehop::UnwinderNative<OwnedSection, MayAllocateDuringUnwind>,
    /// Executable mappings, disjoint, sorted by address.
    mapped: Vec<Mapped>,
}

/// Code of a file that is mapped.
#[derive(Clone)]
struct Mapped {
    range: Range<u64>,
    /// Where the module's first segment would be.
    base: u64,
    module: Arc<Module>,
}

impl Space {
    fn is_code(&self, address: u64) -> bool {
        let after = self.mapped.partition_point(|m| m.range.start <= address);
        after > 0 && self.mapped[after - 1].range.contains(&address)
    }

    /// Forgets what a new mapping at `range` replaces. What is left of a mapping on both sides of it stays known: a library that
    /// writes hooks into another one (UCX into libc) has a page of it mapped anew, with other permissions.
    fn clear(&mut self, range: &Range<u64>) {
        let overlaps = |m: &Mapped| m.range.start < range.end && range.start < m.range.end;
        let (replaced, kept) = std::mem::take(&mut self.mapped).into_iter().partition(overlaps);
        self.mapped = kept;
        for m in &replaced {
            self.unwinder.remove_module(m.range.start);
        }
        for m in replaced {
            for left in [m.range.start..range.start, range.end..m.range.end] {
                if left.start < left.end {
                    self.add(Mapped { range: left, ..m.clone() });
                }
            }
        }
    }

    /// Adds a mapping where none is.
    fn add(&mut self, mapped: Mapped) {
        let sections = sections(&mapped.module);
        let name = mapped.module.path().display().to_string();
        self.unwinder.add_module(framehop::Module::new(name, mapped.range.clone(), mapped.base, sections));
        let at = self.mapped.partition_point(|m| m.range.start < mapped.range.start);
        self.mapped.insert(at, mapped);
    }
}

impl Unwinder {
    /// An unwinder that knows no code yet.
    pub fn new() -> Unwinder {
        Unwinder::default()
    }

    /// Tells that `module` is mapped, executable, at `start..end` from `file_offset`.
    ///
    /// Replaces what was mapped there. Mappings without executable bytes of the module
    /// are ignored.
    pub fn add_mapping(&mut self, space: u32, start: u64, end: u64, file_offset: u64, module: Arc<Module>) {
        let Some(bias) = module.bias_of_mapping(start, file_offset) else {
            return;
        };
        if end <= start {
            return;
        }
        let space = self.spaces.entry(space).or_default();
        space.clear(&(start..end));
        space.add(Mapped { range: start..end, base: bias.wrapping_add(first_segment(&module)), module });
    }

    /// Forgets the mappings that overlap `start..end`.
    pub fn remove_mapping(&mut self, space: u32, start: u64, end: u64) {
        if let Some(space) = self.spaces.get_mut(&space) {
            space.clear(&(start..end));
        }
    }

    /// Forgets an address space.
    pub fn forget(&mut self, space: u32) {
        self.spaces.remove(&space);
    }

    /// Copies the mappings of one address space to another, as `fork` does.
    pub fn fork(&mut self, parent: u32, child: u32) {
        let Some(space) = self.spaces.get(&parent) else {
            return;
        };
        let copy = Space { unwinder: space.unwinder.clone(), mapped: space.mapped.clone() };
        self.spaces.insert(child, copy);
    }

    /// The call chain: `regs.ip`, then return addresses outwards, at most `max` in all.
    ///
    /// `stack` is a copy of the memory from `stack_base` (usually `regs.sp`) upwards.
    /// The chain ends where the copy does, at the thread's first function, and at the
    /// first return address that is in no known mapping. Code without unwind rules
    /// is assumed to keep a frame pointer.
    pub fn unwind(&mut self, space: u32, regs: Regs, stack_base: u64, stack: &[u8], max: usize) -> Vec<u64> {
        let Some(known) = self.spaces.get(&space) else {
            return Vec::from_iter((max > 0).then_some(regs.ip));
        };
        let mut chain = Vec::with_capacity(max.min(64));
        // framehop and gimli trust damaged tables in places, where their arithmetic
        // panics if overflow checks are on. Such a file costs this chain its outer end.
        let walk = || known.walk(&mut self.cache, regs, (stack_base, stack), max, &mut chain);
        if crate::caught::or_none(walk).is_none() {
            // The cache may have been left in the middle of an update.
            self.cache = Default::default();
        }
        chain
    }
}

impl Space {
    fn walk(
        &self,
        cache: &mut framehop::CacheNative<MayAllocateDuringUnwind>,
        regs: Regs,
        (stack_base, stack): (u64, &[u8]),
        max: usize,
        chain: &mut Vec<u64>,
    ) {
        let mut read = |address: u64| -> Result<u64, ()> {
            let at = address.checked_sub(stack_base).ok_or(())?;
            let at = usize::try_from(at).map_err(|_| ())?;
            let word = stack.get(at..at.checked_add(8).ok_or(())?).ok_or(())?;
            Ok(u64::from_ne_bytes(word.try_into().map_err(|_| ())?))
        };
        let mut frames = self.unwinder.iter_frames(regs.ip, native(regs), cache, &mut read);
        // An error is how a truncated copy ends: what came before it holds.
        while chain.len() < max {
            let Ok(Some(frame)) = frames.next() else {
                break;
            };
            if frame.is_return_address() && !self.is_code(frame.address_for_lookup()) {
                break;
            }
            chain.push(frame.address());
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn native(regs: Regs) -> framehop::x86_64::UnwindRegsX86_64 {
    framehop::x86_64::UnwindRegsX86_64::new(regs.ip, regs.sp, regs.bp)
}

#[cfg(target_arch = "aarch64")]
fn native(regs: Regs) -> framehop::aarch64::UnwindRegsAarch64 {
    // Pointer authentication puts a hash above the 48 address bits of user space.
    let mask = framehop::aarch64::PtrAuthMask::from_max_known_address((1 << 48) - 1);
    framehop::aarch64::UnwindRegsAarch64::new_with_ptr_auth_mask(mask, regs.lr, regs.sp, regs.bp)
}

/// Address of the module's first segment in its file.
fn first_segment(module: &Module) -> u64 {
    module.image.segments.iter().map(|s| s.vaddr).min().unwrap_or(0)
}

fn sections(module: &Module) -> ExplicitModuleSectionInfo<OwnedSection> {
    let image = &module.image;
    let range = |name| image.section_range(name);
    let eh_frame = image.section_owned(".eh_frame");
    // The separate file is opened only for the rare module that needs it.
    let debug_frame = match &eh_frame {
        Some(_) => None,
        None => image.section_owned(".debug_frame").or_else(|| module.debug()?.section_owned(".debug_frame")),
    };
    ExplicitModuleSectionInfo {
        // Offsets within a module are 32 bits wide: count from its first segment.
        base_svma: first_segment(module),
        text_svma: range(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: image.section_owned(".eh_frame_hdr"),
        eh_frame,
        debug_frame,
        ..Default::default()
    }
}
