//! The line that names the recording of a page.

use super::layout::{Page, cut, shorten};
use nearfar_analyze::Report;

/// Which recording it is: a printed page, or one among many, is found again by this line. `ending`: how the program ended.
pub(super) fn line(page: &mut Page, r: &Report, name: &str, ending: &str) {
    let start = r.recorded.started.as_deref().and_then(|at| at.get(..16));
    let start = start.map_or("at an unknown time".to_owned(), |at| format!("{} UTC", at.replace('T', " ")));
    let host = r.recorded.host.as_deref().map_or(String::new(), |host| format!(" on {}", shorten(host, 24)));
    let command = match r.command.is_empty() {
        true => "(attached)".to_owned(),
        false => nearfar_figures::shell::command(&r.command),
    };
    // One line: what is cut is the end of the command, whose beginning says which program it was.
    let line = format!("recorded  {}, {start}{host}{ending}: {command}", shorten(name, page.width / 3));
    page.line(&cut(&line, page.width));
}
