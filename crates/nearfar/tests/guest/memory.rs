//! Nodes, their memory, and how a plugin sees it.

use super::machine::{booted, compiled, job, run, sh, shape_of, snapshot};
use nearfar_guest::{HugePages, Plugin};
use nearfar_machine::Machine;

#[test]
fn the_guests_kernel_sees_nodes_cpus_and_distances() {
    let Some(snapshot) = snapshot() else { return };
    let said = sh(
        snapshot,
        "cd /sys/devices/system/node; cat online node0/cpulist node1/cpulist node0/distance node1/distance; \
         grep -h MemTotal node*/meminfo; cat /sys/devices/system/cpu/possible",
    );
    let lines: Vec<&str> = said.text().lines().collect();
    assert_eq!(lines[..5], ["0-1", "0-1,4", "2-3", "10 21", "21 10"], "{}", said.stderr);
    for line in &lines[5..7] {
        let kib: u64 = line.split_whitespace().nth(3).unwrap().parse().unwrap();
        // The kernel keeps some of the first node's for itself.
        assert!((900 << 10..=1024 << 10).contains(&kib), "{line}");
    }
    assert_eq!(lines[7], "0-4");
}

#[test]
fn the_program_starts_on_the_housekeeping_cpu() {
    let Some(snapshot) = snapshot() else { return };
    let said = sh(snapshot, "grep Cpus_allowed_list /proc/self/status");
    assert_eq!(said.text().split_whitespace().last(), Some("4"));
}

/// Those that may be on any cpu are for work that the kernel's other threads have no memory for: they never run.
#[test]
fn the_kernels_own_threads_are_on_one_cpu_each_or_do_nothing() {
    let Some(snapshot) = snapshot() else { return };
    // They have no memory. By thread: its name, its cpus, how often it waited.
    let said = sh(
        snapshot,
        "grep -L ^VmSize /proc/[0-9]*/status | xargs awk '/^Name/ {n=$2} /^Cpus_allowed_list/ {c=$2} /^vol/ {print n, c, $2}'",
    );
    let threads: Vec<Vec<&str>> = said.text().lines().map(|line| line.split(' ').collect()).collect();
    let anywhere = threads.iter().filter(|thread| thread[1].parse::<u32>().is_err());
    let working: Vec<_> = anywhere.filter(|thread| thread[2].parse::<u32>().unwrap() > 2).collect();
    assert!(working.is_empty(), "{working:?}");
    let rcu = threads.iter().find(|thread| thread[0] == "rcu_preempt").unwrap();
    assert_eq!(rcu[1], "4", "the housekeeping cpu");
}

/// Where `mbind` puts pages is where `move_pages` finds them and where the plugin sees the
/// accesses go. Three nodes, the last without cpus: an error in the layout of QEMU's memory
/// that two nodes would hide shows with the third.
#[test]
fn pages_are_on_the_nodes_they_are_bound_to_for_kernel_and_plugin() {
    let mut machine = Machine::from_shape("3x1").unwrap();
    machine.nodes[2].cpus = Default::default();
    let Some(snapshot) = booted(&shape_of(&machine)) else { return };
    if !snapshot.setup().qemu().plugins {
        return println!("skipped: this QEMU has no plugins");
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compiled("touch.c", directory.path(), &["-O1"]) else { return };
    let options = ["-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"];
    let Some(plugin) = compiled("where.c", directory.path(), &options) else { return };
    let list = directory.path().join("accesses, all");
    let mut job = job(&[program.to_str().unwrap(), "3"]);
    job.huge_pages = HugePages::Never;
    job.plugin = Some(Plugin {
        path: plugin,
        arguments: vec![("out".into(), list.to_str().unwrap().into())],
        preload: Vec::new(),
    });
    let said = run(&snapshot, job).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(said.text(), "node 0: 64 of 64\nnode 1: 64 of 64\nnode 2: 64 of 64\n", "{}", said.stderr);
    assert_eq!(said.outcome.trouble, None);

    let seen = std::fs::read_to_string(&list).unwrap();
    assert_eq!(seen.lines().last(), Some("finished"), "the plugin did not end in order");
    let ends = &snapshot.about().ram_ends;
    let mut pages = [0; 3];
    for line in seen.lines().filter(|line| line.contains(' ')) {
        let (virt, physical) = line.split_once(' ').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let bound = ((number(virt) - 0x7000_0000_0000) >> 26) as usize;
        let page_node = ends.iter().position(|&end| number(physical) < end);
        assert_eq!(page_node, Some(bound), "{line}, ends {ends:x?}");
        pages[bound] += 1;
    }
    // The program's own write and, per page, what the kernel does with it.
    assert!(pages.iter().all(|&seen| seen >= 64), "{pages:?}");
}

#[test]
fn huge_pages_and_balancing_are_as_asked() {
    let Some(snapshot) = snapshot() else { return };
    let ask = "cat /sys/kernel/mm/transparent_hugepage/enabled /proc/sys/kernel/numa_balancing";
    for (huge, balancing, expected) in [
        (HugePages::Always, true, "[always] madvise never\n1\n"),
        (HugePages::Never, false, "always madvise [never]\n0\n"),
    ] {
        let mut job = job(&["sh", "-c", ask]);
        job.huge_pages = huge;
        job.numa_balancing = balancing;
        assert_eq!(run(snapshot, job).unwrap().text(), expected);
    }
}

/// Programs that look at the clock again and again, as MPI's libraries do while they wait, would ask a device each time.
#[test]
fn the_clock_is_read_without_a_device() {
    let Some(snapshot) = snapshot() else { return };
    let clock = job(&["cat", "/sys/devices/system/clocksource/clocksource0/current_clocksource"]);
    assert_eq!(run(snapshot, clock).unwrap().text(), "tsc\n");
}

#[test]
fn shared_memory_is_the_guests_own() {
    let Some(snapshot) = snapshot() else { return };
    let name = format!("nearfar-test-{}", std::process::id());
    let said = sh(snapshot, &format!("echo here > /dev/shm/{name} && cat /dev/shm/{name}"));
    assert_eq!(said.text(), "here\n", "{}", said.stderr);
    assert!(!std::path::Path::new("/dev/shm").join(name).exists());
}
