//! See [`nearfar_fuzz::journal`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearfar_fuzz::journal(bytes));
