use credlet_api::review::{SelfSubjectReview, UserInfo};
use credlet_client::Client;
use credlet_client::conn::{Body, Payload};
use credlet_core::{Clock as _, SystemClock};
use http::header::CONTENT_TYPE;
use http::{Request, Response, StatusCode};
use serde_json::json;

use super::{Outcome, answer, request};
use crate::args::Global;
use crate::credential::Credential;
use crate::error::CliError;
use crate::exit::Exit;
use crate::facts::{Facts, when};
use crate::printer::{Format, FormatArg, Printer, rows};
use crate::runtime;

/// Show whom the server takes you for, beside what your credential says
///
/// Asks the server with a SelfSubjectReview, which every authenticated user may do, and reads the claims of a JWT or the
/// subject of a client certificate. What the credential says is shown also if the server refuses it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    output: FormatArg,
}

const EXAMPLES: &str = "\
Examples:
  credlet whoami
  credlet whoami --as jane --as-group developers
  credlet whoami -o json | jq -r '.server.groups[]'";

pub(crate) fn run(args: Args, global: &Global) -> Outcome {
    let resolved = global.resolve()?;
    let options = global.client_options()?;
    let client = Client::new(&resolved, options.clone())?;
    runtime::run(global.in_time(async {
        let credential = Credential::obtain(&resolved, &options).await?;
        let server = review(&client).await;
        let mut printer = Printer::default();
        match args.output.format {
            Format::Text => text(&credential, server.as_ref().ok(), &mut printer),
            format => printer.object(&object(&credential, server.as_ref().ok()), format),
        }
        printer.done()?;
        server.map(|_| Exit::Ok)
    }))
}

/// Asks the server, in the newest version that it knows.
pub(super) async fn review(client: &Client) -> Result<UserInfo, CliError> {
    let [newest, older] = SelfSubjectReview::VERSIONS;
    let mut response = ask(client, newest).await?;
    if response.status() == StatusCode::NOT_FOUND {
        response = ask(client, older).await?;
    }
    if !response.status().is_success() {
        return Err(request::refusal(response).await);
    }
    let body = answer::beginning(response.into_body()).await;
    UserInfo::decode(&body).ok_or_else(|| CliError::new(Exit::Refused, "the server's answer says nothing about a user"))
}

pub(super) async fn ask(client: &Client, version: SelfSubjectReview) -> Result<Response<Body>, CliError> {
    let request = Request::post(version.path())
        .header(CONTENT_TYPE, "application/json")
        .body(Payload::from(version.question()))
        .map_err(|error| CliError::usage(error.to_string()))?;
    Ok(client.send(request).await?)
}

fn text(credential: &Credential, server: Option<&UserInfo>, printer: &mut Printer) {
    let now = SystemClock::new().now();
    if let Some(user) = server {
        printer.line("The server says");
        let mut lines = vec![("username".to_owned(), user.username.clone())];
        if !user.uid.is_empty() {
            lines.push(("uid".to_owned(), user.uid.clone()));
        }
        if !user.groups.is_empty() {
            lines.push(("groups".to_owned(), user.groups.join(", ")));
        }
        lines.extend(user.extra.iter().map(|(key, values)| (key.clone(), values.join(", "))));
        rows(printer, "  ", &lines);
    }
    printer.line("Your credential says");
    let mut lines = vec![("source".to_owned(), credential.source.describe())];
    lines.extend(credential.proxy.clone().map(|proxy| ("proxy".to_owned(), proxy)));
    lines.extend(credential.expires.map(|expires| ("expires".to_owned(), when(expires, now))));
    lines.extend(Facts::of(credential).rows(now));
    rows(printer, "  ", &lines);
}

fn object(credential: &Credential, server: Option<&UserInfo>) -> serde_json::Value {
    json!({
        "server": server,
        "credential": {
            "source": credential.source.describe(),
            "proxy": credential.proxy,
            "expirationTimestamp": credential.expires,
            "facts": Facts::of(credential),
        },
    })
}
