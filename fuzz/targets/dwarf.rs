//! See [`nearfar_fuzz::dwarf`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearfar_fuzz::dwarf(bytes));
