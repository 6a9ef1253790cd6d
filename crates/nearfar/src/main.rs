//! The `nearfar` command.

fn main() -> std::process::ExitCode {
    nearfar::cli::main()
}
