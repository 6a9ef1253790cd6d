//! See [`nearfar_fuzz::machine`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearfar_fuzz::machine(bytes));
