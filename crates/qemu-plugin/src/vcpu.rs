//! One vCPU: which thread runs on it, and what its accesses do.

use crate::accesses::{Accesses, Here, Made};
use crate::api::{self, api};
use crate::epoch::Epoch;
use crate::flops;
use crate::guard::panic_text;
use crate::host::HostThread;
use crate::lines::Lines;
use crate::pages::{Owner, PAGE_SHIFT, Place, Translations, is_aligned};
use crate::plugin_state::{PluginState, Visible};
use crate::sample::Sampler;
use crate::throttle::Throttle;
use crate::userdata::{FOLLOWS, Site};
use crate::windows::{Detail, Span, Speed};
use nearfar_machine::LINE_BYTES;
use nearfar_recording::column::Columns;
use nearfar_recording::raw::RawSample;
use nearfar_simulate::{Access, Core, Kind};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Instructions after which the simulated clock is looked at although no access missed:
/// some microseconds, far below an epoch.
pub(crate) const PATIENCE: i64 = 1 << 14;

/// The same for misses: a few microseconds if all go to memory.
const MISSES: u32 = 32;

/// One in so many lines from other nodes' caches becomes a sample, or more: there are few of them, and a
/// line that nodes write in turns is found by several samples of it.
const TRANSFERS: u32 = 16;
/// So many of each core's first ones all do: emulated cpus take a line from each other some hundred times in a millisecond
/// where real ones would all the time, and a short run would have too few to name it.
const FIRST_TRANSFERS: u32 = 256;

/// One in so many accesses to contended lines becomes a sample: there may be some millions in a second. // chosen
const CONTENDED: u32 = 512;
/// Of each core's first ones all do.
const FIRST_CONTENDED: u32 = 64;

/// Bits of an address within a line.
const LINE_MASK: u64 = LINE_BYTES - 1;

/// Bytes of an access. A report has at most eight, except for the few of 16 that are aligned.
fn size(info: u32) -> u64 {
    1 << (info >> api::SIZE_AT & api::SIZE_MASK)
}

/// Whether an access stays on its line.
#[cold]
fn fits_line(info: u32, address: u64) -> bool {
    (address & LINE_MASK) + size(info) <= LINE_BYTES
}

/// Last address of a program.
pub(crate) const LAST_USER: u64 = (1 << 47) - 1;

/// What a vCPU of the machine has and the others have not.
pub struct Seat {
    /// Its simulated core.
    pub core: Core,
    /// What the others see of it.
    pub visible: &'static Visible,
    /// Position of its node.
    node: usize,
    epoch: Epoch,
    /// Whether accesses are counted, and until when.
    pub(crate) span: Span,
    pub(crate) speed: Speed,
    sampler: Sampler,
    transfers: Sampler,
    contended: Sampler,
    translations: Translations,
    /// Samples of accesses and of time, where they are asked for.
    accesses: Option<Accesses>,
    /// Kernel index of the cpu.
    cpu: u16,
}

/// One vCPU. Only its own thread of QEMU touches it, except for the end, when all have stopped.
pub struct Vcpu {
    /// Instructions until the clock is looked at; what is missing to [`PATIENCE`] ran since.
    pub(crate) patience: i64,
    /// Misses until then.
    misses: u32,
    /// Its simulated cpu; none if it is not the machine's.
    pub seat: Option<Seat>,
    /// What it shares with the others.
    pub plugin: &'static PluginState,
    /// Floating-point operations since the core last got them.
    f64_ops: u64,
    f32_ops: u64,
    /// Instructions that its core was told of since time was last sampled.
    told_instructions: u64,
    /// Accesses in the mode that only counts them.
    pub empty: u64,
    /// Whether the current thread is the program's. Never without a seat.
    pub(crate) counting: bool,
    /// Whether, besides, its accesses are looked up in the caches.
    pub(crate) looking: bool,
    /// Its number.
    pub(crate) index: usize,
    /// Whether a program's code run by the current task, which was not announced, is the program's.
    pub(crate) watching: bool,
    /// Stack of the current task.
    pub(crate) stack: u64,
    /// Address of its `task_struct`; 0 while not known.
    pub(crate) task: u64,
    pub(crate) ids: (u32, u32),
    /// The current task is in a system call that it made itself.
    pub(crate) in_call: bool,
    /// In the kernel, as far as can be told by the swaps of GS.
    pub(crate) in_kernel: bool,
    /// The current task has woken another one since it was last in the program's code.
    pub(crate) woke: bool,
    /// The kernel has just handled a page fault: the next access is made again.
    pub(crate) faulted: bool,
    throttle: Throttle,
    changes: u32,
    region: u8,
    /// Accesses that were not simulated because QEMU gave no address in RAM.
    pub without_node: u64,
}

impl Vcpu {
    /// vCPU `index`.
    pub fn new(plugin: &'static PluginState, index: usize) -> Vcpu {
        let seat = plugin.visible(index).map(|visible| {
            let core = plugin.hierarchy.core(index);
            Seat {
                epoch: Epoch::begin(&core, &plugin.epochs),
                span: plugin.windows.as_ref().map_or(Span::ALL, |windows| windows.at(0.0)),
                speed: Speed::default(),
                core,
                visible,
                node: plugin.hierarchy.node_of(index),
                sampler: Sampler::new(index as u64, plugin.arguments.sample),
                transfers: Sampler::new(index as u64, plugin.arguments.sample.min(TRANSFERS))
                    .after_first(FIRST_TRANSFERS),
                contended: Sampler::new(index as u64, CONTENDED).after_first(FIRST_CONTENDED),
                translations: Translations::new(),
                accesses: plugin.arguments.accesses.map(|mean| Accesses::new(index as u64, mean)),
                cpu: plugin.hierarchy.cpu(index) as u16,
            }
        });
        Vcpu {
            patience: PATIENCE,
            misses: MISSES,
            seat,
            plugin,
            f64_ops: 0,
            f32_ops: 0,
            told_instructions: 0,
            empty: 0,
            counting: false,
            looking: false,
            index,
            watching: false,
            // No stack is there; until the first switch each vCPU's task is its own.
            stack: index as u64,
            task: 0,
            ids: (0, 0),
            in_call: false,
            in_kernel: false,
            woke: false,
            faulted: false,
            throttle: Throttle::default(),
            changes: 0,
            region: 0,
            without_node: 0,
        }
    }

    /// An access of a program. What cannot be decided at once is done in [`Vcpu::miss`].
    #[inline(always)]
    pub fn access(&mut self, info: u32, address: u64, site: Site, kind: Kind) {
        if !self.looking {
            self.pass(info, address, site);
            return;
        }
        self.tell(site.told());
        let Some(seat) = &mut self.seat else {
            // SAFETY: `looking` is only set where there is a seat.
            unsafe { std::hint::unreachable_unchecked() }
        };
        // Only near the end of a line does the size matter; there, what fits is like a single byte.
        let fits = address & LINE_MASK <= LINE_MASK - 7 || fits_line(info, address);
        if !fits || !seat.core.quick_hit(address, 1, kind) {
            self.miss(info, address, site, kind);
        } else if self.patience <= 0 {
            self.lost_patience();
        }
    }

    /// An access that is not looked up.
    #[inline(always)]
    fn pass(&mut self, info: u32, address: u64, site: Site) {
        if self.counting {
            self.tell(site.told());
            if self.patience <= 0 || self.faulted {
                self.passed(info, address);
            }
        } else if self.watching && address <= LAST_USER {
            self.meet();
        }
    }

    /// The same where accesses and time are sampled.
    pub fn sampled_access(&mut self, info: u32, address: u64, site: Site, kind: Kind) {
        let before = self.counting && address <= LAST_USER;
        let chosen = match &mut self.seat {
            Some(Seat { accesses: Some(accesses), core, .. }) if before => accesses.next(core),
            _ => None,
        };
        self.access(info, address, site, kind);
        let Some(Seat { accesses: Some(accesses), core, cpu, .. }) = &mut self.seat else { return };
        if !before {
            return;
        }
        let made = Made { site, address, kind };
        let here = Here { time_ns: 0, cpu: *cpu, tid: self.ids.1 };
        let mut rows = accesses.time(core, std::mem::take(&mut self.told_instructions), &made, here);
        rows.extend(chosen.and_then(|chosen| accesses.made(&chosen, core, &made, here)));
        if !rows.is_empty() {
            let time_ns = self.plugin.time.now();
            let samples = &mut self.plugin.output.rows().samples;
            rows.into_iter().for_each(|row| samples.push(RawSample { time_ns, ..row }));
        }
    }

    /// What has run, by its number.
    #[inline(always)]
    fn tell(&mut self, number: u16) {
        if number < FOLLOWS {
            self.patience -= i64::from(number);
        } else if number >= flops::TABLE {
            let ran = flops::behind(number);
            self.patience -= i64::from(ran.instructions);
            self.f64_ops += u64::from(ran.f64_ops);
            self.f32_ops += u64::from(ran.f32_ops);
        }
    }

    /// A block of a program that none of its accesses tells of.
    #[inline(always)]
    pub fn ran(&mut self, number: u16) {
        if !self.counting {
            return;
        }
        self.tell(number);
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
        let faulted = std::mem::take(&mut self.faulted);
        let known = self.seat.as_ref().and_then(|seat| seat.translations.known(page));
        let Some(place) = known.or_else(|| self.translate(info, virt, faulted)) else {
            self.without_node += 1;
            return;
        };
        let Some(seat) = &mut self.seat else { return };
        let access = Access {
            virt,
            physical: place.frame << PAGE_SHIFT | virt & ((1 << PAGE_SHIFT) - 1),
            bytes,
            kind,
            huge: place.huge,
            chain: site.chain(),
        };
        let mut lines = Lines {
            counted: seat.span.detail == Detail::Counted,
            plugin: self.plugin,
            sampler: &mut seat.sampler,
            transfers: &mut seat.transfers,
            contended: &mut seat.contended,
            node: seat.node,
            cpu: seat.cpu,
            ids: self.ids,
            epoch: seat.epoch.number(),
            site,
            access,
        };
        seat.core.access(&self.plugin.hierarchy, access, &mut lines);
    }

    #[cold]
    pub(crate) fn translate(&mut self, info: u32, virt: u64, faulted: bool) -> Option<Place> {
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
        let frame = self.plugin.frames.of(physical, self.index, is_aligned(page, physical));
        let owner = Owner { pid: self.ids.0, page };
        // Only a page's first use has a fault for sure: AutoNUMA's faults come again and again, also in huge pages.
        let new = self.plugin.traffic.owner(frame) != Some(owner);
        if let Some(mut pages) = self.plugin.traffic.own(frame, owner, &self.plugin.row()) {
            self.plugin.output.rows().pages.append(&mut pages);
        }
        if faulted && new {
            self.plugin.faults.add(physical, owner);
        }
        let small = self.plugin.faults.are_of_small_pages(physical, owner);
        Some(self.seat.as_mut()?.translations.learn(page, physical, frame, small))
    }

    /// Tells the core of the instructions since the last time, shows its clock, and ends its epoch if it is over.
    pub(crate) fn settle(&mut self) {
        self.misses = MISSES;
        let Some(seat) = &mut self.seat else { return };
        let ran = PATIENCE - std::mem::replace(&mut self.patience, PATIENCE);
        seat.core.execute(ran as u32);
        if seat.span.detail == Detail::Skipped {
            seat.core.wait(ran as f64 * seat.speed.stall_ns);
        }
        self.told_instructions += ran as u64;
        seat.core.compute(std::mem::take(&mut self.f64_ops), std::mem::take(&mut self.f32_ops));
        let clock = seat.core.clock_ns();
        seat.visible.set_clock(clock);
        if clock >= seat.span.end_ns {
            self.follow_windows(clock);
        } else if seat.epoch.ends_before(clock, &self.plugin.epochs) {
            self.end_epoch(clock);
        }
        if self.counting && !self.in_kernel {
            self.throttle.keep(self.plugin, self.index, clock);
        }
    }

    /// The program's thread has left this vCPU: another one may have the turn, if they run one at a time.
    pub(crate) fn pass_turn(&self) {
        if self.seat.is_some() {
            self.throttle.pass_turn(self.plugin);
        }
    }

    /// Shows the others whether a thread of the program has it, and whether its clock goes on.
    pub(crate) fn show_state(&mut self) {
        self.look();
        if let Some(seat) = &self.seat {
            seat.visible.host.get_or_init(HostThread::current);
            seat.visible.set_state(self.counting, self.counting && !self.in_kernel);
        }
    }

    /// Follows a change of region.
    #[inline]
    pub(crate) fn attend(&mut self) {
        if self.plugin.changes() != self.changes {
            self.follow_change();
        }
    }

    #[cold]
    fn follow_change(&mut self) {
        self.changes = self.plugin.changes();
        self.settle();
        let (region, ns) = self.plugin.region();
        self.end_epoch(ns);
        self.region = region;
        if let (Some(seat), Some(_)) = (&mut self.seat, &self.plugin.windows) {
            // Windows begin anew.
            seat.span.end_ns = 0.0;
        }
        self.sleep_until(ns);
    }

    /// Writes down what there is of the epoch.
    pub(crate) fn end_epoch(&mut self, latest_ns: f64) {
        if let Some(seat) = &mut self.seat {
            let detail = seat.span.detail;
            seat.epoch.end(&seat.core, self.plugin, seat.cpu, self.region, latest_ns, detail);
        }
    }

    /// The core did nothing until then.
    pub(crate) fn sleep_until(&mut self, ns: f64) {
        let Some(seat) = &mut self.seat else { return };
        if ns <= seat.core.clock_ns() {
            return;
        }
        if seat.epoch.ends_before(ns, &self.plugin.epochs) {
            // What it did belongs to where it was.
            let detail = seat.span.detail;
            seat.epoch.end(&seat.core, self.plugin, seat.cpu, self.region, ns, detail);
            seat.core.sleep_until(ns);
            seat.epoch = Epoch::begin(&seat.core, &self.plugin.epochs);
        } else {
            seat.core.sleep_until(ns);
        }
        let clock = seat.core.clock_ns();
        seat.visible.set_clock(clock);
        if clock >= seat.span.end_ns {
            self.follow_windows(clock);
        }
    }

    /// Translations are not what they were.
    pub fn flush_translations(&mut self) {
        if let Some(seat) = &mut self.seat {
            seat.core.flush_translations();
            seat.translations.flush();
        }
    }

    /// Counts no more.
    pub fn stop(&mut self) {
        self.counting = false;
        self.show_state();
    }

    /// Writes down what is not yet written; when the vCPU has stopped for good.
    pub fn finish(&mut self) {
        if self.counting {
            self.attend();
            self.settle();
        }
        self.end_epoch(self.plugin.latest_ns());
    }
}

/// Does what may fail in an unforeseen way. If it does, nothing is counted any more, the log
/// and the journal report it, and the guest goes on.
pub fn guarded(vcpu: &mut Vcpu, work: impl FnOnce(&mut Vcpu)) {
    let plugin = vcpu.plugin;
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(vcpu))) {
        plugin.fail(&panic_text(&*panic));
    }
    if plugin.stopped() {
        vcpu.stop();
    }
}
