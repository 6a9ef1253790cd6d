//! What passes between host and program: arguments, environment, files, streams, exit.

use super::machine::{booted, job, run, sh, shape, snapshot};
use nearfar_guest::{GuestError, Stream, Verdict};
use nearfar_host::target::Ending;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

#[test]
fn exit_status_and_signal_come_back() {
    let Some(snapshot) = snapshot() else { return };
    let ending = |script: &str| sh(snapshot, script).outcome.ending;
    assert_eq!(ending("exit 7"), Ending::Exit(7));
    assert_eq!(ending("kill -SEGV $$"), Ending::Signal(libc::SIGSEGV));
}

/// Such a machine once waited for ever for the cpus of its second socket.
#[test]
fn a_machine_whose_sockets_have_three_cores_boots() {
    let Some(snapshot) = booted(&shape("1x3")) else { return };
    let said = sh(&snapshot, "cat /sys/devices/system/cpu/online /sys/devices/system/cpu/present");
    assert_eq!(said.text(), "0-3\n0-3\n");
}

/// Init starts its cpus, not the kernel. Interrupts of devices keep off the program's.
#[test]
fn a_machine_of_more_than_64_cpus_boots_with_all_of_them() {
    let Some(snapshot) = booted(&shape("2x33")) else { return };
    let script = "cd /sys/devices/system; cat cpu/online node/node0/cpulist node/node1/cpulist; \
                  awk '/virtio/ { for (cpu = 2; cpu < 68; cpu++) if ($cpu) print cpu - 2, $0 }' /proc/interrupts";
    let said = sh(&snapshot, script);
    assert_eq!(said.text(), "0-66\n0-32,66\n33-65\n");
}

#[test]
fn arguments_environment_and_directory_are_the_hosts() {
    let Some(snapshot) = snapshot() else { return };
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("a place, with spaces");
    std::fs::create_dir(&place).unwrap();
    let script = r#"printf '<%s>' "$@"; echo; pwd; env | sort"#;
    let odd = ["one", "two  spaces", "", "new\nline", "ümläut", "'\"$HOME"];
    let mut job = job(&["sh", "-c", script, "sh"]);
    job.arguments.extend(odd.map(Into::into));
    job.environment = [("PATH", "/usr/bin:/bin"), ("NAME", "a = b"), ("EMPTY", "")]
        .map(|(name, value)| (name.into(), value.into()))
        .into();
    job.directory = place.clone();
    let said = run(snapshot, job).unwrap();
    let (arguments, rest) = said.text().split_once(">\n").unwrap();
    assert_eq!(format!("{arguments}>"), odd.map(|a| format!("<{a}>")).concat());
    let mut lines = rest.lines();
    assert_eq!(lines.next(), place.canonicalize().unwrap().to_str());
    let variables: Vec<&str> = lines.filter(|l| !l.starts_with("PWD=") && !l.starts_with("_=")).collect();
    assert_eq!(variables, ["EMPTY=", "NAME=a = b", "PATH=/usr/bin:/bin"]);
}

#[test]
fn the_program_is_the_same_user_with_the_same_limits() {
    let Some(snapshot) = snapshot() else { return };
    let ask = "id -u; id -g; umask; ulimit -s; ulimit -n";
    let native = std::process::Command::new("sh").args(["-c", ask]).output().unwrap();
    assert_eq!(sh(snapshot, ask).stdout, native.stdout);
}

#[test]
fn files_are_the_hosts_and_new_ones_the_users() {
    let Some(snapshot) = snapshot() else { return };
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("input"), "from the host").unwrap();
    let mut job = job(&[
        "sh",
        "-c",
        "cat input; mkdir -p new/deep; umask 027; printf 'from the guest' > new/deep/file",
    ]);
    job.directory = directory.path().to_owned();
    let said = run(snapshot, job).unwrap();
    assert_eq!(said.text(), "from the host", "{}", said.stderr);
    let file = directory.path().join("new/deep/file");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "from the guest");
    let about = std::fs::metadata(&file).unwrap();
    // SAFETY: no preconditions.
    let me = unsafe { (libc::geteuid(), libc::getegid()) };
    assert_eq!((about.uid(), about.gid(), about.mode() & 0o777), (me.0, me.1, 0o640));
    assert_eq!(std::fs::metadata(directory.path().join("new")).unwrap().uid(), me.0);
}

/// Overwriting, appending, mapping, renaming, removing, and root's way round by a second mount: the files stay.
#[test]
fn read_only_files_are_changed_in_the_guest_alone() {
    let Some(snapshot) = snapshot() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for name in ["over", "more", "away", "gone"] {
        std::fs::write(path(name), "old").unwrap();
    }
    // A comma ends a value on the emulator's command line.
    std::fs::create_dir(path("a,place")).unwrap();
    let script = "set -e; echo new > over; echo new >> more; mv away there; rm gone; mkdir made; echo kept > a,place/file\n\
                  cat over more there; ls -d made gone 2>/dev/null || true\n\
                  mkdir again && mount -t 9p -o trans=virtio,version=9p2000.L host again 2>/dev/null \
                  && touch again$PWD/sneaked 2>/dev/null || true";
    let mut job = job(&["sh", "-c", script]);
    job.directory = directory.path().to_owned();
    job.writable = Some(path("a,place"));
    let said = run(snapshot, job).unwrap();
    assert_eq!((said.text(), said.stderr.as_str()), ("new\noldnew\noldmade\n", ""));
    let read = |name: &str| std::fs::read_to_string(path(name)).unwrap();
    assert_eq!(["over", "more", "away", "gone"].map(read), ["old"; 4]);
    assert_eq!(read("a,place/file"), "kept\n");
    let mut names: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a,place", "away", "gone", "more", "over"]);
}

/// Written through a shared mapping, which 9p only has with a cache.
#[test]
fn files_can_be_mapped_and_written() {
    let Some(snapshot) = snapshot() else { return };
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("data"), vec![b'.'; 100_000]).unwrap();
    let script = "import mmap\n\
                  with open('data', 'r+b') as f:\n    m = mmap.mmap(f.fileno(), 0)\n    m[99990:99994] = b'here'\n    m.close()\n\
                  print(sum(range(10)))";
    let mut job = job(&["python3", "-c", script]);
    job.directory = directory.path().to_owned();
    let said = match run(snapshot, job) {
        Err(GuestError::Refused { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => {
            return println!("skipped: no python3 on this host");
        }
        other => other.unwrap(),
    };
    assert_eq!((said.text(), said.stderr.as_str()), ("45\n", ""));
    let data = std::fs::read(directory.path().join("data")).unwrap();
    assert_eq!((data.len(), &data[99_988..99_996]), (100_000, &b"..here.."[..]));
}

#[test]
fn streams_pass_byte_for_byte_and_apart() {
    let Some(snapshot) = snapshot() else { return };
    // More than all pipes and credits on the way hold.
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let (stdin, mut feed) = std::io::pipe().unwrap();
    let mut job = job(&["sh", "-c", "printf 'to\\0stderr' >&2; cat; printf end >&2"]);
    job.stdin = Stream::File(OwnedFd::from(stdin));
    let (said, fed) = std::thread::scope(|scope| {
        let feeder = scope.spawn(|| {
            feed.write_all(&bytes).unwrap();
            drop(feed);
        });
        let said = run(snapshot, job).unwrap();
        (said, feeder.join())
    });
    fed.unwrap();
    assert!(said.stdout == bytes, "{} of {} bytes came back, or others", said.stdout.len(), bytes.len());
    assert_eq!(said.stderr, "to\0stderrend");
    assert_eq!(said.outcome.ending, Ending::Exit(0));
}

#[test]
fn a_program_that_does_not_read_its_input_takes_little_of_it() {
    let Some(snapshot) = snapshot() else { return };
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![b'x'; 1 << 20]).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    let mut job = job(&["sh", "-c", "echo done"]);
    job.stdin = Stream::File(OwnedFd::from(file.try_clone().unwrap()));
    assert_eq!(run(snapshot, job).unwrap().text(), "done\n");
    let mut rest = Vec::new();
    file.read_to_end(&mut rest).unwrap();
    // The program's pipe and as much ahead.
    assert!(rest.len() >= (1 << 20) - (256 << 10), "{} left", rest.len());
}

#[test]
fn order_is_kept_where_both_outputs_are_one_file() {
    let Some(snapshot) = snapshot() else { return };
    let (mut both, one) = std::io::pipe().unwrap();
    let mut job = job(&["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo o$i; echo e$i >&2; done"]);
    job.stdout = Stream::File(OwnedFd::from(one.try_clone().unwrap()));
    job.stderr = Stream::File(OwnedFd::from(one));
    snapshot.run(job).unwrap();
    let mut text = String::new();
    both.read_to_string(&mut text).unwrap();
    let expected: String = (1..=8).map(|i| format!("o{i}\ne{i}\n")).collect();
    assert_eq!(text, expected);
}

#[test]
fn output_that_nobody_reads_ends_the_program_as_a_pipe_would() {
    let Some(snapshot) = snapshot() else { return };
    let (mut out, stdout) = std::io::pipe().unwrap();
    let mut job = job(&["yes"]);
    job.stdout = Stream::File(OwnedFd::from(stdout));
    job.stderr = Stream::Null;
    let reader = std::thread::spawn(move || {
        let mut some = [0; 1000];
        out.read_exact(&mut some).unwrap();
        some
    });
    let outcome = snapshot.run(job).unwrap();
    assert_eq!(reader.join().unwrap()[..4], *b"y\ny\n");
    assert_eq!(outcome.ending, Ending::Signal(libc::SIGPIPE));
}

#[test]
fn two_programs_run_at_the_same_time_from_one_snapshot() {
    let Some(snapshot) = snapshot() else { return };
    let directory = tempfile::tempdir().unwrap();
    // Each waits for the other's file: one after the other would never end. The file appears whole:
    // the guest asks the host once for a file's size and then believes it, and without `sync` the
    // name may reach the host before the bytes do.
    let script = |me: &str, other: &str| {
        format!(
            "echo $$ > {me}.new; sync {me}.new; mv {me}.new {me}; while [ ! -s {other} ]; do sleep 0.1; done; mktemp -u; cat {me}"
        )
    };
    let start =
        |me: &str, other: &str| {
            let script = script(me, other);
            let mut job = job(&["sh", "-c", &script]);
            job.directory = directory.path().to_owned();
            let begun = Instant::now();
            job.stop = Box::new(move || {
                if begun.elapsed() > Duration::from_secs(120) { Verdict::Stop } else { Verdict::GoOn }
            });
            run(snapshot, job).unwrap()
        };
    let (one, two) = std::thread::scope(|scope| {
        let two = scope.spawn(|| start("two", "one"));
        (start("one", "two"), two.join().unwrap())
    });
    assert_eq!((one.outcome.ending, two.outcome.ending), (Ending::Exit(0), Ending::Exit(0)));
    // Neither process ids nor random names repeat: both write to the same host.
    let parts = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (one, two) = (parts(one.text()), parts(two.text()));
    assert_eq!((one.len(), two.len()), (2, 2));
    assert!(one[0] != two[0] && one[1] != two[1], "{one:?} {two:?}");
}

#[test]
fn a_program_can_be_stopped_early_and_may_finish() {
    let Some(snapshot) = snapshot() else { return };
    let mut polite =
        job(&["sh", "-c", "trap 'echo finishing; exit 3' TERM; echo ready; while :; do sleep 0.1; done"]);
    polite.stop = Box::new(|| Verdict::Stop);
    // A shell is busy starting when the first SIGTERM comes: with the trap or without.
    let said = run(snapshot, polite).unwrap();
    assert!(said.outcome.stopped);
    assert!(
        (said.outcome.ending == Ending::Exit(3) && said.text().ends_with("finishing\n"))
            || said.outcome.ending == Ending::Signal(libc::SIGTERM),
        "{:?} {}",
        said.outcome,
        said.text()
    );

    let mut stubborn = job(&["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"]);
    let begun = Instant::now();
    stubborn.stop =
        Box::new(
            move || if begun.elapsed() > Duration::from_secs(6) { Verdict::Stop } else { Verdict::GoOn },
        );
    stubborn.grace = Duration::from_secs(1);
    let said = run(snapshot, stubborn).unwrap();
    assert!(said.outcome.stopped);
    assert_eq!(said.outcome.ending, Ending::Signal(libc::SIGKILL));
}

/// `make` and others compare times of files with the clock, and files here get the host's times.
#[test]
fn new_files_are_not_from_the_future() {
    let Some(snapshot) = snapshot() else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut job = job(&["sh", "-c", "touch file; date +%s; stat -c %Y file"]);
    job.directory = directory.path().to_owned();
    let said = run(snapshot, job).unwrap();
    let seconds: Vec<i64> = said.text().lines().map(|line| line.parse().unwrap()).collect();
    // `date` runs after `touch`; seconds are cut on both sides.
    assert!(seconds[0] + 1 >= seconds[1], "now {}, the file {}", seconds[0], seconds[1]);
}
