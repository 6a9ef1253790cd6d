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

    // What the repair makes of each phase, predicted and then done.
    let of = |report: &serde_json::Value, name: &str| {
        let nodes = report["phases"]["nodes"].as_array().unwrap();
        let node = nodes.iter().position(|n| n["name"] == name).unwrap();
        let gains = report["phases"]["gains"].as_array().unwrap().clone();
        let gain = gains.into_iter().find(|g| g["node"] == node);
        (nodes[node]["all"]["inclusive"]["time_ns"].as_f64().unwrap(), gain)
    };
    let file = lab.scratch.path("a.placement");
    let fix =
        crate::common::nearfar().arg("fix").arg(lab.scratch.path("r")).arg("-o").arg(&file).output().unwrap();
    assert!(fix.status.success() && file.exists(), "{}", text(&fix.stderr));
    let placed = ["--placement", file.to_str().unwrap()];
    let output = lab.command("placed", &placed).arg(&program).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let after = lab.scratch.report("placed", &[]).0;
    let (now, gain) = of(&report, "solve");
    let predicted = gain.expect("a gain of the phase that pays")["predicted"].clone();
    let number = |name: &str| predicted[name].as_f64().unwrap_or_else(|| panic!("{report}"));
    let measured = of(&after, "solve").0 / now;
    println!(
        "solve: predicted {} ({} to {}), measured {measured}",
        number("ratio"),
        number("low"),
        number("high")
    );
    // The table's clock is not the model's (docs/phases.md), so both say which phase gains, not by exactly how much.
    assert!(number("high") < 1.0 && measured < 1.0, "{predicted}: measured {measured}");
    let initialise = of(&report, "initialise");
    let slower = of(&after, "initialise").0 / initialise.0;
    println!("initialise: {:?}, measured {slower}", initialise.1);
    assert!(slower > 1.0, "its pages are far then: {slower}");
    if let Some(gain) = initialise.1.filter(|g| g["predicted"].is_object()) {
        assert!(gain["predicted"]["ratio"].as_f64().unwrap() > 1.0, "{gain}");
    }
    let page =
        crate::common::nearfar().args(["report", "--phases"]).arg(lab.scratch.path("r")).output().unwrap();
    let page = text(&page.stdout);
    assert!(
        page.contains("Each phase's time with the best repair") && page.contains("- solve: 0."),
        "{page}"
    );
}
