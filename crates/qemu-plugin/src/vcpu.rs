//! One vCPU: who runs on it, and what its accesses do.

use crate::api::{self, api};
use crate::arguments::Unbound;
use crate::doorbell::Message;
use crate::epoch::Epoch;
use crate::log;
use crate::pages::{Owner, PAGE_SHIFT, Place, Translations};
use crate::sample::Sampler;
use crate::threads::{Thread, stack_of};
use crate::userdata::Site;
use crate::world::{Visible, World};
use nearfar_model::recording::column::Columns;
use nearfar_model::recording::raw::RawSample;
use nearfar_model::recording::tables::{Access as AccessKind, MarkKind};
use nearfar_model::simulate::{Access, Core, DramKind, Kind, LINE_BYTES, Sink};
use std::sync::atomic::Ordering;

/// Instructions after which the simulated clock is looked at although no access missed:
/// some microseconds, far below an epoch.
const PATIENCE: i64 = 1 << 14;

/// The same for misses: a few microseconds if all go to memory.
const MISSES: u32 = 32;

/// Bits of an address within a line.
const LINE_MASK: u64 = LINE_BYTES - 1;

/// Bytes of an access. A report has at most eight, but for the few of 16 that are aligned.
fn size(info: u32) -> u64 {
    1 << (info >> api::SIZE_AT & api::SIZE_MASK)
}

/// Whether an access stays on its line.
#[cold]
fn fits_line(info: u32, address: u64) -> bool {
    (address & LINE_MASK) + size(info) <= LINE_BYTES
}

/// Last address of a program.
const LAST_USER: u64 = (1 << 47) - 1;

/// What a vCPU of the machine has and the others have not.
pub struct Seat {
    /// Its simulated core.
    pub core: Core,
    visible: &'static Visible,
    /// Position of its node.
    node: usize,
    epoch: Epoch,
    sampler: Sampler,
    translations: Translations,
    /// Kernel index of the cpu.
    cpu: u16,
}

/// One vCPU. Only its own thread of QEMU touches it, but for the end, when all have stopped.
pub struct Vcpu {
    /// Instructions until the clock is looked at; what is missing to [`PATIENCE`] ran since.
    patience: i64,
    /// Misses until then.
    misses: u32,
    /// Its simulated cpu; none if it is not the machine's.
    pub seat: Option<Seat>,
    world: &'static World,
    /// Accesses in the mode that only counts them.
    pub empty: u64,
    /// Whether the current thread is the program's. Never without a seat.
    counting: bool,
    /// Stack of the current task.
    stack: u64,
    ids: (u32, u32),
    /// The current task is in a system call that it made itself.
    in_call: bool,
    /// In the kernel, as far as can be told by the swaps of GS.
    in_kernel: bool,
    turn: u32,
    region: u8,
    /// Instructions of the kernel, on behalf of the program.
    pub kernel_instructions: u64,
    /// Accesses that were not simulated because QEMU gave no address in RAM.
    pub homeless: u64,
}

impl Vcpu {
    /// vCPU `index`.
    pub fn new(world: &'static World, index: usize) -> Vcpu {
        let seat = world.visible(index).map(|visible| {
            let core = world.hierarchy.core(index);
            Seat {
                epoch: Epoch::begin(&core, world.epoch_ns()),
                core,
                visible,
                node: world.hierarchy.node_of(index),
                sampler: Sampler::new(index as u64, world.arguments.sample),
                translations: Translations::new(),
                cpu: world.hierarchy.cpu(index) as u16,
            }
        });
        Vcpu {
            patience: PATIENCE,
            misses: MISSES,
            seat,
            world,
            empty: 0,
            counting: false,
            // No stack is there; until the first switch each vCPU's task is its own.
            stack: index as u64,
            ids: (0, 0),
            in_call: false,
            in_kernel: false,
            turn: 0,
            region: 0,
            kernel_instructions: 0,
            homeless: 0,
        }
    }

    /// An access of a program. What cannot be decided at once is done in [`Vcpu::miss`].
    #[inline(always)]
    pub fn access(&mut self, info: u32, address: u64, site: Site, kind: Kind) {
        if !self.counting {
            return;
        }
        let Some(seat) = &mut self.seat else {
            // SAFETY: `counting` is only set where there is a seat.
            unsafe { std::hint::unreachable_unchecked() }
        };
        self.patience -= site.instructions();
        // Only near the end of a line does the size matter; there, what fits is like a single byte.
        let fits = address & LINE_MASK <= LINE_MASK - 7 || fits_line(info, address);
        if !fits || !seat.core.quick_hit(address, 1, kind) {
            self.miss(info, address, site, kind);
        } else if self.patience <= 0 {
            self.lost_patience();
        }
    }

    /// Instructions of a program that none of its accesses tells of.
    #[inline(always)]
    pub fn ran(&mut self, instructions: i64) {
        if !self.counting {
            return;
        }
        self.patience -= instructions;
        if self.patience <= 0 {
            self.lost_patience();
        }
    }

    #[cold]
    #[inline(never)]
    fn lost_patience(&mut self) {
        guarded(self, |vcpu| {
            vcpu.attend();
            vcpu.settle();
        });
    }

    #[cold]
    #[inline(never)]
    fn miss(&mut self, info: u32, address: u64, site: Site, kind: Kind) {
        // What the processor pushes on the kernel's stack when a program's instruction faults is
        // reported as that instruction's.
        if address > LAST_USER {
            return;
        }
        guarded(self, |vcpu| {
            vcpu.attend();
            let bytes = size(info);
            // The next page is somewhere else.
            let here = bytes.min((1 << PAGE_SHIFT) - (address & ((1 << PAGE_SHIFT) - 1)));
            vcpu.part(info, address, here as u8, site, kind);
            if here < bytes {
                vcpu.part(info, address + here, (bytes - here) as u8, site, kind);
            }
            vcpu.misses -= 1;
            if vcpu.misses == 0 || vcpu.patience <= 0 {
                vcpu.settle();
            }
        });
    }

    /// The part of an access that is on one page.
    fn part(&mut self, info: u32, virt: u64, bytes: u8, site: Site, kind: Kind) {
        let page = virt >> PAGE_SHIFT;
        let known = self.seat.as_ref().and_then(|seat| seat.translations.known(page));
        let Some(place) = known.or_else(|| self.translate(info, virt)) else {
            self.homeless += 1;
            return;
        };
        let Some(seat) = &mut self.seat else { return };
        let access = Access {
            virt,
            physical: place.page << PAGE_SHIFT | virt & ((1 << PAGE_SHIFT) - 1),
            bytes,
            kind,
            huge: place.huge,
            chain: site.chain(),
        };
        let mut lines = Lines {
            world: self.world,
            sampler: &mut seat.sampler,
            node: seat.node,
            cpu: seat.cpu,
            ids: self.ids,
            epoch: seat.epoch.number(),
            site,
            access,
        };
        seat.core.access(&self.world.hierarchy, access, &mut lines);
    }

    #[cold]
    fn translate(&mut self, info: u32, virt: u64) -> Option<Place> {
        let api = api();
        // SAFETY: called during the callback for this access, on the vCPU's thread, which is when QEMU
        // can answer; `place` is used before the next question.
        let offset = unsafe {
            let place = (api.hardware_address)(info, virt);
            if place.is_null() || (api.is_device)(place) {
                return None;
            }
            (api.ram_offset)(place)
        };
        let (page, physical) = (virt >> PAGE_SHIFT, offset >> PAGE_SHIFT);
        let taken = self.world.traffic.own(physical, Owner { pid: self.ids.0, page }, &self.world.row());
        if let Some(mut pages) = taken {
            self.world.output.rows().pages.append(&mut pages);
        }
        Some(self.seat.as_mut()?.translations.learn(page, physical))
    }

    /// Tells the core of the instructions since the last time, shows its clock, and ends its epoch if it is over.
    fn settle(&mut self) {
        self.misses = MISSES;
        let Some(seat) = &mut self.seat else { return };
        let ran = PATIENCE - std::mem::replace(&mut self.patience, PATIENCE);
        seat.core.execute(ran as u32);
        let clock = seat.core.clock_ns();
        seat.visible.set_clock(clock);
        if seat.epoch.ends_before(clock) {
            seat.epoch.end(&seat.core, self.world, seat.cpu, self.region);
        }
    }

    /// Follows a change of region.
    #[inline]
    fn attend(&mut self) {
        if self.world.turn() != self.turn {
            self.follow_turn();
        }
    }

    #[cold]
    fn follow_turn(&mut self) {
        self.turn = self.world.turn();
        self.settle();
        self.end_epoch();
        let (region, ns) = self.world.region();
        self.region = region;
        self.sleep_until(ns);
    }

    /// Writes down what there is of the epoch.
    pub fn end_epoch(&mut self) {
        if let Some(seat) = &mut self.seat {
            seat.epoch.end(&seat.core, self.world, seat.cpu, self.region);
        }
    }

    /// The core did nothing until then.
    fn sleep_until(&mut self, ns: f64) {
        let Some(seat) = &mut self.seat else { return };
        if ns <= seat.core.clock_ns() {
            return;
        }
        if seat.epoch.ends_before(ns) {
            // What it did belongs to where it was.
            seat.epoch.end(&seat.core, self.world, seat.cpu, self.region);
            seat.core.sleep_until(ns);
            seat.epoch = Epoch::begin(&seat.core, self.world.epoch_ns());
        } else {
            seat.core.sleep_until(ns);
        }
        seat.visible.set_clock(seat.core.clock_ns());
    }

    /// The kernel has touched the stack of the task that runs from now on.
    pub fn switched(&mut self, address: u64) {
        let stack = stack_of(address);
        self.in_kernel = true;
        if stack == self.stack {
            return;
        }
        let world = self.world;
        if self.counting {
            self.attend();
            self.settle();
        }
        let mut threads = world.threads();
        let everybody = world.arguments.unbound == Unbound::Count && self.seat.is_some();
        if self.counting {
            let clock_ns = self.seat.as_ref().map_or(0.0, |seat| seat.core.clock_ns());
            let last = threads.get(self.stack);
            *last = Thread { clock_ns, waits: self.in_call, left_at: world.calls(), ..*last };
        }
        let next = if everybody { Some(*threads.get(stack)) } else { threads.find(stack).copied() };
        drop(threads);
        self.stack = stack;
        self.counting = false;
        if let Some(next) = next {
            self.in_call = next.waits;
            if next.ids.is_some() || everybody {
                self.take_up(next);
            }
        }
    }

    /// The current thread is the program's, and here it goes on.
    fn take_up(&mut self, thread: Thread) {
        self.ids = thread.ids.unwrap_or((0, 0));
        if self.seat.is_none() || self.world.stopped.load(Ordering::Relaxed) {
            return;
        }
        self.counting = true;
        self.patience = PATIENCE;
        self.attend();
        let woken_ns = if thread.waits { self.world.woken_ns(thread.left_at) } else { 0.0 };
        self.sleep_until(thread.clock_ns.max(woken_ns));
    }

    /// The current task is about to make a system call.
    pub fn calls(&mut self) {
        self.in_call = true;
        self.in_kernel = false;
        if !self.counting {
            return;
        }
        self.attend();
        self.settle();
        if let Some(seat) = &self.seat {
            self.world.call(seat.visible, seat.core.clock_ns());
        }
    }

    /// The kernel was entered from a program, or will be left for one.
    pub fn swapped_gs(&mut self) {
        self.in_kernel = !self.in_kernel;
        if !self.in_kernel {
            self.in_call = false;
        }
    }

    /// Instructions of the kernel.
    #[inline]
    pub fn ran_in_kernel(&mut self, instructions: u64) {
        if self.counting {
            self.kernel_instructions += instructions;
        }
    }

    /// Translations are not what they were.
    pub fn flush_translations(&mut self) {
        if let Some(seat) = &mut self.seat {
            seat.core.flush_translations();
            seat.translations.flush();
        }
    }

    /// The current thread rings the doorbell.
    pub fn rung(&mut self, address: u64) {
        let world = self.world;
        let heard = world.threads().get(self.stack).speech.hear(address);
        match heard {
            None => {}
            Some(Ok(message)) => self.obey(message),
            Some(Err(garbled)) => log::line(format_args!(
                "a message with operation {} came with {} of 8 bytes and is ignored",
                garbled.operation, garbled.bytes
            )),
        }
    }

    fn obey(&mut self, message: Message) {
        let world = self.world;
        if self.counting {
            self.attend();
            self.settle();
        }
        let turn_to = |what| {
            world.turn_to(what, self.ids.0, self.ids.1);
        };
        match message {
            Message::Thread { pid, tid } => {
                let mut threads = world.threads();
                let thread = threads.get(self.stack);
                let known = thread.ids == Some((pid, tid));
                thread.ids = Some((pid, tid));
                if !known {
                    // It began when its creator called clone.
                    (thread.waits, thread.left_at) = (true, 0);
                }
                let thread = *thread;
                drop(threads);
                if !known || !self.counting {
                    self.take_up(thread);
                }
            }
            Message::Time(ns) => world.time.tell(ns),
            Message::RegionBegin => turn_to(MarkKind::RegionBegin),
            Message::RegionEnd => turn_to(MarkKind::RegionEnd),
            Message::Main => turn_to(MarkKind::Main),
            Message::ThreadEnd => {
                world.threads().end(self.stack);
                self.counting = false;
            }
            Message::ProcessEnd(pid) => world.threads().end_process(pid),
            Message::RangeGone => {}
        }
        if self.counting {
            self.attend();
        }
    }

    /// Writes down what is not yet written; when the vCPU has stopped for good.
    pub fn finish(&mut self) {
        if self.counting {
            self.attend();
            self.settle();
        }
        self.end_epoch();
    }
}

/// Does what may fail in a way that we did not think of. A panic must not reach QEMU, whose frames
/// cannot be unwound.
pub fn guarded(vcpu: &mut Vcpu, work: impl FnOnce(&mut Vcpu)) {
    let world = vcpu.world;
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(vcpu)));
    if let Err(panic) = result {
        vcpu.counting = false;
        world.fail(&panic_text(&*panic));
    } else if world.stopped.load(Ordering::Relaxed) {
        vcpu.counting = false;
    }
}

/// A panic's message.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without a message".into())
}

/// Hears of the lines that one access moves.
struct Lines<'a> {
    world: &'a World,
    sampler: &'a mut Sampler,
    node: usize,
    cpu: u16,
    ids: (u32, u32),
    epoch: u32,
    site: Site,
    access: Access,
}

impl Sink for Lines<'_> {
    #[inline]
    fn dram(&mut self, physical: u64, home: usize, kind: DramKind) {
        let write = matches!(kind, DramKind::WriteBack | DramKind::Stream);
        self.world.traffic.line(physical >> PAGE_SHIFT, self.node, write);
        if let Some(lines) = self.sampler.line() {
            self.sample(physical, home, kind, lines);
        }
    }
}

impl Lines<'_> {
    #[cold]
    fn sample(&self, physical: u64, home: usize, kind: DramKind, lines: u32) {
        let (page, access) = (physical >> PAGE_SHIFT, &self.access);
        // A line that another one drives out, or that is fetched ahead, may be of another page.
        let virtual_page = if page == access.physical >> PAGE_SHIFT {
            Some(access.virt >> PAGE_SHIFT)
        } else {
            let owner = self.world.traffic.owner(page);
            owner.filter(|owner| owner.pid == self.ids.0).map(|owner| owner.page)
        };
        let address = virtual_page.map_or(0, |page| page << PAGE_SHIFT | physical & ((1 << PAGE_SHIFT) - 1));
        let kind = match kind {
            DramKind::Demand => AccessKind::Load,
            DramKind::Prefetch if access.kind == Kind::Load => AccessKind::Load,
            DramKind::Prefetch | DramKind::Rfo | DramKind::Stream => AccessKind::Store,
            // The instruction made room for another line. It did not touch this one, and its thread
            // need not be the one that wrote it.
            DramKind::WriteBack => AccessKind::Unknown,
        };
        self.world.output.rows().samples.push(RawSample {
            time_ns: self.world.time.now(),
            cpu: self.cpu,
            tid: self.ids.1,
            ip: self.site.address(),
            address,
            access: kind as u8,
            home: self.world.node(home),
            lines,
            epoch: self.epoch,
        });
    }
}
