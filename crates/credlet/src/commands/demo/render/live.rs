//! The live view on a terminal, redrawn in place.

use credlet_exec::{Env as _, SystemEnv};
use credlet_platform::terminal::window_size;

use super::frame;
use super::styled_line::StyledLine;
use crate::commands::demo::state::DemoSnapshot;
use crate::printer::{Printer, style};

const MAX_WIDTH: usize = 100;

/// A narrower terminal has no live view.
const MIN_WIDTH: usize = 60;

/// The terminal. Dropping it shows the cursor again.
pub(super) struct LiveTerminal {
    colours: bool,
    size: (usize, usize),
    /// Number of lines from the first line of the view to the cursor.
    drawn: usize,
}

impl LiveTerminal {
    /// Returns `None` if standard output is not a terminal or too small.
    pub(super) fn on_terminal(snapshot: &DemoSnapshot) -> Option<Self> {
        let is_dumb = SystemEnv.var("TERM").is_none_or(|term| term == "dumb");
        if is_dumb || !crate::printer::is_terminal() {
            return None;
        }
        let (columns, rows) = size()?;
        let fits = columns >= MIN_WIDTH && rows > frame::frame(snapshot, columns).len();
        fits.then(|| Self { colours: style::stdout().has_colours(), size: (columns, rows), drawn: 0 })
    }

    pub(super) fn draw(&mut self, snapshot: &DemoSnapshot, printer: &mut Printer) {
        let size = size().unwrap_or(self.size);
        let lines = frame::frame(snapshot, size.0.min(MAX_WIDTH));
        // Hides the cursor and disables line wrapping.
        let mut text = String::from("\u{1b}[?25l\u{1b}[?7l");
        if size != self.size {
            // After a resize the position of the old lines is unknown, so the screen is cleared.
            text.push_str("\u{1b}[H\u{1b}[J");
        } else if self.drawn > 0 {
            text.push_str(&format!("\u{1b}[{}A\r", self.drawn));
        }
        for line in &lines {
            text.push_str(&self.shown(line));
            text.push_str("\u{1b}[K\n");
        }
        text.push_str("\u{1b}[?7h");
        (self.size, self.drawn) = (size, lines.len());
        printer.raw(text.as_bytes());
    }

    fn shown(&self, line: &StyledLine) -> String {
        if self.colours { line.coloured() } else { line.plain() }
    }
}

impl Drop for LiveTerminal {
    fn drop(&mut self) {
        if self.drawn > 0 {
            Printer::default().raw(b"\x1b[?25h");
        }
    }
}

/// Returns columns and rows of standard output.
fn size() -> Option<(usize, usize)> {
    let size = window_size()?;
    Some((size.columns.into(), size.rows.into()))
}
