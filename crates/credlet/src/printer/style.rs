//! Terminal colours.

use std::io::IsTerminal as _;

use credlet_exec::{Env as _, SystemEnv};

/// Colours on a terminal unless `NO_COLOR` is set or `TERM` is `dumb`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextStyle {
    colours: bool,
}

pub(crate) fn stdout() -> TextStyle {
    TextStyle { colours: std::io::stdout().is_terminal() && wanted() }
}

pub(crate) fn stderr() -> TextStyle {
    TextStyle { colours: std::io::stderr().is_terminal() && wanted() }
}

fn wanted() -> bool {
    let no_color = SystemEnv.var("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = SystemEnv.var("TERM").is_none_or(|term| term == "dumb");
    !no_color && !dumb
}

impl TextStyle {
    pub(crate) fn has_colours(self) -> bool {
        self.colours
    }

    /// Formats success in green.
    pub(crate) fn good(self, text: &str) -> String {
        self.painted("32", text)
    }

    /// Formats an error in red.
    pub(crate) fn bad(self, text: &str) -> String {
        self.painted("31;1", text)
    }

    /// Formats a warning in yellow.
    pub(crate) fn warning(self, text: &str) -> String {
        self.painted("33", text)
    }

    /// Formats a title or a label in bold.
    pub(crate) fn strong(self, text: &str) -> String {
        self.painted("1", text)
    }

    fn painted(self, colour: &str, text: &str) -> String {
        if self.colours { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}
