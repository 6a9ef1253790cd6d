//! The terminal as a screen, and back as it was: at the end, after a panic, while stopped, and when we are killed.

use super::afterwards;
use nearfar_host::caught;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use std::io::{self, Stdout, stdout};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the terminal is ours now.
static OURS: AtomicBool = AtomicBool::new(false);

/// A terminal that shows a screen as long as this value lives.
pub struct Terminal {
    screen: ratatui::Terminal<CrosstermBackend<Stdout>>,
}

impl Terminal {
    /// Takes the terminal.
    ///
    /// # Errors
    /// Those of the terminal: it is none, or is gone.
    pub fn take() -> io::Result<Terminal> {
        restore_after_panics();
        enter()?;
        let screen = ratatui::Terminal::new(CrosstermBackend::new(stdout())).inspect_err(|_| restore())?;
        Ok(Terminal { screen })
    }

    /// What is drawn on.
    pub fn screen(&mut self) -> &mut ratatui::Terminal<CrosstermBackend<Stdout>> {
        &mut self.screen
    }

    /// Gives the terminal back, stops this process as Ctrl-Z does, and takes the terminal again once it goes on.
    ///
    /// # Errors
    /// Those of the terminal.
    pub fn stop(&mut self) -> io::Result<()> {
        restore();
        // SAFETY: a plain call; it returns after SIGCONT.
        unsafe { libc::raise(libc::SIGTSTP) };
        enter()?;
        self.screen.clear()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

fn enter() -> io::Result<()> {
    afterwards::watch();
    enable_raw_mode().inspect_err(|_| afterwards::dismiss())?;
    OURS.store(true, Ordering::SeqCst);
    execute!(stdout(), EnterAlternateScreen).inspect_err(|_| restore())
}

/// As it was. A terminal that is gone cannot be told.
fn restore() {
    if OURS.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        afterwards::dismiss();
    }
}

/// A panic's message should be read: the terminal is restored before it is printed.
fn restore_after_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // Those that are caught are not a reason to leave the screen.
            if !caught::is_caught() {
                restore();
            }
            before(info);
        }));
    });
}
