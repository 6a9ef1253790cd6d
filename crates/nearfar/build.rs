//! How `nearfar-inside` is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is =
        |name: &str, value: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).as_deref() == Ok(value);
    // At a fixed address nothing of it has to be relocated, which an emulated processor would do in every run: 12,000
    // addresses, on pages that would all have to be read for it.
    if is("ARCH", "x86_64") && is("ENV", "gnu") {
        println!("cargo:rustc-link-arg-bin=nearfar-inside=-no-pie");
    }
}
