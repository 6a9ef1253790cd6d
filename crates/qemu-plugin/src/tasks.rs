//! Which thread runs on a vCPU: switches of tasks, system calls, and what threads say.

use crate::hypercall::Message;
use crate::log;
use crate::threads::{Thread, stack_of};
use crate::translate;
use crate::vcpu::{PATIENCE, Vcpu, guarded};
use crate::wakes::{Left, Wake};
use nearfar_recording::column::Columns;
use nearfar_recording::raw::RawPhaseMark;
use nearfar_recording::tables::MarkKind;

/// Ids of a thread that said nothing: no process and no thread of a program has them.
const NOBODY: (u32, u32) = (0, 0);

impl Vcpu {
    /// The kernel reads the next task's stack pointer, `offset` bytes into its `task_struct`.
    pub fn will_run(&mut self, address: u64, offset: u64) {
        let last = std::mem::replace(&mut self.task, address.wrapping_sub(offset));
        let left = match self.seat.as_ref().filter(|_| self.counting).map(|seat| seat.core.clock_ns()) {
            Some(ns) if self.in_call => Left::Asleep(ns),
            Some(ns) => Left::Interrupted(ns),
            None => Left::Unknown,
        };
        self.plugin.wakes().runs(self.index, last, self.task, offset, left);
    }

    /// The kernel wakes a task, or starts a new one, and touches this address for it.
    pub fn wakes(&mut self, address: u64, new: bool) {
        if stack_of(address) == self.stack {
            return;
        }
        // In a system call or a page fault of the program it is the program that wakes; also in a thread's last
        // call, when it is not counted any more. A timer, a device or the kernel's own tasks wake at a time that
        // no simulated clock knows: it is not before anything that has happened.
        let (ns, wake) = match &self.seat {
            Some(seat) if self.in_call || self.counting => (seat.core.clock_ns(), Wake::Program),
            _ => (self.plugin.latest_ns(), Wake::Outside),
        };
        self.woke |= wake == Wake::Program;
        self.plugin.wakes().touched(self.index, address, ns, if new { Wake::New } else { wake });
    }

    /// The kernel has touched the stack of the task that runs from now on.
    pub fn switched(&mut self, address: u64) {
        let stack = stack_of(address);
        self.in_kernel = true;
        if stack == self.stack {
            return;
        }
        let plugin = self.plugin;
        if self.counting {
            self.attend();
            self.settle();
        }
        let mut threads = plugin.threads();
        if self.counting {
            let clock_ns = self.seat.as_ref().map_or(0.0, |seat| seat.core.clock_ns());
            let last = threads.get(self.stack);
            *last = Thread { clock_ns, in_call: self.in_call, ..*last };
        }
        let next = threads.find(stack).copied();
        drop(threads);
        self.stack = stack;
        self.counting = false;
        self.woke = false;
        self.faulted = false;
        self.show_state();
        // What the machine does between the program's threads belongs to no call.
        self.in_call = next.is_some_and(|next| next.in_call);
        match next.filter(|next| next.ids.is_some()) {
            Some(next) => self.take_up(next),
            None => {
                self.watching = self.seat.is_some();
                self.pass_turn();
            }
        }
    }

    /// A task that was not announced runs a program's code on one of the machine's cpus. Nothing but
    /// the program and what it starts may do that, so it is counted, whichever it is: statically
    /// linked programs have no agent that could say. Not sooner: the kernel's own tasks have no say either,
    /// and what they do is not the program's.
    #[cold]
    #[inline(never)]
    pub(crate) fn meet(&mut self) {
        guarded(self, |vcpu| {
            let known = vcpu.plugin.threads().find(vcpu.stack).copied();
            vcpu.take_up(known.unwrap_or_default());
        });
    }

    /// The current thread is the program's, and here it goes on.
    fn take_up(&mut self, thread: Thread) {
        self.ids = thread.ids.unwrap_or(NOBODY);
        self.watching = false;
        if self.seat.is_none() || self.plugin.stopped() {
            return;
        }
        self.counting = true;
        self.show_state();
        self.patience = PATIENCE;
        self.attend();
        let woken_ns = self.plugin.wakes().woken_ns(self.task);
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
    }

    /// The kernel was entered from a program, or will be left for one.
    pub fn swapped_gs(&mut self) {
        self.in_kernel = !self.in_kernel;
        if !self.in_kernel {
            self.in_call = false;
            if std::mem::take(&mut self.woke) && self.counting {
                guarded(self, Vcpu::goes_on);
            }
        }
        self.show_state();
        if !self.in_kernel && self.counting && self.plugin.turns.is_some() {
            // The turn may be another's by now.
            guarded(self, Vcpu::settle);
        }
    }

    /// The kernel handles a page fault. In a system call it is the kernel that misses a page, and the program's next access is
    /// another one.
    pub fn page_faults(&mut self) {
        self.faulted = !self.in_call;
    }

    /// The kernel clears a huge page, for which it has no small pages.
    pub fn clears_huge(&mut self) {
        if self.counting {
            self.plugin.frames.cleared();
        }
    }

    /// The current thread has woken others in its call, and goes on itself.
    #[cold]
    fn goes_on(&mut self) {
        if let Some(seat) = &self.seat {
            let ns = self.plugin.wakes().barrier_ns(self.index, seat.core.clock_ns());
            if let Some(ns) = ns {
                self.plugin.epochs.barrier(ns);
                self.sleep_until(ns);
            }
        }
    }

    /// The current thread makes a hypercall.
    pub fn hypercall(&mut self, address: u64) {
        let plugin = self.plugin;
        let heard = plugin.threads().get(self.stack).speech.hear(address);
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
        let plugin = self.plugin;
        if self.counting {
            self.attend();
            self.settle();
        }
        let change_region = |what| {
            plugin.change_region(what, self.ids.0, self.ids.1);
        };
        match message {
            Message::Thread { pid, tid } => {
                let mut threads = plugin.threads();
                let thread = threads.get(self.stack);
                let known = thread.ids == Some((pid, tid));
                thread.ids = Some((pid, tid));
                let thread = *thread;
                drop(threads);
                if !known || !self.counting {
                    self.take_up(thread);
                }
            }
            Message::Time(ns) => plugin.time.tell(ns),
            Message::Phase(ns) => {
                plugin.time.tell(ns);
                if let Some(seat) = &self.seat {
                    plugin.output.rows().phase_marks.push(RawPhaseMark {
                        time_ns: ns,
                        pid: self.ids.0,
                        tid: self.ids.1,
                        simulated_ns: seat.core.clock_ns() as u64,
                    });
                }
            }
            Message::RegionBegin => change_region(MarkKind::RegionBegin),
            Message::RegionEnd => change_region(MarkKind::RegionEnd),
            Message::Main => change_region(MarkKind::Main),
            Message::ThreadEnd => {
                plugin.threads().end(self.stack);
                self.counting = false;
                self.show_state();
            }
            Message::ProcessEnd(pid) => plugin.threads().end_process(pid),
            Message::RangeGone => {}
            // On the recorder's cpu nothing is counted; a program has no say in what is.
            Message::CodeFrom(from) if self.seat.is_none() => translate::own_code(|code| code.start = from),
            Message::CodeTo(to) if self.seat.is_none() => translate::own_code(|code| code.end = to),
            Message::CodeFrom(_) | Message::CodeTo(_) => {}
        }
        if self.counting {
            self.attend();
        }
    }
}
