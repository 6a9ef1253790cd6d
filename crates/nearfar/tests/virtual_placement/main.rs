//! The commands that place programs, inside virtual machines of several nodes with a real kernel.

#[path = "../common/mod.rs"]
mod common;
#[path = "../virtual_truth/lab.rs"]
mod lab;

mod check;
mod objects;
mod placement;
mod weights;
mod where_is;

/// The plugin is a crate of its own, which building one of nearfar's tests does not build.
#[test]
fn without_the_plugin_nothing_is_counted_and_that_is_said() {
    if !lab::guest_works() {
        return;
    }
    let own = std::env::current_exe().unwrap();
    let this = std::thread::current().name().unwrap().to_owned();
    let mut again = std::process::Command::new(own);
    again.args(["--exact", &this, "--show-output"]).env_remove("NEARFAR_NEEDS_GUEST");
    let output = again.env("NEARFAR_PLUGIN", "/nowhere/plugin.so").output().unwrap();
    let said = common::text(&output.stdout) + &common::text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("skipped: the virtual machine's plugin") && said.contains("/nowhere/plugin.so"),
        "{said}"
    );
}
