//! See [`nearfar_fuzz::dwarf`].
#![no_main]

use std::panic::{catch_unwind, set_hook};
use std::sync::Mutex;

/// What panicked last.
static LAST: Mutex<String> = Mutex::new(String::new());

/// The readers of DWARF below us panic on some damaged files, which `symbols` expects and catches; the fuzzer's own hook
/// would end on these. Only what reaches us is a finding.
fn quiet() {
    set_hook(Box::new(|panic| *LAST.lock().unwrap_or_else(|e| e.into_inner()) = panic.to_string()));
}

libfuzzer_sys::fuzz_target!(init: quiet(), |bytes: &[u8]| {
    if catch_unwind(|| nearfar_fuzz::dwarf(bytes)).is_err() {
        eprintln!("{}", LAST.lock().unwrap_or_else(|e| e.into_inner()));
        std::process::abort();
    }
});
