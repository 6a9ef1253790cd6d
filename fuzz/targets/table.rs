//! See [`nearfar_fuzz::table`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearfar_fuzz::table(bytes));
