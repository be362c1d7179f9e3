//! Output of the demo: a live view on a terminal, lines elsewhere, and optionally an SVG recording.

mod frame;
mod live;
mod styled_line;
mod svg;

use std::io;
use std::path::Path;

use self::live::LiveTerminal;
use self::styled_line::StyledLine;
use self::svg::SvgRecording;
use super::state::{CheckState, DemoSnapshot};
use crate::printer::{Printer, style};

/// Renders snapshots to standard output and into the recording.
pub(super) struct Renderer {
    printer: Printer,
    live: Option<LiveTerminal>,
    /// Number of completed checks that were printed, without a live view.
    printed: usize,
    recording: Option<SvgRecording>,
}

impl Renderer {
    pub(super) fn new(snapshot: &DemoSnapshot, recording: bool) -> Self {
        let live = LiveTerminal::on_terminal(snapshot);
        let recording = recording.then(SvgRecording::default);
        let mut renderer = Self { printer: Printer::default(), live, printed: 0, recording };
        if renderer.live.is_none() {
            renderer.printer.line("One plugin whose tokens live 3 s, one API server, ten callers and a watch:");
        }
        renderer
    }

    pub(super) fn update(&mut self, snapshot: &DemoSnapshot) {
        if let Some(recording) = &mut self.recording {
            recording.record(snapshot);
        }
        match &mut self.live {
            Some(live) => live.draw(snapshot, &mut self.printer),
            None => self.print_completed(snapshot),
        }
    }

    /// Renders the last snapshot and the result.
    pub(super) fn finish(&mut self, snapshot: &DemoSnapshot) {
        self.update(snapshot);
        if let (Some(_), Some(failure)) = (&self.live, &snapshot.failure) {
            // The live view truncates it.
            self.printer.untrusted_line(&format!(" First failure: {failure}"));
        }
        if self.live.is_none() {
            // The result, after an empty line.
            for line in frame::summary(snapshot).split_off(snapshot.checks.len()) {
                self.printer.line(self.shown(&line));
            }
        }
    }

    /// Writes the recording as SVG.
    pub(super) fn save(&self, path: &Path) -> io::Result<()> {
        self.recording.as_ref().map_or(Ok(()), |recording| std::fs::write(path, recording.svg()))
    }

    /// Prints a line for each completed check, in display order.
    fn print_completed(&mut self, snapshot: &DemoSnapshot) {
        while snapshot.checks.get(self.printed).is_some_and(|check| check.state != CheckState::Pending) {
            let line = frame::check(snapshot, self.printed);
            self.printer.line(self.shown(&line));
            self.printed += 1;
        }
    }

    fn shown(&self, line: &StyledLine) -> String {
        if style::stdout().has_colours() { line.coloured() } else { line.plain() }
    }
}
