//! Panics stop here: QEMU's frames cannot be unwound.

use crate::vcpu::Vcpu;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

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

/// A panic's message.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without a message".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_panics_are_found() {
        let panic = catch_unwind(|| panic!("plain")).unwrap_err();
        assert_eq!(panic_text(&*panic), "plain");
        let panic = catch_unwind(|| panic!("with {}", 1)).unwrap_err();
        assert_eq!(panic_text(&*panic), "with 1");
        let panic = catch_unwind(|| std::panic::panic_any(7)).unwrap_err();
        assert_eq!(panic_text(&*panic), "panic without a message");
    }
}
