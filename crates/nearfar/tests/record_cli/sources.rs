//! Where something is not permitted or not there, the next source takes over and is named.

use crate::common::{self, Scratch, beyond_caches, has, perf_works, skip, text, workload};
use crate::programs::run;
use std::path::Path;
use std::process::Command;

/// Of the chase: half a second and more, for a timer that may fire at the kernel's ticks only (100 to
/// 1000 in a second), however fast the host.
const STEPS: &str = "10000000";

/// The signal source: which must be named, and know no nodes of pages on a machine that is only assumed.
fn assert_signal_source(report: &common::Report) {
    assert!(report.samples("signal") > 50, "{}", report.0["sources"]);
    assert_eq!(report.samples("clock"), 0);
    assert_eq!(report.verdict(), "unknown");
    assert!(report.0["verdict_why"].as_str().unwrap().contains("perf"), "{}", report.0["verdict_why"]);
    assert!(report.0["remote_share"].is_null());
}

#[test]
fn without_perf_events_the_agents_timer_samples() {
    let Some(program) = workload("chase") else { return };
    let scratch = Scratch::new();
    let bytes = beyond_caches(32 << 20).to_string();
    let command = [program.to_str().unwrap(), "--bytes", &bytes, "--steps", STEPS, "--threads", "1"];
    let run = scratch.record("r", &["--no-perf"], &command);
    assert_signal_source(&run.report);
    let chain = run.report.object("chain");
    assert!(chain.used_in(&["walk"]) > 0.5, "{chain:?}");
}

#[test]
fn a_recording_in_which_nothing_can_be_is_refused() {
    let scratch = Scratch::new();
    let mark = scratch.path("ran");
    let output = run(scratch.recorder("s", &["--no-perf", "--no-agent"]).arg("touch").arg(&mark));
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("leave nothing that records"), "{}", text(&output.stderr));
    assert!(!mark.exists() && !scratch.path("s").exists());
}

#[test]
fn without_the_agent_objects_come_from_mappings() {
    let (true, Some(program)) = (perf_works(), workload("chase")) else { return };
    let scratch = Scratch::new();
    let command = [program.to_str().unwrap(), "--bytes", "33554432", "--steps", STEPS, "--threads", "1"];
    let run = scratch.record("r", &["--no-agent"], &command);
    assert!(run.report.samples("clock") > 100);
    assert!(run.report.notes().contains("agent"), "{}", run.report.notes());
    assert!(run.report.objects().iter().all(|o| o["kind"] != "heap"), "{:?}", run.report.objects());
    let largest = common::Object(&run.report.objects()[0]);
    assert!(largest.used_in(&["walk"]) > 0.5, "{largest:?}");
}

#[test]
fn a_refusal_by_seccomp_is_named_and_the_signal_source_takes_over() {
    let Some(program) = workload("chase") else { return };
    let scratch = Scratch::new();
    let launcher = scratch.c(
        "launcher",
        r#"#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
int main(int argc, char **argv) {
    (void)argc;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog all = {4, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all)) return 77;
    execv(argv[1], argv + 1);
    return 78;
}"#,
    );
    let mut inner = scratch.recorder("r", &[]);
    let bytes = beyond_caches(32 << 20).to_string();
    inner.arg(program).args(["--bytes", &bytes, "--steps", STEPS, "--threads", "1"]);
    let output = run(Command::new(launcher).arg(inner.get_program()).args(inner.get_args()));
    if output.status.code() == Some(77) {
        return skip("no seccomp filter can be installed here");
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = scratch.report("r", &[]);
    assert_signal_source(&report);
    let why = report.0["verdict_why"].as_str().unwrap();
    assert!(why.contains("seccomp") || why.contains("paranoid"), "{why}");
}

#[test]
fn an_ordinary_user_can_record_own_programs() {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 || !has("setpriv") {
        return skip("becoming an ordinary user needs root and setpriv");
    }
    let Some(program) = workload("triad") else { return };
    let scratch = Scratch::new();
    // Build trees may be where other users cannot look.
    for (from, to) in [(Path::new(env!("CARGO_BIN_EXE_nearfar")), "nearfar"), (&program, "triad")] {
        std::fs::copy(from, scratch.path(to)).unwrap();
    }
    let opened = Command::new("chmod").arg("0777").arg(scratch.directory()).status().unwrap();
    assert!(opened.success());
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(scratch.path("nearfar"));
    command.args(["record", "-o"]).arg(scratch.path("r")).arg("--").arg(scratch.path("triad"));
    // Long enough that each array has samples: a report leaves out objects without any.
    command.args(["--elements", "1000000", "--iterations", "1500"]).current_dir(scratch.directory());
    let output = run(command.env("OMP_WAIT_POLICY", "passive").env("HOME", scratch.directory()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report = scratch.report("r", &[]);
    let samples = report.samples("clock") + report.samples("signal");
    assert!(samples > 50, "{}", report.0["sources"]);
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    if paranoid.trim().parse::<i32>().is_ok_and(|level| level <= 2) && perf_works() {
        assert!(report.samples("clock") > 50);
        assert_eq!(
            report.object("a").pages("touched"),
            report.object("a").pages("total"),
            "{}",
            report.notes()
        );
    }
}
