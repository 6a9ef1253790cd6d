//! What cores ask of each other's caches.
//!
//! A core's caches are its own memory, without locks. A core that takes a line from it
//! changes the directory at once and leaves a message; the core acts on it before
//! its next access. All cores go by the directory, so a core that reads
//! its messages late misleads no other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What to do with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Give it up.
    Invalidate(u64),
    /// Keep it, but write it no more without asking.
    Downgrade(u64),
}

/// One core's. On a line of the host of its own: every access of the core looks at `posted`.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Mailbox {
    posted: AtomicU64,
    letters: Mutex<Vec<Request>>,
}

impl Mailbox {
    /// Called with the line's lock held, so requests for one line come in the order of the directory's changes.
    pub fn post(&self, request: Request) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        letters.push(request);
        self.posted.fetch_add(1, Ordering::Release);
    }
}

/// The reading end.
#[derive(Debug)]
pub(super) struct Inbox {
    mailbox: Arc<Mailbox>,
    seen: u64,
    /// Taken and not yet acted on.
    taken: Vec<Request>,
}

impl Inbox {
    pub fn new(mailbox: Arc<Mailbox>) -> Inbox {
        Inbox { mailbox, seen: 0, taken: Vec::new() }
    }

    /// Whether nothing has come.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.mailbox.posted.load(Ordering::Acquire) == self.seen
    }

    /// Takes what has come.
    #[cold]
    pub fn take(&mut self) {
        let mut letters = self.mailbox.letters.lock().unwrap_or_else(PoisonError::into_inner);
        self.seen = self.mailbox.posted.load(Ordering::Acquire);
        self.taken.append(&mut letters);
    }

    /// Whether something was taken and not yet acted on.
    #[inline]
    pub fn has_taken(&self) -> bool {
        !self.taken.is_empty()
    }

    /// What was taken, oldest first.
    #[inline]
    pub fn pop_all(&mut self) -> impl Iterator<Item = Request> + '_ {
        self.taken.drain(..)
    }
}
