use std::io::{self, Write as _};

/// Standard output, line by line. Nobody reading it any more is not an error.
#[derive(Debug, Default)]
pub(crate) struct Printer {
    gone: bool,
}

impl Printer {
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        if !self.gone {
            let mut stdout = io::stdout().lock();
            self.gone = writeln!(stdout, "{}", line.as_ref()).and_then(|()| stdout.flush()).is_err();
        }
    }
}
