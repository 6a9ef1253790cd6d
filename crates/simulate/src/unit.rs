//! The caches of a core, and what other cores ask of them.

use super::layout::Layout;
use super::mail::{Inbox, Mailbox, Request};
use super::private::Private;
use std::sync::Arc;

/// The caches of a core, and what others ask of them.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) private: Private,
    pub(super) inbox: Inbox,
    /// Latest stamp that a cpu of the core has used.
    pub(super) latest: u64,
}

impl Unit {
    pub(super) fn new(layout: &Layout, mailbox: Arc<Mailbox>) -> Unit {
        Unit { private: Private::new(layout), inbox: Inbox::new(mailbox), latest: 0 }
    }

    /// Acts on what was taken from the mailbox.
    #[inline]
    pub(super) fn act(&mut self) {
        if self.inbox.has_taken() {
            self.act_on_all();
        }
    }

    #[cold]
    fn act_on_all(&mut self) {
        for request in self.inbox.pop_all() {
            match request {
                Request::Invalidate(line) => self.private.invalidate(line),
                Request::Downgrade(line) => self.private.downgrade(line),
            }
        }
    }

    /// Reads the mailbox and acts on it.
    #[inline]
    pub(super) fn read_mail(&mut self) {
        if !self.inbox.is_empty() {
            self.inbox.take();
            self.act();
        }
    }
}
