//! The loop of the screen: reads, draws, and does what keys and signals ask for.

use super::Terminal;
use super::read::Reader;
use super::view::{Act, View};
use nearfar_host::target::{INTERRUPTED, interrupt_ends_recording};
use nearfar_observed::live::Frame;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A signal is noticed at least this often.
const NOTICE: Duration = Duration::from_millis(200);
/// Shortest and longest interval that keys can reach.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
/// Frames of a recording per second while it plays.
const PLAYED: Duration = Duration::from_millis(250);

/// Shows the host until it is ended, or until `ends` reports it after a frame.
///
/// # Errors
/// Those of the terminal.
pub fn live(
    reader: &mut Reader,
    title: String,
    mut interval: Duration,
    mut ends: impl FnMut() -> bool,
) -> io::Result<()> {
    interrupt_ends_recording();
    let mut terminal = Terminal::take()?;
    let mut view = View::new(title, false);
    let mut due = Instant::now() + interval;
    terminal.screen().draw(|screen| view.draw(screen))?;
    while !INTERRUPTED.load(Ordering::Relaxed) {
        let act = next_key(&mut view, due.saturating_duration_since(Instant::now()).min(NOTICE))?;
        match act {
            Some(Act::Quit) => break,
            Some(Act::Stop) => terminal.stop()?,
            Some(Act::Pause) => view.paused = !view.paused,
            Some(Act::Interval(factor)) => {
                interval = interval.mul_f64(factor).clamp(INTERVALS.0, INTERVALS.1);
                due = due.min(Instant::now() + interval);
            }
            // A rate over no time would be none.
            Some(Act::Read) => due = due.min(Instant::now() + INTERVALS.0),
            Some(Act::Draw | Act::Step(_)) | None => {}
        }
        let now = Instant::now();
        if now >= due {
            if !view.paused {
                view.show(reader.frame(view.focus, view.wants_objects(), interval));
            }
            // What was missed while stopped or suspended is not made up for.
            due = (due + interval).max(now + interval / 2);
            if ends() {
                break;
            }
        } else if act.is_none() {
            continue;
        }
        terminal.screen().draw(|screen| view.draw(screen))?;
    }
    Ok(())
}

/// Shows the frames of a recording, which play until the last one.
///
/// # Errors
/// Those of the terminal.
pub fn recorded(frames: &[Frame], title: String) -> io::Result<()> {
    interrupt_ends_recording();
    let mut terminal = Terminal::take()?;
    let mut view = View::new(title, true);
    let mut at = 0;
    show(&mut view, frames, at);
    let mut due = Instant::now() + PLAYED;
    while !INTERRUPTED.load(Ordering::Relaxed) {
        terminal.screen().draw(|screen| view.draw(screen))?;
        let act = next_key(&mut view, due.saturating_duration_since(Instant::now()).min(NOTICE))?;
        let last = frames.len().saturating_sub(1);
        match act {
            Some(Act::Quit) => break,
            Some(Act::Stop) => terminal.stop()?,
            Some(Act::Pause) => {
                view.paused = !view.paused;
                // Played again from the begin.
                if !view.paused && at == last {
                    at = 0;
                    show(&mut view, frames, at);
                }
            }
            Some(Act::Step(by)) => {
                view.paused = true;
                at = at.saturating_add_signed(by as isize).min(last);
                show(&mut view, frames, at);
            }
            Some(Act::Draw | Act::Read | Act::Interval(_)) | None => {}
        }
        if Instant::now() >= due {
            due = Instant::now() + PLAYED;
            if !view.paused && at < last {
                at += 1;
                show(&mut view, frames, at);
            }
            view.paused |= at == last;
        }
    }
    Ok(())
}

/// A frame with what was before it.
fn show(view: &mut View, frames: &[Frame], at: usize) {
    view.forget();
    frames[..at].iter().for_each(|frame| view.remember(frame));
    if let Some(frame) = frames.get(at) {
        view.show(frame.clone());
    }
}

/// What the next key within a time does; resizing draws again.
fn next_key(view: &mut View, within: Duration) -> io::Result<Option<Act>> {
    match event::poll(within) {
        Ok(true) => {}
        Ok(false) => return Ok(None),
        Err(why) if why.kind() == io::ErrorKind::Interrupted => return Ok(None),
        Err(why) => return Err(why),
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => Some(view.key(key)),
        Event::Resize(..) => Some(Act::Draw),
        _ => None,
    })
}
