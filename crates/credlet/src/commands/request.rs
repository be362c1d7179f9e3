use std::ffi::OsStr;
use std::io::Read as _;
use std::path::Path;

use credlet_client::Client;
use credlet_client::conn::{Body, Payload};
use credlet_client::kubeconfig::Resolved;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};

use super::Outcome;
use super::answer::{self, Show};
use crate::args::Global;
use crate::error::CliError;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::runtime;

/// Send the API server any request with the kubeconfig's credential
///
/// The answer goes to standard output as it comes; a watch is printed line by line. What the server refuses is an
/// error, and its message is printed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The method: GET, or POST if there is data
    #[arg(short = 'X', long = "method", value_name = "METHOD")]
    method: Option<Method>,
    /// The data to send: itself, @FILE, or @- for standard input
    #[arg(short = 'd', long = "data", value_name = "DATA", allow_hyphen_values = true)]
    data: Option<std::ffi::OsString>,
    /// A header to send, "Name: value"; may be given several times
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    headers: Vec<String>,
    /// The path on the server, with its query; {namespace} stands for the namespace in use
    path: String,
    #[command(flatten)]
    show: Show,
}

const EXAMPLES: &str = "\
Examples:
  credlet request /apis
  credlet request -d @pod.yaml '/api/v1/namespaces/{namespace}/pods'
  credlet request -X PATCH -d '{\"metadata\":{\"labels\":{\"a\":\"b\"}}}' /api/v1/namespaces/default
  credlet request -X DELETE '/api/v1/namespaces/{namespace}/pods/web' -n shop
  generate | credlet request -d @- -H 'Content-Type: application/json' /api/v1/namespaces";

pub(crate) fn run(args: Args, global: &Global) -> Outcome {
    let data = args.data.as_deref().map(Data::named);
    let method = args.method.unwrap_or(if data.is_some() { Method::POST } else { Method::GET });
    send(method, &args.path, &args.headers, data, args.show, global)
}

/// Sends one request and prints what comes back.
pub(super) fn send(
    method: Method,
    path: &str,
    headers: &[String],
    data: Option<Data<'_>>,
    show: Show,
    global: &Global,
) -> Outcome {
    let resolved = global.resolve()?;
    let mut options = global.client_options()?;
    if matches!(data, Some(Data::Stdin)) {
        options.exec.stdin_unavailable = Some("the data of the request is read from it".to_owned());
    }
    let client = Client::new(&resolved, options)?;
    let mut request = Request::new(Payload::empty());
    *request.uri_mut() = uri(path, &resolved)?;
    for (name, value) in headers.iter().map(|header| parse(header)) {
        request.headers_mut().append(name?, value?);
    }
    if let Some(data) = data {
        let bytes = data.read()?;
        if !request.headers().contains_key(CONTENT_TYPE) {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type(&method, &bytes)));
        }
        *request.body_mut() = Payload::from(bytes);
    }
    *request.method_mut() = method;
    runtime::run(global.in_time(exchange(&client, request, show)))
}

async fn exchange(client: &Client, mut request: Request<Payload>, show: Show) -> Outcome {
    if !request.headers().contains_key(ACCEPT) {
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
    }
    let response = client.send(request).await?;
    let mut printer = Printer::default();
    answer::head(&response, show, &mut printer);
    if response.status().is_success() {
        answer::stream(response.into_body(), &mut printer).await?;
    } else {
        return Err(refusal(response).await);
    }
    printer.done()?;
    Ok(Exit::Ok)
}

/// What the server said when it said no.
pub(super) async fn refusal(response: Response<Body>) -> CliError {
    let status = response.status();
    let body = answer::beginning(response.into_body()).await;
    let message = match credlet_api::exec::failure_message(&body) {
        Some(message) => message,
        None => String::from_utf8_lossy(&body).trim().to_owned(),
    };
    let said = if message.is_empty() { String::new() } else { format!(": {message}") };
    let error = CliError::new(Exit::Refused, format!("the server said {status}{said}"));
    match status {
        StatusCode::UNAUTHORIZED => error.hint("`credlet doctor` finds out what is wrong with the credential"),
        StatusCode::FORBIDDEN => error.hint("`credlet whoami` shows whom the server takes you for"),
        _ => error,
    }
}

/// The path that was asked for, with the namespace put in.
fn uri(path: &str, resolved: &Resolved) -> Result<Uri, CliError> {
    if path.contains("://") {
        return Err(CliError::usage("give the path alone: the server is the kubeconfig's, or that of --server"));
    }
    let path = path.replace("{namespace}", &resolved.namespace.value);
    let slash = if path.starts_with('/') { "" } else { "/" };
    let wrong = |_| CliError::usage("the path has a character in it that must be written as % and two digits");
    format!("{slash}{path}").parse().map_err(wrong)
}

/// Neither name nor value is repeated in an error: a header may be a secret.
fn parse(header: &str) -> (Result<HeaderName, CliError>, Result<HeaderValue, CliError>) {
    let (name, value) = header.split_once(':').unwrap_or_default();
    let name = name.trim().parse().map_err(|_| CliError::usage("a header is written as `Name: value`"));
    let value = HeaderValue::from_str(value.trim());
    (name, value.map_err(|_| CliError::usage("a header's value has a character that no header can carry")))
}

/// The API server wants to know what it is sent, and has a word of its own for patches.
fn content_type(method: &Method, data: &[u8]) -> &'static str {
    let is_json = matches!(data.trim_ascii_start().first(), Some(b'{' | b'[') | None);
    match (method, is_json) {
        (&Method::PATCH, true) => "application/merge-patch+json",
        (_, true) => "application/json",
        (_, false) => "application/yaml",
    }
}

/// What `-d` names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Data<'a> {
    Itself(&'a OsStr),
    File(&'a Path),
    Stdin,
}

impl<'a> Data<'a> {
    fn named(text: &'a OsStr) -> Self {
        use std::os::unix::ffi::OsStrExt as _;
        match text.as_bytes().strip_prefix(b"@") {
            Some(b"-") => Self::Stdin,
            Some(path) => Self::File(Path::new(OsStr::from_bytes(path))),
            None => Self::Itself(text),
        }
    }

    /// All of it, so that it can be sent once more with another credential.
    fn read(self) -> Result<Vec<u8>, CliError> {
        match self {
            Self::Itself(text) => Ok(text.as_encoded_bytes().to_vec()),
            Self::File(path) => std::fs::read(path)
                .map_err(|error| CliError::usage(format!("{} cannot be read: {error}", path.display()))),
            Self::Stdin => {
                let mut bytes = Vec::new();
                match std::io::stdin().lock().read_to_end(&mut bytes) {
                    Ok(_) => Ok(bytes),
                    Err(error) => Err(CliError::usage(format!("standard input cannot be read: {error}"))),
                }
            }
        }
    }
}
