//! How text is shown: width and colour, of the terminal unless told.

use clap::Args;
use std::io::IsTerminal;

/// The flags that every command with a page of text has.
#[derive(Args)]
pub(super) struct Look {
    /// Width of the text in columns [default: the terminal's]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    width: Option<u16>,
    /// Colour: auto, always or never
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = ["auto", "always", "never"])]
    color: String,
}

impl Look {
    /// Width in columns, and whether to use colour.
    pub(super) fn resolve(&self) -> (usize, bool) {
        let color = match self.color.as_str() {
            "always" => true,
            "never" => false,
            _ => std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        };
        (self.width.map_or_else(terminal_width, usize::from), color)
    }

    /// The same as flags, for this program's other self that has no terminal of its own.
    pub(super) fn flags(&self) -> [String; 2] {
        let (width, color) = self.resolve();
        [format!("--width={width}"), format!("--color={}", if color { "always" } else { "never" })]
    }
}

/// Columns of the terminal, or 100 where there is none.
fn terminal_width() -> usize {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the kernel fills the struct.
    let known = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) } == 0;
    if known && size.ws_col > 0 { usize::from(size.ws_col).clamp(60, 160) } else { 100 }
}
