//! See [`nearfar_fuzz::foreign_text`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearfar_fuzz::foreign_text(bytes));
