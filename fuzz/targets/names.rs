//! See [`nearfar_fuzz::names`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearfar_fuzz::names(bytes));
