//! See [`nearfar_fuzz::perf_data`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearfar_fuzz::perf_data(bytes));
