//! Which thread runs on a vCPU: threads by their kernel stacks.
//!
//! A stack is a thread for as long as the thread lives, exec included. Afterwards the kernel gives
//! it to another, which is why ends are recorded too.

use crate::hypercall::Speech;
use std::collections::HashMap;

/// Bytes of a kernel stack on x86-64, and its alignment.
const STACK_BYTES: u64 = 16 << 10;

/// The stack that an address is on; what identifies a thread.
pub fn stack_of(address: u64) -> u64 {
    address & !(STACK_BYTES - 1)
}

/// What is known of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thread {
    /// Process and thread id, if it said them.
    pub ids: Option<(u32, u32)>,
    /// What it is just saying.
    pub speech: Speech,
    /// Simulated clock of its core when it left it, ns.
    pub clock_ns: f64,
    /// Whether it left in a system call of its own.
    pub in_call: bool,
}

/// All threads that have said something or ran on a machine's cpu.
#[derive(Debug, Default)]
pub struct Threads(HashMap<u64, Thread>);

impl Threads {
    /// The thread with this stack.
    pub fn get(&mut self, stack: u64) -> &mut Thread {
        self.0.entry(stack).or_default()
    }

    /// The thread with this stack, if it has an entry.
    pub fn find(&mut self, stack: u64) -> Option<&mut Thread> {
        self.0.get_mut(&stack)
    }

    /// The thread with this stack has ended.
    pub fn end(&mut self, stack: u64) {
        self.0.remove(&stack);
    }

    /// All threads of a process have ended.
    pub fn end_process(&mut self, pid: u32) {
        self.0.retain(|_, thread| thread.ids.is_none_or(|(of, _)| of != pid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_its_thread_until_the_end() {
        let mut threads = Threads::default();
        let stack = stack_of(0xffff_c900_0001_3f58);
        assert_eq!(stack, 0xffff_c900_0001_0000);
        threads.get(stack).ids = Some((7, 8));
        threads.get(stack + STACK_BYTES).ids = Some((7, 9));
        threads.get(stack + 2 * STACK_BYTES).ids = Some((5, 5));
        assert_eq!(threads.get(stack).ids, Some((7, 8)));
        threads.end(stack);
        assert_eq!(threads.get(stack).ids, None);
        threads.end_process(7);
        assert!(threads.find(stack + STACK_BYTES).is_none());
        assert_eq!(threads.get(stack + 2 * STACK_BYTES).ids, Some((5, 5)));
    }
}
