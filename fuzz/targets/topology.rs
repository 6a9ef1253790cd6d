//! See [`nearfar_fuzz::topology`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearfar_fuzz::topology(bytes));
