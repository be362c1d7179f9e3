use std::ffi::OsStr;
use std::io::Read as _;
use std::path::PathBuf;

use credlet_client::Client;
use credlet_http::{RequestBody, ResponseBody};
use credlet_kubeconfig::ResolvedConfig;
use credlet_platform::fs::{path_from_bytes, read_bounded_or_pipe};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};

use super::Outcome;
use super::response::{self, ResponseArgs};
use crate::args::GlobalArgs;
use crate::error::CliError;
use crate::exit::ExitStatus;
use crate::printer::Printer;
use crate::runtime;

/// Send any request with the kubeconfig's credential
///
/// Streams the response body to standard output; a watch is printed event by event. A status other than 2xx is an error: credlet prints
/// the server's message and exits with 1.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct RequestArgs {
    /// Request method [default: POST with data, else GET]
    #[arg(short = 'X', long = "method", value_name = "METHOD")]
    method: Option<Method>,
    /// Request body: the value itself, @FILE, or @- for standard input
    #[arg(short = 'd', long = "data", value_name = "DATA", allow_hyphen_values = true)]
    data: Option<std::ffi::OsString>,
    /// Request header, "Name: value"; repeatable
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    headers: Vec<String>,
    /// Path and query to request; {namespace} is replaced by the namespace in use
    path: String,
    #[command(flatten)]
    show: ResponseArgs,
}

const EXAMPLES: &str = "\
Examples:
  credlet request /apis
  credlet request -d @pod.yaml '/api/v1/namespaces/{namespace}/pods'
  credlet request -X PATCH -d '{\"metadata\":{\"labels\":{\"a\":\"b\"}}}' /api/v1/namespaces/default
  credlet request -X DELETE '/api/v1/namespaces/{namespace}/pods/web' -n shop
  generate | credlet request -d @- -H 'Content-Type: application/json' /api/v1/namespaces";

pub(crate) fn run(args: RequestArgs, global: &GlobalArgs) -> Outcome {
    let data = args.data.as_deref().map(RequestData::parse);
    let method = args.method.unwrap_or(if data.is_some() { Method::POST } else { Method::GET });
    send(method, &args.path, &args.headers, data, args.show, global)
}

/// Sends one request and prints the response.
pub(super) fn send(
    method: Method,
    path: &str,
    headers: &[String],
    data: Option<RequestData<'_>>,
    show: ResponseArgs,
    global: &GlobalArgs,
) -> Outcome {
    let resolved = global.resolve()?;
    let mut options = global.client_options()?;
    if matches!(data, Some(RequestData::Stdin)) {
        options.exec.stdin_unavailable = Some("the request body is read from it".to_owned());
    }
    let client = Client::new(&resolved, options)?;
    let mut request = Request::new(RequestBody::empty());
    *request.uri_mut() = uri(path, &resolved)?;
    for (name, value) in headers.iter().map(|header| parse_header(header)) {
        request.headers_mut().append(name?, value?);
    }
    if let Some(data) = data {
        let bytes = data.read()?;
        if !request.headers().contains_key(CONTENT_TYPE) {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type(&method, &bytes)));
        }
        *request.body_mut() = RequestBody::from(bytes);
    }
    *request.method_mut() = method;
    runtime::run(global.with_timeout(exchange(&client, request, show)))
}

async fn exchange(client: &Client, mut request: Request<RequestBody>, show: ResponseArgs) -> Outcome {
    if !request.headers().contains_key(ACCEPT) {
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
    }
    let response = client.send(request).await?;
    let mut printer = Printer::default();
    response::print_head(&response, show, &mut printer);
    if response.status().is_success() {
        response::print_body(response.into_body(), &mut printer).await?;
    } else {
        return Err(error_from_response(response).await);
    }
    printer.finish()?;
    Ok(ExitStatus::Success)
}

/// Returns the error for a response with a status other than 2xx, with the server's message. Credentials are redacted from it, because
/// servers and gateways may echo the request.
pub(super) async fn error_from_response(response: Response<ResponseBody>) -> CliError {
    let status = response.status();
    let body = response::read_prefix(response.into_body()).await;
    let message = match credlet_api::exec::status_message(&body) {
        Some(message) => message,
        None => String::from_utf8_lossy(&body).trim().to_owned(),
    };
    let message = credlet_api::redact(&message, []);
    let suffix = if message.is_empty() { String::new() } else { format!(": {message}") };
    let error = CliError::new(ExitStatus::ServerError, format!("the server returned {status}{suffix}"));
    match status {
        StatusCode::UNAUTHORIZED => error.hint("run `credlet doctor` to diagnose the credential"),
        StatusCode::FORBIDDEN => {
            error.hint("run `credlet whoami` to see the user that the server authenticates you as")
        }
        _ => error,
    }
}

/// The request path with `{namespace}` replaced.
fn uri(path: &str, resolved: &ResolvedConfig) -> Result<Uri, CliError> {
    if path.contains("://") {
        return Err(CliError::usage(
            "invalid path: must not contain a scheme; the server is that of the kubeconfig or of --server",
        ));
    }
    let path = path.replace("{namespace}", &resolved.namespace.value);
    let slash = if path.starts_with('/') { "" } else { "/" };
    let invalid = |_| CliError::usage("invalid path: contains a character that must be percent-encoded");
    format!("{slash}{path}").parse().map_err(invalid)
}

/// Parses `Name: value`. Errors do not quote the header, which may be a secret.
fn parse_header(header: &str) -> (Result<HeaderName, CliError>, Result<HeaderValue, CliError>) {
    let (name, value) = header.split_once(':').unwrap_or_default();
    let name = name.trim().parse().map_err(|_| CliError::usage("invalid header: must be `Name: value`"));
    let value = HeaderValue::from_str(value.trim());
    (name, value.map_err(|_| CliError::usage("invalid header: the value contains a control character")))
}

/// The default `Content-Type` of a request body. A JSON body of a PATCH is a JSON merge patch (RFC 7396).
fn content_type(method: &Method, data: &[u8]) -> &'static str {
    let is_json = matches!(data.trim_ascii_start().first(), Some(b'{' | b'[') | None);
    match (method, is_json) {
        (&Method::PATCH, true) => "application/merge-patch+json",
        (_, true) => "application/json",
        (_, false) => "application/yaml",
    }
}

/// Size limit of a request body, in bytes. API servers accept 3 MiB.
const BODY_LIMIT: u64 = 64 << 20;

/// Source of a request body, as given to `-d`.
#[derive(Clone, Debug)]
pub(super) enum RequestData<'a> {
    Inline(&'a OsStr),
    File(PathBuf),
    Stdin,
}

impl<'a> RequestData<'a> {
    fn parse(text: &'a OsStr) -> Self {
        match text.as_encoded_bytes().strip_prefix(b"@") {
            Some(b"-") => Self::Stdin,
            Some(path) => Self::File(path_from_bytes(path.to_vec())),
            None => Self::Inline(text),
        }
    }

    /// Reads the whole body, so that the request can be retried with another credential.
    fn read(self) -> Result<Vec<u8>, CliError> {
        match self {
            Self::Inline(text) => Ok(text.as_encoded_bytes().to_vec()),
            // The process substitution `<(…)` of a shell is a pipe.
            Self::File(path) => match read_bounded_or_pipe(&path, BODY_LIMIT) {
                Ok(bytes) => Ok(bytes.to_vec()),
                Err(error) => Err(CliError::usage(format!("cannot read {}: {error}", path.display()))),
            },
            Self::Stdin => {
                let mut bytes = Vec::new();
                match std::io::stdin().lock().take(BODY_LIMIT + 1).read_to_end(&mut bytes) {
                    Ok(_) if bytes.len() as u64 > BODY_LIMIT => {
                        Err(CliError::usage(format!("request body on standard input exceeds {BODY_LIMIT} bytes")))
                    }
                    Ok(_) => Ok(bytes),
                    Err(error) => Err(CliError::usage(format!("failed to read standard input: {error}"))),
                }
            }
        }
    }
}
