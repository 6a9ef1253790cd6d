//! The `nearfar` command.

use nearfar_host::target::inherited::run_main;

fn main() -> std::process::ExitCode {
    run_main(nearfar::cli::main)
}
