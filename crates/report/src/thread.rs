//! The number under which a reader meets a thread: its place in the order in which threads began. The operating system's
//! own number is another one, and stands only where it is needed to find the thread in other tools (JSON, exports, the
//! table of threads of the page).

use nearfar_analyze::Report;

/// The number of the thread that the kernel calls `tid`, as text; `unknown` if the report has no such thread.
pub(crate) fn of_tid(r: &Report, tid: u32) -> String {
    r.threads.iter().find(|t| t.tid == tid).map_or("unknown".to_owned(), |t| t.index.to_string())
}

/// `thread 3`.
pub(crate) fn thread(r: &Report, tid: u32) -> String {
    format!("thread {}", of_tid(r, tid))
}
