//! The picture on a terminal, drawn over itself.

use credlet_core::{Env as _, SystemEnv};
use rustix::termios::tcgetwinsize;

use super::draw;
use super::line::Line;
use crate::commands::demo::board::Scene;
use crate::printer::{Printer, style};

/// Wider, the eye gets lost.
const MAX_WIDTH: usize = 100;

/// Narrower, or lower, there is no picture.
const MIN_WIDTH: usize = 60;

/// A terminal that is being drawn on. Dropping it gives the cursor back, however the demo ends.
pub(super) struct Live {
    colours: bool,
    size: (usize, usize),
    /// How many lines the cursor is below the picture's first.
    drawn: usize,
}

impl Live {
    /// `None`: standard output is no terminal, or not one that a picture fits on.
    pub(super) fn on_terminal(scene: &Scene) -> Option<Self> {
        let is_dumb = SystemEnv.var("TERM").is_none_or(|term| term == "dumb");
        if is_dumb || !crate::printer::is_terminal() {
            return None;
        }
        let (columns, rows) = size()?;
        let fits = columns >= MIN_WIDTH && rows > draw::frame(scene, columns).len();
        fits.then(|| Self { colours: style::stdout().has_colours(), size: (columns, rows), drawn: 0 })
    }

    pub(super) fn draw(&mut self, scene: &Scene, printer: &mut Printer) {
        let size = size().unwrap_or(self.size);
        let lines = draw::frame(scene, size.0.min(MAX_WIDTH));
        // Without the cursor, and without going on in the next line where one is too long after all.
        let mut text = String::from("\u{1b}[?25l\u{1b}[?7l");
        if size != self.size {
            // What was drawn has been moved about by the terminal: begin anew at the top.
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
        printer.write(text.as_bytes());
    }

    fn shown(&self, line: &Line) -> String {
        if self.colours { line.coloured() } else { line.plain() }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if self.drawn > 0 {
            Printer::default().write(b"\x1b[?25h");
        }
    }
}

/// Columns and rows of standard output.
fn size() -> Option<(usize, usize)> {
    let size = tcgetwinsize(std::io::stdout()).ok()?;
    Some((size.ws_col.into(), size.ws_row.into()))
}
