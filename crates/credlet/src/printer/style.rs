//! Colours, for people who want them.

use std::io::IsTerminal as _;

use credlet_core::{Env as _, SystemEnv};

/// Colours on a terminal, none elsewhere, none with `NO_COLOR`, none on a terminal that has none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    colours: bool,
}

pub(crate) fn stdout() -> Style {
    Style { colours: std::io::stdout().is_terminal() && wanted() }
}

pub(crate) fn stderr() -> Style {
    Style { colours: std::io::stderr().is_terminal() && wanted() }
}

fn wanted() -> bool {
    let no_color = SystemEnv.var("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = SystemEnv.var("TERM").is_none_or(|term| term == "dumb");
    !no_color && !dumb
}

impl Style {
    pub(crate) fn has_colours(self) -> bool {
        self.colours
    }

    /// Green.
    pub(crate) fn good(self, text: &str) -> String {
        self.painted("32", text)
    }

    /// Red.
    pub(crate) fn bad(self, text: &str) -> String {
        self.painted("31;1", text)
    }

    /// Yellow.
    pub(crate) fn warning(self, text: &str) -> String {
        self.painted("33", text)
    }

    /// Bold.
    pub(crate) fn strong(self, text: &str) -> String {
        self.painted("1", text)
    }

    fn painted(self, colour: &str, text: &str) -> String {
        if self.colours { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}
