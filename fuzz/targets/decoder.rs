//! See [`nearfar_fuzz::decoder`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearfar_fuzz::decoder(bytes));
