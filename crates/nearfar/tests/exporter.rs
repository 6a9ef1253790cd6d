//! `nearfar exporter`, asked by hand, by promtool and by a Prometheus.

mod common;

use common::{Scratch, disposed, has, ignores, text};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for what must come.
const SOON: Duration = Duration::from_secs(60);

/// Ends with the test.
struct Serving {
    child: Child,
    address: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(arguments: &[&str]) -> Serving {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(["exporter", "--listen", "127.0.0.1:0"]).args(arguments);
    started(command)
}

fn started(mut command: Command) -> Serving {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
    Serving { child, address }
}

fn ask(serving: &Serving, accept: &str) -> (String, String) {
    let mut stream = TcpStream::connect(&serving.address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// The value of a sample.
fn value(page: &str, sample: &str) -> Option<f64> {
    page.lines().find_map(|l| l.strip_prefix(sample)?.trim().parse().ok())
}

#[test]
fn counters_grow_and_chosen_processes_are_there() {
    let serving = serve(&["-p", &std::process::id().to_string()]);
    let (head, first) = ask(&serving, "application/openmetrics-text; version=1.0.0");
    assert!(head.contains("application/openmetrics-text"), "{head}");
    assert!(first.ends_with("# EOF\n"), "{first}");
    std::thread::sleep(Duration::from_millis(400));
    let (_, second) = ask(&serving, "application/openmetrics-text; version=1.0.0");
    let idle_or_busy = |page: &str| {
        page.lines()
            .filter(|l| l.starts_with("nearfar_cpu_seconds_total"))
            .map(|l| l.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum::<f64>()
    };
    assert!(idle_or_busy(&second) > idle_or_busy(&first));
    let pid = std::process::id();
    let own: Vec<&str> = second.lines().filter(|l| l.contains(&format!("pid=\"{pid}\""))).collect();
    assert!(own.iter().any(|l| l.starts_with("nearfar_process_resident_bytes")), "{own:?}");
    assert!(
        !second.lines().any(|l| l.starts_with("nearfar_process") && !l.contains(&format!("pid=\"{pid}\"")))
    );
    // Each source that gives nothing says why.
    let sources: Vec<&str> = second.lines().filter(|l| l.starts_with("nearfar_source_available")).collect();
    assert!(sources.len() >= 4, "{sources:?}");
    assert!(sources.iter().all(|l| l.ends_with(" 1") || !l.contains("why=\"\"")), "{sources:?}");
}

#[test]
fn without_a_choice_there_are_no_processes() {
    let serving = serve(&[]);
    let (_, page) = ask(&serving, "text/plain");
    assert!(!page.contains("nearfar_process_") && !page.contains("# EOF"), "{page}");
    assert!(value(&page, "nearfar_node_memory_bytes{node=\"0\",kind=\"total\"}").is_some_and(|b| b > 0.0));
}

/// `nohup nearfar exporter &` in a script outlives the terminal, and ends by SIGTERM as ever.
#[test]
fn a_signal_that_it_was_started_to_ignore_stays_ignored() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfar"));
    command.args(["exporter", "--listen", "127.0.0.1:0"]);
    disposed(&mut command, &[libc::SIGHUP, libc::SIGINT], libc::SIG_IGN);
    disposed(&mut command, &[libc::SIGTERM], libc::SIG_DFL);
    let mut serving = started(command);
    let pid = serving.child.id();
    for signal in [libc::SIGHUP, libc::SIGINT] {
        assert!(ignores(pid, signal), "{signal} is caught");
    }
    // SAFETY: our own child, which has not been waited for.
    unsafe { libc::kill(pid as i32, libc::SIGTERM) };
    serving.child.wait().unwrap();
}

#[test]
fn other_hosts_are_not_let_in_by_accident() {
    let output: Output = Command::new(env!("CARGO_BIN_EXE_nearfar"))
        .args(["exporter", "--listen", "0.0.0.0:0"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--public"), "{}", text(&output.stderr));
}

#[test]
fn a_recording_is_served_with_its_verdict_and_source() {
    if !common::perf_works() {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch
        .c("app", "int main(void) { volatile long x = 0; for (long i = 0; i < 300000000; i++) x += i; }\n");
    scratch.record("app.nearfar", &[], &[program.to_str().unwrap()]);
    let serving = serve(&["--recording", scratch.path("app.nearfar").to_str().unwrap()]);
    let (_, page) = ask(&serving, "text/plain");
    let verdicts: Vec<&str> = page.lines().filter(|l| l.starts_with("nearfar_recording_verdict{")).collect();
    assert_eq!(verdicts.len(), 3, "{page}");
    assert_eq!(verdicts.iter().filter(|l| l.ends_with(" 1")).count(), 1, "{verdicts:?}");
    assert!(
        verdicts.iter().all(|l| l.contains("recording=\"app.nearfar\"") && l.contains("source=\"")),
        "{verdicts:?}"
    );
}

#[test]
fn promtool_and_a_prometheus_read_it() {
    if !has("promtool") || !has("prometheus") {
        return;
    }
    let serving = serve(&["-p", &std::process::id().to_string()]);
    let (_, page) = ask(&serving, "text/plain");
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));

    let scratch = Scratch::new();
    let config = format!(
        "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: nearfar\n    static_configs:\n      - targets: ['{}']\n",
        serving.address
    );
    let file = scratch.path("prometheus.yml");
    std::fs::write(&file, config).unwrap();
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let prometheus = Command::new("prometheus")
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", scratch.path("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _prometheus = Serving { child: prometheus, address: String::new() };
    let query = "/api/v1/query?query=nearfar_cpu_seconds_total%7Bmode%3D%22busy%22%7D";
    let begin = Instant::now();
    loop {
        let answer = TcpStream::connect(("127.0.0.1", port)).and_then(|mut stream| {
            write!(stream, "GET {query} HTTP/1.0\r\nHost: x\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        });
        let found = answer.is_ok_and(|a| a.contains("\"node\":\"0\"") && a.contains("\"job\":\"nearfar\""));
        if found {
            break;
        }
        assert!(begin.elapsed() < SOON, "Prometheus did not scrape it");
        std::thread::sleep(Duration::from_millis(200));
    }
}
