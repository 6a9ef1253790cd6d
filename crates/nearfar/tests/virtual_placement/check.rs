//! `nearfar check` on virtual machines: on simulated time, whose answer is known from the programs, and its
//! rounds on a real kernel with two nodes, with programs that say how fast they are.

use crate::common::{Scratch, nearfar, skip, text, workload};
use crate::lab::{Lab, guest_works, inside, one_machine};
use serde_json::Value;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Output, Stdio};

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}\n{}", text(&output.stdout), text(&output.stderr)))
}

/// What `check --on` says of a workload after so many rounds, on a machine: words of the command line.
fn emulated(program: &[&str], machine: &[&str], rounds: usize) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(["check", "--json", "--runs", &rounds.to_string(), "--only", "node 0,interleave", "--on"]);
    command.args(machine).arg("--").args(program);
    command.env_remove("OMP_NUM_THREADS");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    json(&output)
}

fn gain(check: &Value, name: &str) -> f64 {
    let all = check["placements"].as_array().unwrap();
    let placed = all.iter().find(|p| p["name"] == name).unwrap_or_else(|| panic!("no {name}: {check}"));
    placed["gain"]["estimate"].as_f64().unwrap_or_else(|| panic!("{check}"))
}

#[test]
fn serial_initialisation_is_called_harmful_and_its_repair_is_not() {
    let (Some(iso3dfd), Some(triad)) = (workload("iso3dfd"), workload("triad")) else { return };
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let (iso3dfd, triad) = (iso3dfd.to_str().unwrap(), triad.to_str().unwrap());
    let xeon = ["xeon-e5-2699v4-2s", "--cpus-per-node", "2"];
    let stencil = [iso3dfd, "96", "96", "128", "2", "96", "16", "16", "--init", "serial"];
    let stream = [triad, "--elements", "600000", "--iterations", "3", "--init", "serial"];
    for program in [&stencil[..], &stream] {
        let check = emulated(program, &xeon, 1);
        let interleaved = gain(&check, "interleave");
        println!("{}: interleave {:+.1} %", program[0], 100.0 * interleaved);
        assert_eq!(check["verdict"], "harmful", "{check}");
        assert!(check["why"].as_str().unwrap().starts_with("interleave is faster"), "{check}");
        // One of two controllers was idle: both can do at most twice as much.
        assert!(interleaved > 0.2 && interleaved < 1.0, "{check}");
    }
    // Repaired. On the Xeon, arrays are hardly larger than the caches, so how much of them is hit differs from run to run. With interleaved
    // pages, the slowest of 40 runs of the stencil took 6 % longer than the fastest. Of three other runs, one took 10 % less time than the rest.
    // On this machine, runs of the stencil differed by 1 % (ten runs), and interleaving costs 2 %. Nine of ten runs of the stream were within
    // 0.2 %, one took 4 % more, and interleaving costs 34 %.
    let lab = Lab::sure(2, 2, 1024);
    let small = lab.scratch.path("machine.toml");
    let stencil = [iso3dfd, "64", "64", "96", "2", "64", "16", "48", "--init", "first-touch"];
    let stream = [triad, "--elements", "200000", "--iterations", "3", "--init", "parallel"];
    for program in [&stencil[..], &stream] {
        let check = emulated(program, &[small.to_str().unwrap()], 1);
        let interleaved = gain(&check, "interleave");
        println!("{}: interleave {:+.1} %", program[0], 100.0 * interleaved);
        assert_eq!(check["verdict"], "harmless", "{check}");
        assert!(interleaved < 0.02, "{check}");
    }
}

/// Says a rate that depends on its memory policy, with a noise of ±1 %, and does what else is asked.
const RATES: &str = r#"
rate=100
grep -q ' interleave' /proc/self/numa_maps && rate=106
grep -q ' bind:0' /proc/self/numa_maps && rate=98
if grep -q ' bind:1' /proc/self/numa_maps; then
    case "$1" in
        fails) echo no memory there >&2; exit 3;;
        silent) echo nothing; exit 0;;
    esac
fi
echo "rate: $rate.$(($$ % 10)) MPoints/s"
"#;

#[test]
fn rounds_on_two_nodes_find_what_the_program_says() {
    if Command::new("grep").arg("--version").output().is_err() {
        return skip("grep is not installed");
    }
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let scratch = Scratch::new();
    let rates = scratch.path("rates.sh");
    std::fs::write(&rates, RATES).unwrap();
    let (rates, own) = (rates.to_str().unwrap(), env!("CARGO_BIN_EXE_nearfar"));
    let out = |name: &str| scratch.path(name).to_str().unwrap().to_owned();
    let check = format!("{own} check -q --metric 'rate: ([0-9.]+)' --only");
    let script = format!(
        "{check} interleave --runs 8 -o {} -- sh {rates} works >{}\n\
         {check} 'node 1,interleave' --runs 2 --json -- sh {rates} fails >{}\n\
         {check} 'node 1,interleave' --runs 2 --json -- sh {rates} silent >{}\n\
         {own} check -q --metric 'speed: ([0-9.]+)' -- sh {rates} works 2>{}; echo $? >>{}\n\
         {own} check -q --only 'node 7' -- sh {rates} works 2>{}\n\
         env --default-signal=INT timeout --preserve-status -s INT 8 {own} check --json -- sleep 1 >{}; echo $? >{}\n\
         timeout --preserve-status -s TERM 3 {own} check -q -- sleep 1; echo $? >{}\n",
        out("works.json"),
        out("works.txt"),
        out("fails.json"),
        out("silent.json"),
        out("never.txt"),
        out("never.txt"),
        out("wrong.txt"),
        out("stopped.json"),
        out("stopped.txt"),
        out("ended.txt"),
    );
    inside(&scratch, "2x1", &script);
    let read = |name: &str| std::fs::read_to_string(scratch.path(name)).unwrap_or_default();
    let parsed = |name: &str| -> Value {
        serde_json::from_str(&read(name)).unwrap_or_else(|e| panic!("{name}: {e}: {}", read(name)))
    };
    let works = parsed("works.json");
    assert_eq!(works["verdict"], "harmful", "{works}");
    assert!((gain(&works, "interleave") - 0.06).abs() < 0.015, "{works}");
    assert_eq!(works["placements"][0]["unit"], "MPoints/s");
    assert_eq!(works["placements"][0]["runs"], 8);
    assert!(read("works.txt").contains("nearfar run -i 0-1 -- sh"), "{}", read("works.txt"));

    // One placement fails: it is named, the others go on.
    for (name, words) in
        [("fails.json", "exit 3; its output ends: no memory there"), ("silent.json", "matches nothing")]
    {
        let check = parsed(name);
        assert_eq!(
            (&check["verdict"], &check["placements"][2]["runs"]),
            (&"unknown".into(), &2.into()),
            "{check}"
        );
        let failed = &check["placements"][1];
        assert_eq!(
            (&failed["name"], &failed["words"], &failed["runs"]),
            (&"node 1".into(), &"failed".into(), &0.into())
        );
        assert!(failed["failed"].as_str().unwrap().contains(words), "{failed}");
    }
    // An expression that never matches ends it after the first run.
    assert!(
        read("never.txt").contains("matches nothing in its output; its output ends: rate: 100"),
        "{}",
        read("never.txt")
    );
    assert!(read("never.txt").ends_with("\n2\n"), "{}", read("never.txt"));
    assert!(read("wrong.txt").contains("`node 7` is not a placement"), "{}", read("wrong.txt"));

    let stopped = parsed("stopped.json");
    assert_eq!(
        (&stopped["trials"]["interrupted"], &stopped["verdict"]),
        (&true.into(), &"unknown".into()),
        "{stopped}"
    );
    assert_eq!((&*read("stopped.txt"), &*read("ended.txt")), ("130\n", "143\n"));
}

/// `nearfar WORDS` with a directory for temporary files of its own, in a process group of its own.
struct Started {
    scratch: Scratch,
    child: Child,
}

impl Started {
    fn new(scratch: Scratch, words: &[&str], fill: impl FnOnce(&mut Command)) -> Started {
        let mut command = nearfar();
        command.args(words).process_group(0).current_dir(scratch.path(""));
        command.env("TMPDIR", scratch.path("tmp")).stdin(Stdio::null());
        fill(&mut command);
        std::fs::create_dir(scratch.path("tmp")).unwrap();
        // SAFETY: signal is async-signal-safe and touches nothing of the parent's; the tests may run with Ctrl-C ignored.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Started { scratch, child }
    }

    /// Waits until `there` gives something, for as long as a machine may take to boot.
    fn until<T>(&self, what: &str, mut there: impl FnMut() -> Option<T>) -> T {
        let begin = std::time::Instant::now();
        loop {
            if let Some(found) = there() {
                return found;
            }
            assert!(begin.elapsed().as_secs() < 120, "{what} does not come");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// The emulator, a descendant. `with`: a word of its command line.
    fn emulator(&self, with: &str) -> i32 {
        self.until("the emulator", || {
            descendants(self.child.id() as i32).into_iter().find(|pid| {
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                line.split(|&byte| byte == 0).any(|word| word == with.as_bytes())
            })
        })
    }

    /// Its end by a signal to its group, or to it alone; the emulator and the temporary files are gone then.
    fn ends(mut self, emulator: i32, signal: i32, group: bool) -> (Output, Scratch) {
        let pid = self.child.id() as i32;
        // SAFETY: no memory is involved; the group is the child's own.
        unsafe { libc::kill(if group { -pid } else { pid }, signal) };
        let begin = std::time::Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if begin.elapsed().as_secs() > 120 {
                // SAFETY: as above.
                unsafe { libc::kill(-pid, libc::SIGKILL) };
                panic!("it does not end: {:?}", self.child.wait_with_output());
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let output = self.child.wait_with_output().unwrap();
        let state = std::fs::read_to_string(format!("/proc/{emulator}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "the emulator still runs: {state}");
        assert_eq!(std::fs::read_dir(self.scratch.path("tmp")).unwrap().count(), 0);
        (output, self.scratch)
    }
}

fn descendants(pid: i32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.flat_map(|thread| std::fs::read_to_string(thread.path().join("children")));
    let children = lists.collect::<Vec<String>>().join(" ");
    let children: Vec<i32> = children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    children.iter().copied().chain(children.iter().flat_map(|&pid| descendants(pid))).collect()
}

/// Booting is where an impatient user types Ctrl-C: a machine that no cache has.
#[test]
fn a_signal_while_the_machine_starts_ends_by_it_and_leaves_nothing() {
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let Some(copy) = workload("copy") else { return };
    let workloads = copy.parent().unwrap().to_str().unwrap();
    for (words, signal) in [
        (&["check", "--on", "2x1", "--", "true"][..], libc::SIGINT),
        (&["check", "--on", "2x1", "--", "true"], libc::SIGTERM),
        (&["cure", "--on", "2x1", "-o", "new", "--", "true"], libc::SIGTERM),
        (&["record", "--on", "2x1", "-o", "new", "--", "true"], libc::SIGTERM),
        (&["topo", "--on", "2x1"], libc::SIGTERM),
        (&["reproduce", "17", "--workloads", workloads], libc::SIGINT),
        (&["reproduce", "17", "-o", "new", "--workloads", workloads], libc::SIGTERM),
    ] {
        let scratch = Scratch::new();
        let kernel = nearfar_guest::Setup::find(&mut |_| {}).unwrap().kernel().image.clone();
        let cache = scratch.path("cache");
        let started = Started::new(scratch, words, |command| {
            command.env("XDG_CACHE_HOME", cache).env("NEARFAR_GUEST_KERNEL", kernel);
        });
        let made = started.scratch.path("new");
        let emulator = started.emulator("-initrd");
        // Ctrl-C is for all of a terminal's group.
        let (output, _scratch) = started.ends(emulator, signal, signal == libc::SIGINT);
        let errors = text(&output.stderr);
        if words[0] == "check" {
            assert_eq!(output.status.code(), Some(128 + signal), "{errors}");
            assert!(text(&output.stdout).contains("it was stopped before"), "{}", text(&output.stdout));
        } else {
            assert_eq!(output.status.signal(), Some(signal), "{words:?} {errors}");
        }
        assert!(!made.exists(), "{words:?} {errors}");
    }
}

/// What was recorded before stays, and can be judged.
#[test]
fn a_signal_in_the_second_run_of_reproduce_keeps_the_first() {
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let Some(copy) = workload("copy") else { return };
    let workloads = copy.parent().unwrap().to_str().unwrap();
    let words = ["reproduce", "17", "-o", "kept", "--workloads", workloads];
    let started = Started::new(Scratch::new(), &words, |_| {});
    let kept = started.scratch.path("kept");
    let names = || {
        let entries = std::fs::read_dir(&kept).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    started.until("the second run", || (names().len() == 2).then_some(()));
    let emulator = started.emulator("-plugin");
    let (output, _scratch) = started.ends(emulator, libc::SIGTERM, false);
    let errors = text(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGTERM), "{errors}");
    assert!(errors.contains("interrupted after 1 of 4 runs; they are in"), "{errors}");
    assert_eq!(names().len(), 1, "{errors}");
}

/// The program hears of it and ends as if all were well: that run is not counted, and no other one begins.
#[test]
fn a_signal_while_the_program_runs_ends_a_check_after_it() {
    let _one = one_machine();
    if !guest_works() {
        return;
    }
    let scratch = Scratch::new();
    let ready = scratch.path("ready");
    let program = format!("trap 'exit 0' TERM; echo >{}; while :; do sleep 0.1; done", ready.display());
    let words = ["check", "--on", "2x1", "--runs", "1", "--", "sh", "-c", &program];
    let started = Started::new(scratch, &words, |_| {});
    started.until("the program", || ready.exists().then_some(()));
    let emulator = started.emulator("-plugin");
    let (output, _scratch) = started.ends(emulator, libc::SIGTERM, false);
    assert_eq!(output.status.code(), Some(143), "{}", text(&output.stderr));
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(printed.contains("it was stopped before"), "{printed}{errors}");
    assert!(!errors.contains("one node"), "another placement was tried: {errors}");
}
