use clap::ValueEnum;
use credlet_api::exec::ApiVersion;
use credlet_exec::{Clock as _, SystemClock};
use serde_json::json;

use super::Outcome;
use crate::args::GlobalArgs;
use crate::credential::{AuthorizationHeader, RequestCredential};
use crate::credential_details::{CredentialDetails, format_time};
use crate::duration::format_duration;
use crate::error::CliError;
use crate::exit::ExitStatus;
use crate::printer::{OutputFormat, Printer, RevealArgs, print_rows};
use crate::runtime;

/// Print the credential that would be sent
///
/// Runs the exec plugin if the user has one. The formats text, json and yaml mask secrets unless --reveal is given; raw, header and
/// exec-credential contain them.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct TokenArgs {
    /// Output format
    #[arg(short = 'o', long = "output", value_name = "FORMAT", value_enum, default_value_t)]
    output: TokenFormat,
    #[command(flatten)]
    reveal: RevealArgs,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum TokenFormat {
    /// Text for a terminal, with claims and expiry
    #[default]
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Bearer token only
    Raw,
    /// Authorization header, for curl -H
    Header,
    /// ExecCredential as a plugin prints it, with certificate and key
    ExecCredential,
}

const EXAMPLES: &str = "\
Examples:
  credlet token
  curl -H \"$(credlet token -o header)\" https://api.example:6443/readyz
  KUBE_TOKEN=$(credlet token -o raw --context blue)
  credlet token -o exec-credential | jq -r .status.expirationTimestamp";

pub(crate) fn run(args: TokenArgs, global: &GlobalArgs) -> Outcome {
    let resolved = global.resolve()?;
    let options = global.client_options()?;
    runtime::run(global.with_timeout(async {
        let credential = RequestCredential::fetch(&resolved, &options).await?;
        let mut printer = Printer::default();
        match args.output {
            TokenFormat::Text => text(&credential, args.reveal, &mut printer),
            TokenFormat::Json => printer.object(&object(&credential, args.reveal), OutputFormat::Json),
            TokenFormat::Yaml => printer.object(&object(&credential, args.reveal), OutputFormat::Yaml),
            TokenFormat::Raw => printer.line(credential.token().ok_or_else(|| no_token(&credential))?.expose()),
            TokenFormat::Header => {
                let header = credential.header.as_ref().ok_or_else(|| no_token(&credential))?;
                printer.line(format!("Authorization: {}", header.value().expose()));
            }
            TokenFormat::ExecCredential => {
                let status = credential.to_exec_status().ok_or_else(|| no_token(&credential))?;
                printer.write(status.encode(ApiVersion::V1).as_bytes());
            }
        }
        printer.finish()?;
        Ok(ExitStatus::Success)
    }))
}

fn no_token(credential: &RequestCredential) -> CliError {
    let error = CliError::new(
        ExitStatus::NoCredential,
        format!("no bearer token: the credential is from {}", credential.source.describe()),
    );
    if let Some(proxy) = &credential.proxy {
        let hint = format!("the plugin runs an exec proxy at {proxy}, which adds the credential to requests");
        return error.hint(hint).hint("send requests through it with `credlet request` or `credlet get`");
    }
    match (&credential.certificate, &credential.header) {
        (Some(_), _) => error.hint("the credential is a client certificate: print it with `-o exec-credential`"),
        (None, Some(_)) => error.hint("the credential is a password: print it with `-o header`"),
        (None, None) => error,
    }
}

fn text(credential: &RequestCredential, reveal: RevealArgs, printer: &mut Printer) {
    let now = SystemClock::new().now();
    let mut lines = Vec::new();
    let mut row = |name: &str, value: String| lines.push((name.to_owned(), value));
    row("source", credential.source.describe());
    if let Some(proxy) = &credential.proxy {
        row("proxy", proxy.clone());
    }
    match &credential.header {
        Some(AuthorizationHeader::Bearer(token)) => row("token", reveal.show(token)),
        Some(AuthorizationHeader::Basic { username, password }) => {
            row("username", username.clone());
            row("password", reveal.show(password));
        }
        None => {}
    }
    if let Some(pair) = &credential.certificate {
        row("client key", reveal.show(&pair.key_pem));
    }
    if let Some(expires) = credential.expires {
        row("expires", format_time(expires, now));
    }
    if let Some(took) = credential.took {
        row("took", format_duration(took));
    }
    lines.extend(CredentialDetails::of(credential).rows(now));
    print_rows(printer, "", &lines);
}

fn object(credential: &RequestCredential, reveal: RevealArgs) -> serde_json::Value {
    let source = &credential.source;
    let mut object = json!({
        "source": {
            "kind": source.kind,
            "command": source.command,
            "from": source.origin.as_ref().map(ToString::to_string),
        },
        "proxy": credential.proxy,
        "expirationTimestamp": credential.expires,
        "tookMilliseconds": credential.took.map(|took| took.as_millis() as u64),
        "facts": CredentialDetails::of(credential),
    });
    match &credential.header {
        Some(AuthorizationHeader::Bearer(token)) => object["token"] = reveal.show(token).into(),
        Some(AuthorizationHeader::Basic { username, password }) => {
            object["username"] = username.clone().into();
            object["password"] = reveal.show(password).into();
        }
        None => {}
    }
    if let Some(pair) = &credential.certificate {
        object["clientCertificate"] = pair.chain_pem.clone().into();
        object["clientKey"] = reveal.show(&pair.key_pem).into();
    }
    object
}
