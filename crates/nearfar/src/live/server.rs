//! A small HTTP/1.1 server for one page of numbers: what Prometheus asks for, and nothing else.
//!
//! A request has 8 KiB and two seconds; sixteen are answered at a time, the others are answered "come again". Nothing
//! is read of a request but its first line and its Accept header.

use nearfar_observed::live::metrics::Format;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Largest request.
const MOST: usize = 8 << 10;
/// Time for a request to come, and for the answer to go.
const PATIENCE: Duration = Duration::from_secs(2);
/// Requests at a time.
const AT_ONCE: usize = 16;
/// How often it asks whether to end.
const NOTICE: Duration = Duration::from_millis(100);

/// Answers until `ends` is true.
///
/// # Errors
/// If the listener cannot be used.
pub fn serve(
    listener: &TcpListener,
    page: impl Fn(Format) -> String + Sync,
    ends: impl Fn() -> bool,
) -> io::Result<()> {
    // Asked for now and then, not waited for: a signal must end it.
    listener.set_nonblocking(true)?;
    let busy = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        while !ends() {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                // No request, a client that has gone, or there are too many files for a moment.
                Err(_) => {
                    std::thread::sleep(NOTICE);
                    continue;
                }
            };
            if busy.load(Ordering::SeqCst) >= AT_ONCE {
                let _ = write_answer(stream, "503 Service Unavailable", "text/plain", "busy\n");
                continue;
            }
            busy.fetch_add(1, Ordering::SeqCst);
            let (page, busy) = (&page, &busy);
            scope.spawn(move || {
                // A client that goes away in between is its own affair.
                let _ = answer(stream, page);
                busy.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    Ok(())
}

fn answer(mut stream: TcpStream, page: impl Fn(Format) -> String) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    let begin = std::time::Instant::now();
    while !request.windows(4).any(|w| w == b"\r\n\r\n") {
        let length = stream.read(&mut part)?;
        request.extend_from_slice(&part[..length]);
        if length == 0 || request.len() > MOST || begin.elapsed() > PATIENCE {
            return write_answer(stream, "400 Bad Request", "text/plain", "not a request of HTTP\n");
        }
    }
    let text = String::from_utf8_lossy(&request);
    let (line, headers) = text.split_once("\r\n").unwrap_or((&text, ""));
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let path = path.split('?').next().unwrap_or(path);
    let accept = headers.lines().find_map(|l| {
        let (name, value) = l.split_once(':')?;
        name.eq_ignore_ascii_case("accept").then_some(value)
    });
    match (method, path) {
        ("GET" | "HEAD", "/metrics") => {
            let format = Format::accepted(accept.unwrap_or(""));
            write_answer_to(stream, "200 OK", format.content_type(), &page(format), method == "HEAD")
        }
        ("GET" | "HEAD", "/") => {
            let body = "<!DOCTYPE html><title>nearfar exporter</title><a href=\"/metrics\">metrics</a>\n";
            write_answer_to(stream, "200 OK", "text/html; charset=utf-8", body, method == "HEAD")
        }
        ("GET" | "HEAD", _) => write_answer(stream, "404 Not Found", "text/plain", "there is /metrics\n"),
        _ => write_answer(stream, "405 Method Not Allowed", "text/plain", "GET /metrics\n"),
    }
}

fn write_answer(stream: TcpStream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    write_answer_to(stream, status, kind, body, false)
}

fn write_answer_to(
    mut stream: TcpStream,
    status: &str,
    kind: &str,
    body: &str,
    head_only: bool,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\nAllow: GET, HEAD\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    if !head_only {
        stream.write_all(body.as_bytes())?;
    }
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn ask(address: std::net::SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn one_page_is_served_and_everything_else_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let end = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let page = |format| format!("page {format:?}\n");
                serve(&listener, page, || end.load(Ordering::SeqCst)).unwrap();
            });
            let old = ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
            assert!(
                old.starts_with("HTTP/1.1 200 OK\r\n") && old.ends_with("\r\n\r\npage Prometheus\n"),
                "{old}"
            );
            let open = ask(
                address,
                "GET /metrics?x=1 HTTP/1.1\r\naccept: application/openmetrics-text;version=1.0.0\r\n\r\n",
            );
            assert!(open.contains("page OpenMetrics") && open.contains("version=1.0.0"), "{open}");
            assert!(ask(address, "HEAD /metrics HTTP/1.0\r\n\r\n").ends_with("\r\n\r\n"));
            for (request, status) in [
                ("GET /../etc/passwd HTTP/1.1\r\n\r\n", "404"),
                ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
                ("\r\n\r\n", "405"),
            ] {
                assert!(ask(address, request).starts_with(&format!("HTTP/1.1 {status}")), "{request}");
            }
            let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(2 * MOST));
            let mut stream = TcpStream::connect(address).unwrap();
            let _ = stream.write_all(long.as_bytes());
            let mut answer = Vec::new();
            // The rest of what was sent may reset the connection before the answer is read.
            let _ = stream.read_to_end(&mut answer);
            assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"));
            // One that sends nothing does not keep others from being answered.
            let _silent = TcpStream::connect(address).unwrap();
            assert!(ask(address, "GET / HTTP/1.1\r\n\r\n").contains("200 OK"));
            end.store(true, Ordering::SeqCst);
        });
    }
}
