//! How text is shown: width and colour, of the terminal unless told.

use clap::Args;
use std::io::IsTerminal;

/// The flags that every command with a page of text has.
#[derive(Args)]
pub(super) struct Look {
    /// Width of the text in columns [default: $COLUMNS, or the terminal's]
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

/// Columns: as COLUMNS says, in pipes too; else those of the terminal, or 100 where there is none.
fn terminal_width() -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse::<usize>().ok());
    let wide = asked.filter(|&columns| columns > 0).or_else(|| terminal().map(|(columns, _)| columns));
    // Tables need some room, and lines of 300 letters cannot be read.
    wide.map_or(100, |columns| columns.clamp(60, 160))
}

/// Columns and lines of the terminal that standard output is; `None` if it is none, or does not say.
pub(super) fn terminal() -> Option<(usize, usize)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the kernel fills the struct.
    let known = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) } == 0;
    (known && size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}
