//! See [`nearfar_fuzz::placement`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearfar_fuzz::placement(bytes));
