//! See [`nearfar_fuzz::meta`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearfar_fuzz::meta(bytes));
