//! The recorder inside the virtual machine of `nearfar record --on`, which starts it there. No user types it.

use nearfar_host::target::inherited::run_main;
use std::ffi::OsString;

fn main() -> std::process::ExitCode {
    run_main(|| {
        let words: Vec<OsString> = std::env::args_os().skip(1).collect();
        nearfar_record::collect::inside::run(&words)
    })
}
