//! `doctor` inside real limits: seccomp filters, a user namespace, control groups.

use crate::common::{nearfar, skip};
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const CALLS: [libc::c_long; 5] = [
    libc::SYS_perf_event_open,
    libc::SYS_move_pages,
    libc::SYS_get_mempolicy,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
];

/// What `doctor` lists as limits.
fn confined(command: &mut Command) -> Vec<Value> {
    let run = command.args(["doctor", "--json"]).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let diagnosis: Value = serde_json::from_slice(&run.stdout).unwrap();
    diagnosis["confined"].as_array().unwrap().clone()
}

fn of<'a>(limits: &'a [Value], what: &str) -> Option<&'a Value> {
    limits.iter().find(|l| l["what"].as_str().unwrap().contains(what))
}

/// A filter that answers `calls` with `action`, for the command and all that it starts.
fn filtered(command: &mut Command, calls: &[libc::c_long], action: u32) {
    let code = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    // The first word of seccomp_data is the call's number.
    let mut program = vec![code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for &call in calls {
        program.push(code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32, 0, 1));
        program.push(code(libc::BPF_RET | libc::BPF_K, action, 0, 0));
    }
    program.push(code(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0));
    let install = move || {
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
        // SAFETY: plain system calls; the kernel copies the program, which lives in the closure.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
        };
        if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: the closure makes two system calls and allocates nothing unless they fail.
    unsafe { command.pre_exec(install) };
}

#[test]
fn a_seccomp_filter_is_named_with_the_calls_that_it_refuses() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    if !status.contains("Seccomp:\t0") {
        return skip("a seccomp filter is around this test");
    }
    let free = confined(&mut nearfar());
    assert!(of(&free, "refused").is_none(), "{free:?}");

    let eperm = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut command = nearfar();
    filtered(&mut command, &CALLS, eperm);
    let limits = confined(&mut command);
    let limit = of(&limits, "refused").unwrap_or_else(|| panic!("{limits:?}"));
    let (what, by) = (limit["what"].as_str().unwrap(), limit["by"].as_str().unwrap());
    for call in ["perf_event_open", "move_pages", "get_mempolicy", "mbind", "set_mempolicy"] {
        assert!(what.contains(call), "{what}");
    }
    assert!(by.contains("a seccomp filter"), "{by}");
    assert!(limit["unlock"].as_str().unwrap().contains("seccomp=unconfined"));

    // Docker's filter with perf events allowed: another option unlocks the rest.
    let mut command = nearfar();
    filtered(&mut command, &CALLS[3..4], eperm);
    let limits = confined(&mut command);
    let limit = of(&limits, "refused").unwrap();
    assert_eq!(limit["what"], "mbind refused");
    assert!(limit["unlock"].as_str().unwrap().contains("--cap-add SYS_NICE"));

    // One that kills does not end nearfar.
    let mut command = nearfar();
    filtered(&mut command, &CALLS[3..4], libc::SECCOMP_RET_KILL_PROCESS);
    let limits = confined(&mut command);
    assert_eq!(of(&limits, "killed").unwrap()["what"], "killed for mbind");
}

#[test]
fn a_user_namespace_is_named_with_who_is_root_in_it() {
    let allowed = Command::new("unshare").args(["--user", "--map-root-user", "true"]).output();
    if !allowed.is_ok_and(|run| run.status.success()) {
        return skip("no user namespace can be made here");
    }
    let outside = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    let first = outside.split_whitespace().collect::<Vec<_>>() == ["0", "0", "4294967295"];
    assert_eq!(of(&confined(&mut nearfar()), "rights over the whole host").is_none(), first);
    let mut inside = Command::new("unshare");
    inside.args(["--user", "--map-root-user"]).arg(env!("CARGO_BIN_EXE_nearfar"));
    let limits = confined(&mut inside);
    let limit = of(&limits, "rights over the whole host").unwrap_or_else(|| panic!("{limits:?}"));
    // SAFETY: no preconditions.
    let me = unsafe { libc::geteuid() };
    assert!(limit["by"].as_str().unwrap().contains(&format!("root is the user {me} ")), "{limit}");
}

/// A group of a hierarchy of version 1, which is removed when it is dropped.
struct Group(PathBuf);

impl Group {
    fn new(controller: &str) -> Option<Group> {
        let folder =
            Path::new("/sys/fs/cgroup").join(controller).join(format!("nearfar-{}", std::process::id()));
        std::fs::create_dir(&folder).ok().map(|()| Group(folder))
    }

    fn set(&self, file: &str, value: &str) -> bool {
        std::fs::write(self.0.join(file), value).is_ok()
    }

    /// A shell's words that move it there.
    fn enter(&self) -> String {
        format!("echo $$ > {}/cgroup.procs", self.0.display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn cpusets_and_quotas_of_control_groups_are_named_with_their_group() {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap().trim().to_owned();
    let (Some(set), Some(time)) = (Group::new("cpuset"), Group::new("cpu")) else {
        return skip("no control groups of version 1 can be made here");
    };
    let mems = std::fs::read_to_string("/sys/fs/cgroup/cpuset/cpuset.mems").unwrap_or_default();
    let limited = online != "0"
        && set.set("cpuset.mems", mems.trim())
        && set.set("cpuset.cpus", "0")
        && time.set("cpu.cfs_period_us", "100000")
        && time.set("cpu.cfs_quota_us", "50000");
    if !limited {
        return skip("this machine has one cpu, or its control groups may not be set");
    }
    let script = format!("{} && {} && exec \"$0\" \"$@\"", set.enter(), time.enter());
    let mut inside = Command::new("sh");
    inside.args(["-c", &script]).arg(env!("CARGO_BIN_EXE_nearfar"));
    let limits = confined(&mut inside);
    let group = format!("/nearfar-{}", std::process::id());
    let cpus = of(&limits, "cpus: 0 of").unwrap_or_else(|| panic!("{limits:?}"));
    assert_eq!(cpus["what"], format!("cpus: 0 of {online}"));
    assert!(cpus["by"].as_str().unwrap().contains(&group), "{cpus}");
    assert!(cpus["unlock"].as_str().unwrap().contains("--cpuset-cpus"));
    let quota = of(&limits, "time of 0.5 cpus").unwrap_or_else(|| panic!("{limits:?}"));
    assert!(quota["by"].as_str().unwrap().contains(&group), "{quota}");
}
