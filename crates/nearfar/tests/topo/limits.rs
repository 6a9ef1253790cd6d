//! Limits of control groups: which of many counts, and that none is not the same as unknown.

use super::{TWO, flat, machine, read, warned};
use serde_json::{Value, json};

const FOUR_CPUS: (&str, &str) = ("proc/self/status", "Cpus_allowed_list:\t0-3\nMems_allowed_list:\t0-1");
const UNIFIED: (&str, &str) =
    ("proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw");
const GROUP: (&str, &str) = ("proc/self/cgroup", "0::/batch/job1");

fn limits(files: &[(&str, &str)]) -> (Value, Value) {
    let t = read(machine(TWO, &[&[FOUR_CPUS, UNIFIED, GROUP], files].concat()).path());
    (t["allowed"]["limits"].clone(), t)
}

#[test]
fn the_smallest_limit_of_all_groups_around_the_caller_counts() {
    let (limits, t) = limits(&[
        ("sys/fs/cgroup/cgroup.procs", ""),
        ("sys/fs/cgroup/batch/memory.max", "3145728"),
        ("sys/fs/cgroup/batch/memory.high", "max"),
        ("sys/fs/cgroup/cpu.max", "max 100000"),
        ("sys/fs/cgroup/batch/cpu.max", "300000 100000"),
        ("sys/fs/cgroup/batch/job1/memory.max", "3670016"),
        ("sys/fs/cgroup/batch/job1/memory.high", "2097152"),
        ("sys/fs/cgroup/batch/job1/cpu.max", "250000 100000"),
    ]);
    assert_eq!(
        limits,
        json!({
            "memory_max_kb": {"state": "limited", "limit": 3072, "from": "memory.max of /batch"},
            "memory_high_kb": {"state": "limited", "limit": 2048, "from": "memory.high of /batch/job1"},
            "cpu_quota": {"state": "limited", "limit": 2.5, "from": "cpu.max of /batch/job1"},
            "hidden_groups": false,
        })
    );
    assert!(warned(&t, "gets the time of 2.5 only (cpu.max of /batch/job1)"), "{}", t["warnings"]);
    // The lower of the two is reached first.
    assert!(warned(&t, "gives 2 MiB of memory (memory.high of /batch/job1), less than any node"), "{t}");
    assert!(!warned(&t, "kills"), "{}", t["warnings"]);
}

#[test]
fn no_limit_and_an_unknown_limit_are_told_apart() {
    let (none, t) = limits(&[
        ("sys/fs/cgroup/cgroup.procs", ""),
        ("sys/fs/cgroup/batch/memory.max", "max"),
        ("sys/fs/cgroup/batch/job1/cgroup.procs", ""),
    ]);
    for field in ["memory_max_kb", "memory_high_kb", "cpu_quota"] {
        assert_eq!(none[field], json!({"state": "unlimited"}), "{field}");
    }
    assert_eq!(t["warnings"], json!([]));
    let (gone, _) = limits(&[("sys/fs/cgroup/cgroup.procs", "")]);
    let (odd, _) = limits(&[("sys/fs/cgroup/batch/job1/memory.max", "plenty")]);
    let none_mounted = read(machine(TWO, &[GROUP]).path())["allowed"]["limits"].clone();
    let no_groups = read(machine(TWO, &[]).path())["allowed"]["limits"].clone();
    for (limits, why) in [
        (gone, "no folder"),
        (odd, "says \"plenty\", which is not a limit"),
        (none_mounted, "not mounted"),
        (no_groups, "proc/self/cgroup cannot be read"),
    ] {
        assert_eq!(limits["memory_max_kb"]["state"], "unknown");
        let told = limits["memory_max_kb"]["why"].as_str().unwrap();
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn a_quota_that_pays_for_all_cpus_and_a_limit_above_one_node_are_no_warnings() {
    let (_, t) = limits(&[
        ("sys/fs/cgroup/batch/job1/memory.max", "4194304"),
        ("sys/fs/cgroup/batch/job1/cpu.max", "400000 100000"),
    ]);
    assert_eq!(t["allowed"]["limits"]["cpu_quota"]["limit"], 4.0);
    assert_eq!(t["warnings"], json!([]));
}

#[test]
fn version_1_has_its_own_files_and_a_container_mounts_only_its_part() {
    let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                  32 31 0:29 /docker/1f /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                  35 31 0:32 /docker/1f /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                  41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
    let groups = "4:memory:/docker/1f/x\n1:cpu,cpuacct:/docker/1f\n0::/";
    let dir = machine(
        TWO,
        &[
            FOUR_CPUS,
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", groups),
            ("sys/fs/cgroup/memory/cgroup.procs", ""),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2097152"),
            // The kernel's word for no limit: 2⁶³ − 1, down to a whole page.
            ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000"),
        ],
    );
    let t = read(dir.path());
    assert_eq!(
        t["allowed"]["limits"],
        json!({
            "memory_max_kb": {"state": "limited", "limit": 2048, "from": "memory.limit_in_bytes of /docker/1f"},
            "memory_high_kb": {"state": "unlimited"},
            "cpu_quota": {"state": "unlimited"},
            // Only the true root has release_agent.
            "hidden_groups": true,
        })
    );
    assert!(warned(&t, "then kills it"), "{}", t["warnings"]);
    let text = flat(dir.path());
    let words = "memory at most 2.0 MiB (memory.limit_in_bytes of /docker/1f); cpu time without limit; the groups \
                 around this container cannot be seen and may allow less";
    assert!(text.contains(words), "{text}");
    std::fs::write(dir.path().join("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"), "50000\n").unwrap();
    let t = read(dir.path());
    assert_eq!(t["allowed"]["limits"]["cpu_quota"]["limit"], 0.5);
    assert!(warned(&t, "run at most 1 or raise the quota"), "{}", t["warnings"]);
}

/// What is captured of a machine has no /proc/self/status, but cgroup files of the process that captured it.
#[test]
fn a_captured_tree_says_what_its_cpuset_allows() {
    let one = [
        ("proc/self/cgroup", "4:cpuset:/batch/job\n1:name=systemd:/\n0::/"),
        ("sys/fs/cgroup/cpuset/cpuset.cpus", "0-3"),
        ("sys/fs/cgroup/cpuset/batch/job/cpuset.cpus", "0-1"),
        ("sys/fs/cgroup/cpuset/batch/job/cpuset.mems", "1"),
    ];
    // The group has no file of its own: the nearest one around it counts.
    let two = [
        ("proc/self/cgroup", "0::/batch/job"),
        ("sys/fs/cgroup/batch/job/cgroup.procs", ""),
        ("sys/fs/cgroup/batch/cpuset.cpus.effective", "0-1"),
        ("sys/fs/cgroup/batch/cpuset.mems.effective", "1"),
        ("sys/fs/cgroup/cpuset.cpus.effective", "0-3"),
    ];
    let dev = [
        ("proc/self/cpuset", "/torque/job"),
        ("dev/cpuset/cpus", "0-3"),
        ("dev/cpuset/torque/job/cpus", "0-1"),
        ("dev/cpuset/torque/job/mems", "1"),
    ];
    for files in [&one[..], &two[..], &dev[..]] {
        let t = read(machine(TWO, files).path());
        assert_eq!(
            (&t["allowed"]["cpus"], &t["allowed"]["nodes"]),
            (&json!("0-1"), &json!("1")),
            "{files:?}"
        );
        assert!(warned(&t, "so all of its memory is far"), "{}", t["warnings"]);
    }
    let outside = [("proc/self/cpuset", "/../../etc"), ("dev/cpuset/cpus", "0-3")];
    let t = read(machine(TWO, &outside).path());
    assert_eq!(t["allowed"]["cpus"], Value::Null);
}
