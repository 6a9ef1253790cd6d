//! What a panic says. None may reach QEMU, whose frames cannot be unwound.

use std::any::Any;

/// A panic's message.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without a message".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

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
