//! The `nearfar` command.

use nearfar::host::target::inherited::run_main;

fn main() -> std::process::ExitCode {
    run_main(nearfar::cli::main)
}
