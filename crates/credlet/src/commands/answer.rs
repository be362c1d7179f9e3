//! An answer of the server, as it goes to standard output.

use std::future::poll_fn;
use std::pin::Pin;

use credlet_api::{Secret, scrub};
use credlet_client::conn::{self, Body};
use http::header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION, SET_COOKIE};
use http::{HeaderName, HeaderValue, Response, Version};
use http_body::Body as _;

use crate::printer::{self, Printer, Reveal};

/// How much of a refusal is read: more than any API server says.
const REFUSAL: usize = 64 << 10;

/// What is shown apart from the body.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Show {
    /// Show the status and the headers of the answer first
    #[arg(short = 'i', long)]
    include: bool,
    #[command(flatten)]
    reveal: Reveal,
}

/// Status and headers, if they are wanted.
pub(super) fn head(response: &Response<Body>, show: Show, printer: &mut Printer) {
    if !show.include {
        return;
    }
    let version = if response.version() == Version::HTTP_2 { "HTTP/2" } else { "HTTP/1.1" };
    printer.line(format!("{version} {}", response.status()));
    for (name, value) in response.headers() {
        printer.foreign(&format!("{name}: {}", shown(name, value, show.reveal)));
    }
    printer.line("");
}

/// Cookies are credentials, and so is whatever looks like one.
fn shown(name: &HeaderName, value: &HeaderValue, reveal: Reveal) -> String {
    let text = String::from_utf8_lossy(value.as_bytes());
    let secret = value.is_sensitive() || [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE, SET_COOKIE].contains(name);
    match reveal {
        Reveal { reveal: true } => text.into_owned(),
        _ if secret => reveal.show(&Secret::new(text)),
        _ => scrub(&text, []),
    }
}

/// The body as it comes, so that each line of a watch is there when it was sent. On a terminal nothing in it can do
/// more than be read, and the prompt comes on a line of its own.
pub(super) async fn stream(mut body: Body, printer: &mut Printer) -> Result<(), conn::Error> {
    let mut screen = printer::is_terminal().then(Screen::default);
    while printer.is_open()
        && let Some(piece) = next(&mut body).await
    {
        match &mut screen {
            Some(screen) => printer.write(screen.show(&piece?).as_bytes()),
            None => printer.write(&piece?),
        }
    }
    if let Some(screen) = screen {
        printer.write(screen.end().as_bytes());
    }
    Ok(())
}

/// The beginning of a body, as far as it comes.
pub(super) async fn beginning(mut body: Body) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < REFUSAL
        && let Some(Ok(piece)) = next(&mut body).await
    {
        bytes.extend_from_slice(&piece);
    }
    bytes.truncate(REFUSAL);
    bytes
}

/// The next piece of data.
async fn next(body: &mut Body) -> Option<Result<bytes::Bytes, conn::Error>> {
    loop {
        match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await? {
            Ok(frame) => match frame.into_data() {
                Ok(data) => return Some(Ok(data)),
                // Trailers say nothing to a person.
                Err(_) => continue,
            },
            Err(error) => return Some(Err(error)),
        }
    }
}

/// Foreign bytes on a terminal. Characters may come in pieces.
#[derive(Default)]
struct Screen {
    /// The beginning of a character.
    rest: Vec<u8>,
    in_line: bool,
}

impl Screen {
    fn show(&mut self, piece: &[u8]) -> String {
        self.rest.extend_from_slice(piece);
        let whole = match std::str::from_utf8(&self.rest) {
            // The rest of this character may come with the next piece.
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.rest.len(),
        };
        let bytes: Vec<u8> = self.rest.drain(..whole).collect();
        let text = credlet_api::visible(&String::from_utf8_lossy(&bytes));
        if let Some(last) = text.chars().last() {
            self.in_line = last != '\n';
        }
        text
    }

    fn end(self) -> String {
        let rest = String::from_utf8_lossy(&self.rest).into_owned();
        if self.in_line || !rest.is_empty() { rest + "\n" } else { rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown_in_pieces(pieces: &[&[u8]]) -> String {
        let mut screen = Screen::default();
        let shown: String = pieces.iter().map(|piece| screen.show(piece)).collect();
        shown + &screen.end()
    }

    #[test]
    fn on_a_terminal_escape_sequences_are_seen_and_not_obeyed() {
        assert_eq!(shown_in_pieces(&[b"a\x1b[2J", b"b\n"]), "aU+001B[2Jb\n");
    }

    #[test]
    fn a_character_that_comes_in_two_pieces_is_one() {
        assert_eq!(shown_in_pieces(&[b"gr\xc3", b"\xbcn\n"]), "gr\u{fc}n\n");
        assert_eq!(shown_in_pieces(&[b"\xff\xc3\n", b"x\xc3"]), "\u{fffd}\u{fffd}\nx\u{fffd}\n");
    }

    #[test]
    fn the_prompt_comes_on_a_line_of_its_own() {
        assert_eq!(shown_in_pieces(&[b"ok"]), "ok\n");
        assert_eq!(shown_in_pieces(&[b"ok\n", b""]), "ok\n");
        assert_eq!(shown_in_pieces(&[]), "");
    }

    #[test]
    fn secrets_in_headers_are_masked_unless_asked_for() {
        let shown = |name, value: &str, reveal| {
            shown(&HeaderName::from_static(name), &HeaderValue::from_str(value).unwrap(), Reveal { reveal })
        };
        assert_eq!(shown("set-cookie", "session=hunter2", false), "[redacted, 15 characters]");
        assert_eq!(shown("set-cookie", "session=hunter2", true), "session=hunter2");
        assert_eq!(shown("x-echo", "Bearer hunter2", false), "Bearer [redacted]");
        assert_eq!(shown("content-type", "application/json", false), "application/json");
    }
}
