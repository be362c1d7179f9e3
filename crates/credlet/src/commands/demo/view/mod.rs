//! How the demo looks: a picture on a terminal, lines elsewhere, and on request a film of it.

mod draw;
mod film;
mod line;
mod live;

use std::io;
use std::path::Path;

use self::film::Film;
use self::live::Live;
use super::board::{Scene, State};
use crate::printer::{Printer, style};

/// Whoever watches.
pub(super) struct View {
    printer: Printer,
    live: Option<Live>,
    /// Checks that were told already, where there is no picture.
    told: usize,
    film: Option<Film>,
}

impl View {
    pub(super) fn new(scene: &Scene, recording: bool) -> Self {
        let live = Live::on_terminal(scene);
        let film = recording.then(Film::default);
        let mut view = Self { printer: Printer::default(), live, told: 0, film };
        if view.live.is_none() {
            view.printer.line("One plugin whose tokens live 3 s, one API server, ten callers and a watch:");
        }
        view
    }

    pub(super) fn update(&mut self, scene: &Scene) {
        if let Some(film) = &mut self.film {
            film.take(scene);
        }
        match &mut self.live {
            Some(live) => live.draw(scene, &mut self.printer),
            None => self.tell(scene),
        }
    }

    /// The last look.
    pub(super) fn finish(&mut self, scene: &Scene) {
        self.update(scene);
        if let (Some(_), Some(failure)) = (&self.live, &scene.failure) {
            // There was no room for all of it in the picture.
            self.printer.foreign(&format!(" The first failure: {failure}"));
        }
        if self.live.is_none() {
            // The verdict, after an empty line.
            for line in draw::summary(scene).split_off(scene.checks.len()) {
                self.printer.line(self.shown(&line));
            }
        }
    }

    /// Writes the film.
    pub(super) fn save(&self, path: &Path) -> io::Result<()> {
        self.film.as_ref().map_or(Ok(()), |film| std::fs::write(path, film.svg()))
    }

    /// A line for each check that has been settled, in their order.
    fn tell(&mut self, scene: &Scene) {
        while scene.checks.get(self.told).is_some_and(|check| check.state != State::Open) {
            let line = draw::check(scene, self.told);
            self.printer.line(self.shown(&line));
            self.told += 1;
        }
    }

    fn shown(&self, line: &line::Line) -> String {
        if style::stdout().has_colours() { line.coloured() } else { line.plain() }
    }
}
