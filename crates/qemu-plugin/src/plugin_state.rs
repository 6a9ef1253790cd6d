//! What all vCPUs share.

use crate::alarm::Alarm;
use crate::arguments::Arguments;
use crate::epochs::Epochs;
use crate::faults::Faults;
use crate::frames::Frames;
use crate::host::HostThread;
use crate::log;
use crate::output::Output;
use crate::pages::{Row, Traffic};
use crate::threads::Threads;
use crate::time::GuestTime;
use crate::turns::Turns;
use crate::wakes::Wakes;
use crate::windows::Windows;
use nearfar_machine::{Machine, NodeId};
use nearfar_recording::column::Columns;
use nearfar_recording::raw::RawMark;
use nearfar_recording::tables::{LEAD_NS, MarkKind};
use nearfar_simulate::{Hierarchy, Options, PageNodeMap, SimulateError};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// What one vCPU lets the others see. A line of its own: it is written often.
#[derive(Default)]
#[repr(align(128))]
pub struct Visible {
    clock_ns: AtomicU64,
    /// A thread of the program has it.
    busy: AtomicBool,
    /// That thread is in the program's code, so that the clock goes on.
    in_program: AtomicBool,
    /// The host's thread that it is, from when a thread of the program first has it.
    pub host: OnceLock<HostThread>,
}

impl Visible {
    /// Shows the clock.
    #[inline]
    pub fn set_clock(&self, ns: f64) {
        self.clock_ns.store(ns.to_bits(), Ordering::Relaxed);
    }

    /// Shows whether a thread of the program has it, and whether that is in the program's own code.
    #[inline]
    pub fn set_state(&self, busy: bool, in_program: bool) {
        self.busy.store(busy, Ordering::Relaxed);
        self.in_program.store(in_program, Ordering::Relaxed);
    }

    fn clock_ns(&self) -> f64 {
        f64::from_bits(self.clock_ns.load(Ordering::Relaxed))
    }
}

/// What all vCPUs share.
pub struct PluginState {
    /// What the command line said.
    pub arguments: Arguments,
    /// The caches and what is behind them.
    pub hierarchy: Hierarchy,
    /// Which node's memory an offset in RAM is.
    page_nodes: PageNodeMap,
    /// Kernel number of each node, by position.
    nodes: Vec<i16>,
    /// Traffic by page.
    pub traffic: Traffic,
    /// Page faults by block of 2 MiB.
    pub faults: Faults,
    /// The frames that pages have in the simulated caches.
    pub frames: Frames,
    /// Where accesses are counted, if not everywhere.
    pub windows: Option<Windows>,
    /// The vCPU that has the turn, if they run one at a time.
    pub turns: Option<Turns>,
    /// Where epochs begin.
    pub epochs: Epochs,
    threads: Mutex<Threads>,
    wakes: Mutex<Wakes>,
    /// Ends naps.
    pub alarm: Alarm,
    /// The guest's clock.
    pub time: GuestTime,
    /// Rows on their way out.
    pub output: Output,
    visible: Vec<Visible>,
    /// Counts the changes of region: a vCPU that knows another number has something to do.
    changes: AtomicU32,
    /// Where all clocks go at the latest change, ns.
    change_ns: AtomicU64,
    region: AtomicU8,
    main: AtomicBool,
    /// Nothing is counted any more.
    stopped: AtomicBool,
}

static STATE: OnceLock<PluginState> = OnceLock::new();

/// What all vCPUs share; there since the plugin was installed.
pub fn plugin() -> &'static PluginState {
    STATE.get().expect("the plugin is made before the first callback is asked for")
}

/// Makes it what [`plugin`] gives.
pub fn share(state: PluginState) -> &'static PluginState {
    STATE.get_or_init(|| state)
}

impl PluginState {
    /// A state in which nothing has happened.
    ///
    /// # Errors
    /// If the machine cannot be simulated.
    pub fn new(
        arguments: Arguments,
        machine: &Machine,
        output: Output,
    ) -> Result<PluginState, SimulateError> {
        let page_nodes = match arguments.interleave {
            true => PageNodeMap::interleaved(machine.nodes.len(), arguments.ram.last().copied().unwrap_or(0)),
            false => PageNodeMap::ranges(&arguments.ram),
        };
        let options = Options { prefetch: arguments.prefetch, page_nodes: page_nodes.clone() };
        let hierarchy = Hierarchy::new(machine, &options)?;
        // Kernel numbers of nodes are small (MAX_NUMNODES is 1024).
        let number = |id: NodeId| i16::try_from(id).unwrap_or(-1);
        Ok(PluginState {
            traffic: Traffic::new(page_nodes.bytes(), machine.nodes.len()),
            faults: Faults::new(page_nodes.bytes()),
            frames: Frames::new(
                page_nodes.clone(),
                arguments.cpus,
                arguments.frames.into(),
                arguments.functions.huge.is_some(),
            ),
            nodes: machine.nodes.iter().map(|n| number(n.id)).collect(),
            visible: (0..arguments.cpus).map(|_| Visible::default()).collect(),
            windows: arguments.windows.map(Windows::new),
            turns: arguments.turns.then(Turns::default),
            epochs: Epochs::new(f64::from(arguments.epoch_us) * 1e3),
            arguments,
            hierarchy,
            page_nodes,
            threads: Mutex::default(),
            wakes: Mutex::default(),
            alarm: Alarm::default(),
            time: GuestTime::new(),
            output,
            changes: AtomicU32::new(0),
            change_ns: AtomicU64::new(0),
            region: AtomicU8::new(0),
            main: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        })
    }

    /// Kernel number of the node at a position.
    pub fn node(&self, position: usize) -> i16 {
        self.nodes.get(position).copied().unwrap_or(-1)
    }

    /// Which thread runs where.
    pub fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// What the vCPU lets others see; `None` for one that is not the machine's.
    pub fn visible(&self, cpu: usize) -> Option<&Visible> {
        self.visible.get(cpu)
    }

    /// Which threads were woken when.
    pub fn wakes(&self) -> MutexGuard<'_, Wakes> {
        self.wakes.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The latest of all clocks, ns.
    pub fn latest_ns(&self) -> f64 {
        self.visible.iter().map(Visible::clock_ns).fold(0.0, f64::max)
    }

    /// The clocks of the vCPUs that threads of the program have, ns, with their numbers. Those that are in the
    /// kernel for a moment (a page fault, a tick) are among them.
    pub fn running_ns(&self) -> impl Iterator<Item = (usize, f64)> {
        let busy = self.visible.iter().enumerate().filter(|(_, v)| v.busy.load(Ordering::Relaxed));
        busy.map(|(cpu, v)| (cpu, v.clock_ns()))
    }

    /// Whether no thread of the program has that vCPU of the machine.
    pub fn is_free(&self, vcpu: usize) -> bool {
        self.visible.get(vcpu).is_some_and(|v| !v.busy.load(Ordering::Relaxed))
    }

    /// Whether the vCPU is in the program's own code.
    pub fn is_in_program(&self, vcpu: usize) -> bool {
        self.visible.get(vcpu).is_some_and(|v| v.in_program.load(Ordering::Relaxed))
    }

    /// Wakes the vCPUs that nap or wait for their turn.
    pub fn wake_all(&self) {
        self.alarm.ring();
        if self.turns.is_some() {
            self.visible.iter().filter_map(|visible| visible.host.get()).for_each(HostThread::wake);
        }
    }

    /// Number of changes of region so far. Compared at each miss.
    #[inline]
    pub fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    /// The region that counts now (1: of interest), and the time that all clocks have at least since.
    pub fn region(&self) -> (u8, f64) {
        (self.region.load(Ordering::Relaxed), f64::from_bits(self.change_ns.load(Ordering::Relaxed)))
    }

    /// What was counted by page until now belongs to the region until now.
    pub fn take_pages(&self) {
        let rows = &mut self.output.rows().pages;
        self.traffic.take_all(&self.row(), rows);
    }

    /// What rows by page need to know.
    pub fn row(&self) -> Row<'_> {
        Row { nodes: &self.nodes, page_nodes: &self.page_nodes, region: self.region.load(Ordering::Relaxed) }
    }

    /// The region of interest begins or ends, or the program proper begins. All clocks go to the
    /// beginning of an epoch after the latest of them, so that no epoch is on both sides. That is as far after it as a vCPU may be ahead:
    /// none gets there before it hears of this.
    pub fn change_region(&self, what: MarkKind, pid: u32, tid: u32) {
        let mut rows = self.output.rows();
        if what == MarkKind::Main && self.main.swap(true, Ordering::Relaxed) {
            return; // another process of the program
        }
        let region = u8::from(what == MarkKind::RegionBegin);
        if what == MarkKind::Main {
            // Loading is of no interest whatever comes.
            self.frames.begin();
            self.traffic.take_all(&self.row(), &mut Default::default());
        } else {
            self.traffic.take_all(&self.row(), &mut rows.pages);
        }
        let latest_ns = self.latest_ns();
        let change_ns = latest_ns + LEAD_NS;
        let epoch = self.epochs.change(latest_ns, change_ns);
        if let Some(windows) = &self.windows {
            windows.begin(change_ns);
        }
        self.change_ns.store(change_ns.to_bits(), Ordering::Relaxed);
        if what != MarkKind::Main {
            self.region.store(region, Ordering::Relaxed);
        }
        self.changes.fetch_add(1, Ordering::Release);
        rows.marks.push(RawMark { time_ns: self.time.now(), epoch, what: what as u8, pid, tid });
    }

    /// Whether nothing is counted any more.
    #[inline]
    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Nothing is counted from here on; whether that was so before.
    pub fn stop(&self) -> bool {
        self.stopped.swap(true, Ordering::Relaxed)
    }

    /// Something went wrong in us: nothing is counted from here on, and that is said.
    pub fn fail(&self, why: &str) {
        if !self.stop() {
            log::line(format_args!("the plugin failed and counts no more: {why}"));
            self.output.lost(self.time.now(), "simulated accesses", 0, why);
        }
    }
}
