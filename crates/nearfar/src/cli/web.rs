//! `report --web`: the page of `--html` at an address of this machine, made anew while the recording is still running.
//!
//! It is a server for one reader: connections come one after the other, only from this machine, and are answered only
//! where they name the token, which no other user of the machine can read. There is one file, and nothing to send.

use super::judged::judged_running;
use super::report_flags::ReportArgs;
use super::{html, ranks};
use anyhow::{Context, Result};
use nearfar_record::store;
use nearfar_report::to_html;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Bytes of a request's head that are read, and how long a browser may take to send them. // chosen
const HEAD: usize = 16 << 10;
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two looks at a recording that is still running, at least, and where a report takes long. // chosen
const AGAIN: Duration = Duration::from_secs(5);
const SELDOM: Duration = Duration::from_secs(30);

/// A page that was made.
struct Made {
    page: String,
    at: Instant,
    /// How long it took to make.
    took: Duration,
    /// Whether the recording was still running then.
    live: bool,
}

impl Made {
    /// Seconds after which it is made again.
    fn again(&self) -> u64 {
        (self.took * 5).clamp(AGAIN, SELDOM).as_secs()
    }
}

/// Serves the page of a recording until the process is interrupted.
pub(super) fn of_recording(path: &Path, args: &ReportArgs) -> Result<ExitCode> {
    let page = || {
        let machine = args.machine.as_deref();
        let report = judged_running(path, machine, args.bind, args.whole)?;
        let mut about = html::about(path, machine, &report);
        args.html.add_sources(&mut about, path, &report);
        Ok(to_html(&report, &about))
    };
    serve(&page, &|| store::is_running(path))
}

/// The same of a run of several ranks: it is made anew while one of them runs on this host.
pub(super) fn of_run(path: &Path, args: &ReportArgs) -> Result<ExitCode> {
    serve(&|| ranks::page_of(path, args), &|| ranks::is_running(path))
}

fn serve(page: &dyn Fn() -> Result<String>, running: &dyn Fn() -> bool) -> Result<ExitCode> {
    let make = || -> Result<Made> {
        let (at, live) = (Instant::now(), running());
        Ok(Made { page: page()?, at, took: at.elapsed(), live })
    };
    let mut made = make()?;
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen on an address of this machine")?;
    let address = listener.local_addr().context("cannot ask for the address that it listens on")?;
    let token = token()?;
    let live = if made.live { "; it follows the recording while that runs" } else { "" };
    nearfar_host::say!("nearfar: http://{address}/{token}/ until interrupted{live}");
    for connection in listener.incoming() {
        let Ok(mut stream) = connection else { continue };
        let Some(asked) = head(&mut stream) else { continue };
        let answer = answer(&asked, &address.to_string(), &token);
        let old = || made.at.elapsed() >= Duration::from_secs(made.again()) || !running();
        if answer == Answer::Page && made.live && old() {
            // Between two writes of the recorder a report may fail; the last one that was made still holds.
            match make() {
                Ok(new) => made = new,
                Err(error) => nearfar_host::say!("nearfar: {error:#}"),
            }
        }
        // A reader who has gone needs no answer.
        let _ = send(&mut stream, answer, &made);
    }
    Ok(ExitCode::SUCCESS)
}

/// 128 random bits in hex.
fn token() -> Result<String> {
    let mut bytes = [0u8; 16];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.context("cannot read random bytes for the page's token from /dev/urandom")?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// The head of a request; `None` if none came in time.
fn head(stream: &mut TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    let (mut bytes, begin) = (Vec::new(), Instant::now());
    let mut part = [0u8; 4096];
    while !bytes.windows(4).any(|w| w == b"\r\n\r\n") {
        if bytes.len() > HEAD || begin.elapsed() > PATIENCE {
            return None;
        }
        match stream.read(&mut part) {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend_from_slice(&part[..n]),
        }
    }
    String::from_utf8(bytes).ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Page,
    NotFound,
    Refused,
}

/// What a request gets. The host is checked because a page elsewhere may give a name of its own to this address.
fn answer(head: &str, address: &str, token: &str) -> Answer {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let hosts =
        lines.filter_map(|line| line.split_once(':')).filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    let hosts: Vec<&str> = hosts.map(|h| h.1.trim()).collect();
    if method != Some("GET") || hosts != [address] {
        return Answer::Refused;
    }
    match target.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')) {
        Some(asked) if same(asked, token) => Answer::Page,
        _ => Answer::NotFound,
    }
}

/// Whether two texts are the same, in a time that does not say where they differ.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |sum, (x, y)| sum | (x ^ y)) == 0
}

fn send(stream: &mut TcpStream, answer: Answer, made: &Made) -> std::io::Result<()> {
    let (status, kind, body) = match answer {
        Answer::Page => ("200 OK", "text/html", made.page.as_str()),
        Answer::NotFound => {
            ("404 Not Found", "text/plain", "There is nothing here without the token of the address.\n")
        }
        Answer::Refused => {
            ("400 Bad Request", "text/plain", "Only the address that nearfar printed is answered.\n")
        }
    };
    let refresh = match answer == Answer::Page && made.live {
        true => format!("Refresh: {}\r\n", made.again()),
        false => String::new(),
    };
    // The token must not get into another page's records, and no other page may show this one in a frame.
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n\
         X-Frame-Options: DENY\r\nCross-Origin-Resource-Policy: same-origin\r\n{refresh}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_address_with_its_token_is_answered() {
        let (host, token) = ("127.0.0.1:4000", "00ff");
        let ask = |line: &str, host: &str| {
            answer(&format!("{line}\r\nHost: {host}\r\n\r\n"), "127.0.0.1:4000", token)
        };
        assert_eq!(ask("GET /00ff/ HTTP/1.1", host), Answer::Page);
        for target in ["/", "//", "/00fe/", "/00ff", "/00ff/x/", "/00FF/", "00ff", "/../00ff/", ""] {
            assert_eq!(ask(&format!("GET {target} HTTP/1.1"), host), Answer::NotFound, "{target}");
        }
        for (line, host) in
            [("POST /00ff/ HTTP/1.1", host), ("GET /00ff/ HTTP/1.1", "evil.example"), ("", host)]
        {
            assert_eq!(ask(line, host), Answer::Refused, "{line} {host}");
        }
        assert_eq!(answer("GET /00ff/ HTTP/1.1\r\n\r\n", host, token), Answer::Refused, "no host");
        let two = "GET /00ff/ HTTP/1.1\r\nHost: 127.0.0.1:4000\r\nHost: evil.example\r\n\r\n";
        assert_eq!(answer(two, host, token), Answer::Refused);
    }

    #[test]
    fn tokens_differ() {
        let (a, b) = (token().unwrap(), token().unwrap());
        assert!(a.len() == 32 && a != b);
    }
}
