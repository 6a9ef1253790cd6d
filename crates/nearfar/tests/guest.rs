//! The virtual machine: programs of this host in a guest with other nodes.

#[path = "guest/machine.rs"]
mod machine;
#[path = "guest/memory.rs"]
mod memory;
#[path = "guest/passing.rs"]
mod passing;
#[path = "guest/shapes.rs"]
mod shapes;
#[path = "guest/trouble.rs"]
mod trouble;

/// What runs inside the emulator for every access has the simulator and the decoder, and none of what reads recordings.
#[test]
fn the_plugin_has_no_code_of_parquet_the_analysis_or_the_report() {
    let plugin =
        std::path::Path::new(env!("CARGO_BIN_EXE_nearfar")).with_file_name("libnearfar_qemu_plugin.so");
    let Ok(bytes) = std::fs::read(&plugin) else {
        println!("skipped: {} has not been built", plugin.display());
        return;
    };
    let has = |word: &str| bytes.windows(word.len()).any(|w| w == word.as_bytes());
    assert!(has("nearfar_simulate"), "{} has no symbols", plugin.display());
    for word in ["parquet", "nearfar_analyze", "nearfar_report", "zstd"] {
        assert!(!has(word), "{} has {word}", plugin.display());
    }
}
