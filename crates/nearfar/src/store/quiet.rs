//! Keeps the panics that the reader of Parquet catches from standard error: they are errors by then,
//! with a message of ours.

use std::panic;
use std::sync::Once;

/// From now on; other panics are printed as before.
pub(super) fn quiet_reader() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !nearfar_model::recording::parquet::reading() {
                before(info);
            }
        }));
    });
}
