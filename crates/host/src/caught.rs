//! Panics of the crates that read other people's files (Parquet, DWARF, unwind tables): they are caught where these are
//! called and become errors or `None`, so standard error should not show them.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// What `run` gives; `None` if it panics. What it changes must make sense half done.
pub fn or_none<T>(run: impl FnOnce() -> T) -> Option<T> {
    quietly();
    let outer = CATCHING.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(run));
    CATCHING.set(outer);
    result.ok()
}

/// From now on, panics that are caught are not printed; others are as before.
pub fn quietly() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !is_caught() {
                before(info);
            }
        }));
    });
}

/// Whether a panic of this thread, now, will be caught and not printed.
pub fn is_caught() -> bool {
    CATCHING.get() || nearfar_parquet::reading()
}
