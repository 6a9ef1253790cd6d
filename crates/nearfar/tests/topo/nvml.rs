//! GPUs by NVIDIA's library. There is seldom one where tests run, so a small library that is
//! compiled here answers in its place (stand_in.c).

use super::{TWO, machine};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder to load the library from; `None` without a C compiler.
fn stand_in(folder: &Path) -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/topo/stand_in.c");
    let library = folder.join("libnvidia-ml.so.1");
    let compiler = std::env::var("CC").unwrap_or("cc".to_owned());
    let run = Command::new(compiler).args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    match run {
        Ok(status) => assert!(status.success(), "the stand-in does not compile"),
        Err(error) => {
            println!("skipped: no C compiler: {error}");
            return None;
        }
    }
    Some(folder.to_owned())
}

fn run(library: &Path, start: &str, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_nearfar"))
        .arg("topo")
        .args(arguments)
        .env("LD_LIBRARY_PATH", library)
        .env("NEARFAR_STAND_IN", start)
        .output()
        .unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The stand-in's GPUs: no machine has that PCI domain.
fn gpus(t: &Value) -> Vec<Value> {
    let devices = t["devices"].as_array().cloned().unwrap_or_default();
    let of = |d: &Value| d["pci"].as_str().is_some_and(|p| p.starts_with("fffe:"));
    devices.into_iter().filter(of).collect()
}

#[test]
fn gpus_and_their_links_are_told_with_a_stand_in_for_nvml() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = stand_in(dir.path()) else { return };
    let t = parsed(&run(&library, "0", &["--json"]));
    let gpus = gpus(&t);
    assert_eq!(gpus.len(), 3, "{}", t["devices"]);
    let only_node = t["nodes"].as_array().unwrap().len() == 1;
    assert_eq!(
        gpus[0]["gpu"],
        json!({
            "product": "Stand-in 100A",
            "memory_kb": 64 << 20,
            "near_nodes": "0",
            "near_cpus": "0-1",
            "links": [
                {"to": "fffe:a2:00.0", "nvlinks": 2, "pci": "PXB"},
                {"to": "fffe:a3:00.0", "nvlinks": 0, "pci": "SYS"},
            ],
        })
    );
    assert_eq!((&gpus[0]["node"], &gpus[0]["node_source"]), (&json!(0), &json!("nvml_memory_affinity")));
    // What the library does not tell is unknown.
    assert_eq!(gpus[2]["gpu"]["product"], Value::Null);
    assert_eq!(gpus[2]["gpu"]["memory_kb"], Value::Null);
    assert_eq!(gpus[2]["gpu"]["near_nodes"], Value::Null);
    if only_node {
        assert_eq!(gpus[2]["node_source"], "nvml_cpu_affinity");
    }
    let text = run(&library, "0", &["--width", "80"]);
    for words in ["NV2", "SYS", "node 0*", "Stand-in 100A  ", "has 64.0 GiB", "that many NVLinks"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    println!("{text}");
}

#[test]
fn a_library_that_does_not_start_is_told_and_no_driver_is_not_with_a_stand_in_for_nvml() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = stand_in(dir.path()) else { return };
    let warnings = |start| {
        let t = parsed(&run(&library, start, &["--json"]));
        assert_eq!(gpus(&t), [Value::Null; 0]);
        t["warnings"].to_string()
    };
    assert!(warnings("18").contains("Driver/library version mismatch"), "{}", warnings("18"));
    assert!(!warnings("9").contains("libnvidia-ml"), "{}", warnings("9"));
}

#[test]
fn a_captured_machine_is_not_given_this_ones_gpus_with_a_stand_in_for_nvml() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = stand_in(dir.path()) else { return };
    let captured = machine(TWO, &[]);
    let t = parsed(&run(&library, "0", &["--json", "--from", captured.path().to_str().unwrap()]));
    assert_eq!(t["devices"], Value::Null);
}
