//! Prints responses of the API server.

use credlet_api::{Secret, TerminalFilter, redact};
use credlet_http::ResponseBody;
use http::header::{AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION, SET_COOKIE};
use http::{HeaderName, HeaderValue, Response, Version};
use http_body::Frame;
use http_body_util::BodyExt as _;

use crate::printer::{self, Printer, RevealArgs};

/// Number of bytes that are read of an error response.
const ERROR_BODY_LIMIT: usize = 64 << 10;

/// Flags for printing a response.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct ResponseArgs {
    /// Print the status line and the headers before the body
    #[arg(short = 'i', long)]
    include: bool,
    #[command(flatten)]
    reveal: RevealArgs,
}

/// Prints status and headers if `--include` is set.
pub(super) fn print_head(response: &Response<ResponseBody>, args: ResponseArgs, printer: &mut Printer) {
    if !args.include {
        return;
    }
    let version = if response.version() == Version::HTTP_2 { "HTTP/2" } else { "HTTP/1.1" };
    printer.line(format!("{version} {}", response.status()));
    for (name, value) in response.headers() {
        printer.untrusted_line(&format!("{name}: {}", header_value(name, value, args.reveal)));
    }
    printer.line("");
}

/// A header value for output. Cookies, authorization headers and text that looks like a credential are masked.
fn header_value(name: &HeaderName, value: &HeaderValue, reveal: RevealArgs) -> String {
    let text = String::from_utf8_lossy(value.as_bytes());
    let secret = value.is_sensitive() || [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE, SET_COOKIE].contains(name);
    match reveal {
        RevealArgs { reveal: true } => text.into_owned(),
        _ if secret => reveal.show(&Secret::new(text)),
        _ => redact(&text, []),
    }
}

/// Prints the body as it arrives, so that each event of a watch appears when it is sent. Pipes and files receive the bytes unchanged. On
/// a terminal control characters are escaped and the output ends with a newline.
pub(super) async fn print_body(mut body: ResponseBody, printer: &mut Printer) -> Result<(), credlet_http::HttpError> {
    let mut filter = printer::is_terminal().then(TerminalFilter::default);
    while printer.is_open()
        && let Some(piece) = next_chunk(&mut body).await
    {
        match &mut filter {
            Some(filter) => printer.raw(filter.push(&piece?).as_bytes()),
            None => printer.raw(&piece?),
        }
    }
    if let Some(mut filter) = filter {
        printer.raw(last_line(&mut filter).as_bytes());
    }
    Ok(())
}

/// The rest of the filtered output, with a newline if the last line has none.
fn last_line(filter: &mut TerminalFilter) -> String {
    let rest = filter.finish();
    if filter.is_in_line() { rest + "\n" } else { rest }
}

/// Reads at most [`ERROR_BODY_LIMIT`] bytes of a body. A read error ends the body.
pub(super) async fn read_prefix(mut body: ResponseBody) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < ERROR_BODY_LIMIT
        && let Some(Ok(piece)) = next_chunk(&mut body).await
    {
        bytes.extend_from_slice(&piece);
    }
    bytes.truncate(ERROR_BODY_LIMIT);
    bytes
}

/// Returns the next data frame. Trailers are skipped.
async fn next_chunk(body: &mut ResponseBody) -> Option<Result<bytes::Bytes, credlet_http::HttpError>> {
    loop {
        match body.frame().await?.map(Frame::into_data) {
            Ok(Ok(data)) => return Some(Ok(data)),
            Ok(Err(_)) => {}
            Err(error) => return Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown_in_pieces(pieces: &[&[u8]]) -> String {
        let mut filter = TerminalFilter::default();
        let shown: String = pieces.iter().map(|piece| filter.push(piece)).collect();
        shown + &last_line(&mut filter)
    }

    #[test]
    fn escapes_control_characters() {
        assert_eq!(shown_in_pieces(&[b"a\x1b[2J", b"b\n"]), "aU+001B[2Jb\n");
        assert_eq!(shown_in_pieces(&[b"ok\rx\r", b"\n"]), "okU+000Dx\n");
        assert_eq!(shown_in_pieces(&[b"\xff\xc3\n", b"x\xc3"]), "\u{fffd}\u{fffd}\nx\u{fffd}\n");
    }

    #[test]
    fn ends_output_with_a_newline() {
        assert_eq!(shown_in_pieces(&[b"ok"]), "ok\n");
        assert_eq!(shown_in_pieces(&[b"ok\n", b""]), "ok\n");
        assert_eq!(shown_in_pieces(&[]), "");
    }

    #[test]
    fn masks_secret_headers() {
        let shown = |name, value: &str, reveal| {
            header_value(&HeaderName::from_static(name), &HeaderValue::from_str(value).unwrap(), RevealArgs { reveal })
        };
        assert_eq!(shown("set-cookie", "session=hunter2", false), "[redacted, 15 characters]");
        assert_eq!(shown("set-cookie", "session=hunter2", true), "session=hunter2");
        assert_eq!(shown("x-echo", "Bearer hunter2", false), "Bearer [redacted]");
        assert_eq!(shown("content-type", "application/json", false), "application/json");
    }
}
