use credlet_api::review::{SelfSubjectReview, UserInfo};
use credlet_client::Client;
use credlet_exec::{Clock as _, SystemClock};
use credlet_http::{RequestBody, ResponseBody};
use http::header::CONTENT_TYPE;
use http::{Request, Response, StatusCode};
use serde_json::json;

use super::{Outcome, request, response};
use crate::args::GlobalArgs;
use crate::credential::RequestCredential;
use crate::credential_details::{CredentialDetails, format_time};
use crate::error::CliError;
use crate::exit::ExitStatus;
use crate::printer::{OutputArgs, OutputFormat, Printer, print_rows};
use crate::runtime;

/// Show the user that the server authenticates you as, and the contents of your credential
///
/// Sends a SelfSubjectReview, which every authenticated user may create, and decodes the claims of a JWT or the subject of a client
/// certificate. Shows the contents of the credential also if the server rejects it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct WhoamiArgs {
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  credlet whoami
  credlet whoami --as jane --as-group developers
  credlet whoami -o json | jq -r '.server.groups[]'";

pub(crate) fn run(args: WhoamiArgs, global: &GlobalArgs) -> Outcome {
    let resolved = global.resolve()?;
    let options = global.client_options()?;
    let client = Client::new(&resolved, options.clone())?;
    runtime::run(global.with_timeout(async {
        let credential = RequestCredential::fetch(&resolved, &options).await?;
        let server = review(&client).await;
        let mut printer = Printer::default();
        match args.output.format {
            OutputFormat::Text => text(&credential, server.as_ref().ok(), &mut printer),
            format => printer.object(&object(&credential, server.as_ref().ok()), format),
        }
        printer.finish()?;
        server.map(|_| ExitStatus::Success)
    }))
}

/// Creates a SelfSubjectReview in the newest version that the server supports.
pub(super) async fn review(client: &Client) -> Result<UserInfo, CliError> {
    let [newest, older] = SelfSubjectReview::VERSIONS;
    let mut response = send_review(client, newest).await?;
    if response.status() == StatusCode::NOT_FOUND {
        response = send_review(client, older).await?;
    }
    if !response.status().is_success() {
        return Err(request::error_from_response(response).await);
    }
    let body = response::read_prefix(response.into_body()).await;
    UserInfo::decode(&body)
        .ok_or_else(|| CliError::new(ExitStatus::ServerError, "invalid response: not a SelfSubjectReview with a user"))
}

pub(super) async fn send_review(
    client: &Client,
    version: SelfSubjectReview,
) -> Result<Response<ResponseBody>, CliError> {
    let request = Request::post(version.path())
        .header(CONTENT_TYPE, "application/json")
        .body(RequestBody::from(version.body()))
        .map_err(|error| CliError::internal(format!("failed to build the request: {error}")))?;
    Ok(client.send(request).await?)
}

fn text(credential: &RequestCredential, server: Option<&UserInfo>, printer: &mut Printer) {
    let now = SystemClock::new().now();
    if let Some(user) = server {
        printer.line("Authenticated as");
        let mut lines = vec![("username".to_owned(), user.username.clone())];
        if !user.uid.is_empty() {
            lines.push(("uid".to_owned(), user.uid.clone()));
        }
        if !user.groups.is_empty() {
            lines.push(("groups".to_owned(), user.groups.join(", ")));
        }
        lines.extend(user.extra.iter().map(|(key, values)| (key.clone(), values.join(", "))));
        print_rows(printer, "  ", &lines);
    }
    printer.line("Credential");
    let mut lines = vec![("source".to_owned(), credential.source.describe())];
    lines.extend(credential.proxy.clone().map(|proxy| ("proxy".to_owned(), proxy)));
    lines.extend(credential.expires.map(|expires| ("expires".to_owned(), format_time(expires, now))));
    lines.extend(CredentialDetails::of(credential).rows(now));
    print_rows(printer, "  ", &lines);
}

fn object(credential: &RequestCredential, server: Option<&UserInfo>) -> serde_json::Value {
    json!({
        "server": server,
        "credential": {
            "source": credential.source.describe(),
            "proxy": credential.proxy,
            "expirationTimestamp": credential.expires,
            "facts": CredentialDetails::of(credential),
        },
    })
}
