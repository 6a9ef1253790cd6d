//! A program of two phases: the first places, the second pays. The finding says so, by samples of the virtual machine.

use crate::common::{PRELUDE, text};
use crate::lab::{Lab, guest_works, one_machine};
use std::path::Path;

/// 4 MiB, first touched by the main thread alone, then read by a thread of the other node in a line's steps.
const SOURCE: &str = "
static long *field;
enum { N = 1 << 19 };
static void *solve(void *unused) {
    nearfar_phase_begin(\"solve\");
    long sum = 0;
    for (int round = 0; round < 12; round++)
        for (long i = 0; i < N; i += 8) sum += field[i];
    nearfar_phase_end(\"solve\");
    *(volatile long *)&field[0] = sum;
    return unused;
}
int main(void) {
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(0, &own);
    sched_setaffinity(0, sizeof own, &own);
    nearfar_phase_begin(\"initialise\");
    field = aligned_alloc(4096, N * sizeof *field);
    for (long i = 0; i < N; i++) field[i] = i;
    nearfar_phase_end(\"initialise\");
    cpu_set_t other;
    CPU_ZERO(&other);
    CPU_SET(1, &other);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof other, &other);
    pthread_t thread;
    pthread_create(&thread, &attributes, solve, NULL);
    pthread_join(thread, NULL);
    return 0;
}";

#[test]
fn the_phase_that_places_and_the_phase_that_pays_are_in_the_finding() {
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let lab = Lab::sure(2, 1, 512);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let source =
        format!("{PRELUDE}#include <sched.h>\n#include \"{}/include/nearfar.h\"\n{SOURCE}", root.display());
    let program = lab.scratch.compile("gcc", "phased.c", &source, &["-pthread", "-O1"]);
    let output = lab.command("r", &[]).arg(&program).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let report = lab.scratch.report("r", &[]).0;
    let finding = &report["findings"][0];
    let first = |list: &str| &finding["phases"][list][0];
    for (list, name) in [("placed_in", "initialise"), ("paid_in", "solve")] {
        assert_eq!(first(list)["name"], name, "{finding}");
        assert!(first(list)["share"].as_f64().unwrap() > 0.9, "{finding}");
        let node = first(list)["node"].as_u64().unwrap() as usize;
        assert_eq!(report["phases"]["nodes"][node]["name"], name);
    }

    // What the repair makes of each phase, predicted and then done, both by the time model.
    let of = |report: &serde_json::Value, name: &str| {
        let nodes = report["phases"]["nodes"].as_array().unwrap();
        let node = nodes.iter().position(|n| n["name"] == name).unwrap();
        let gains = report["phases"]["gains"].as_array().unwrap().clone();
        let gain = gains.into_iter().find(|g| g["node"] == node);
        (nodes[node].clone(), gain)
    };
    let file = lab.scratch.path("a.placement");
    let fix =
        crate::common::nearfar().arg("fix").arg(lab.scratch.path("r")).arg("-o").arg(&file).output().unwrap();
    assert!(fix.status.success() && file.exists(), "{}", text(&fix.stderr));
    // The policy of the whole process is the report's own row of all objects, and what it keeps is said.
    let line = crate::common::nearfar().args(["fix", "--to", "numactl"]).arg(lab.scratch.path("r")).output();
    let line = line.unwrap();
    let rows = report["what_if"]["repairs"].as_array().unwrap();
    let all =
        |r: &&serde_json::Value| r["objects"] == serde_json::json!([]) && r["repair"]["kind"] == "interleave";
    let ratio = rows.iter().find(all).unwrap()["predicted"]["ratio"].as_f64().unwrap();
    let written = text(&line.stdout);
    assert!(written.contains("numactl --interleave=0-1 -- "), "{ratio}: {written}{}", text(&line.stderr));
    let gain = format!("Gain: {} less time", nearfar_figures::percent::percent(1.0 - ratio));
    assert!(written.contains(&gain) && written.contains("This keeps "), "{gain}: {written}");
    let placed = ["--placement", file.to_str().unwrap()];
    let output = lab.command("placed", &placed).arg(&program).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let after = lab.scratch.report("placed", &[]).0;
    for (name, gains) in [("solve", true), ("initialise", false)] {
        let (before, gain) = of(&report, name);
        let now = of(&after, name).0;
        let predicted = gain.unwrap_or_else(|| panic!("no prediction of {name}"))["predicted"].clone();
        let number = |name: &str| predicted[name].as_f64().unwrap_or_else(|| panic!("{report}"));
        let ns = |node: &serde_json::Value| node["modelled_ns"].as_f64().unwrap_or_else(|| panic!("{node}"));
        let done = ns(&now) / ns(&before);
        let table = |node: &serde_json::Value| node["all"]["inclusive"]["time_ns"].as_f64().unwrap();
        let (low, ratio, high) = (number("low"), number("ratio"), number("high"));
        let simulated = table(&now) / table(&before);
        println!(
            "{name}: predicted {ratio:.3} ({low:.3} to {high:.3}), done {done:.3}; in the table {simulated:.3}"
        );
        assert!((low..=high).contains(&done), "{name}: predicted {predicted}, done {done}");
        // The table's clock is another (docs/phases.md): it says as well which phase gains, not by exactly how much.
        let side = if gains { high.max(simulated) < 1.0 } else { ratio.min(simulated) > 1.0 };
        assert!(side, "{name}: {predicted}, {simulated}");
    }
    let page =
        crate::common::nearfar().args(["report", "--phases"]).arg(lab.scratch.path("r")).output().unwrap();
    let page = text(&page.stdout);
    assert!(
        page.contains("Each phase's time by the time model") && page.contains("with the repair 0."),
        "{page}"
    );
}
