use clap::ValueEnum;
use credlet_api::exec::ApiVersion;
use credlet_core::{Clock as _, SystemClock};
use serde_json::json;

use super::Outcome;
use crate::args::Global;
use crate::credential::{Credential, Header};
use crate::duration::rough;
use crate::error::CliError;
use crate::exit::Exit;
use crate::facts::{Facts, when};
use crate::printer::{Format, Printer, Reveal, rows};
use crate::runtime;

/// Show the credential that requests would be sent with
///
/// A plugin is run if there is one. text, json and yaml mask secrets unless told to --reveal them; raw, header and
/// exec-credential are made to be used, and show them.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// How to print it
    #[arg(short = 'o', long = "output", value_name = "FORMAT", value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    reveal: Reveal,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Output {
    /// For people
    #[default]
    Text,
    /// For scripts
    Json,
    /// For scripts, and for people
    Yaml,
    /// The bearer token alone
    Raw,
    /// The header, for curl -H
    Header,
    /// What a plugin would print, certificate and key with it
    ExecCredential,
}

const EXAMPLES: &str = "\
Examples:
  credlet token
  curl -H \"$(credlet token -o header)\" https://api.example:6443/readyz
  KUBE_TOKEN=$(credlet token -o raw --context blue)
  credlet token -o exec-credential | jq -r .status.expirationTimestamp";

pub(crate) fn run(args: Args, global: &Global) -> Outcome {
    let resolved = global.resolve()?;
    let options = global.client_options()?;
    runtime::run(global.in_time(async {
        let credential = Credential::obtain(&resolved, &options).await?;
        let mut printer = Printer::default();
        match args.output {
            Output::Text => text(&credential, args.reveal, &mut printer),
            Output::Json => printer.object(&object(&credential, args.reveal), Format::Json),
            Output::Yaml => printer.object(&object(&credential, args.reveal), Format::Yaml),
            Output::Raw => printer.line(credential.token().ok_or_else(|| no_token(&credential))?.expose()),
            Output::Header => {
                let header = credential.header.as_ref().ok_or_else(|| no_token(&credential))?;
                printer.line(format!("Authorization: {}", header.value().expose()));
            }
            Output::ExecCredential => {
                let answer = credential.as_answer().ok_or_else(|| no_token(&credential))?;
                printer.write(answer.encode(ApiVersion::V1).as_bytes());
            }
        }
        printer.done()?;
        Ok(Exit::Ok)
    }))
}

fn no_token(credential: &Credential) -> CliError {
    let error = CliError::new(Exit::NoCredential, format!("there is no token: {}", credential.source.describe()));
    if let Some(proxy) = &credential.proxy {
        let hint = format!("the plugin answered with a proxy, which gives requests their credential itself: {proxy}");
        return error.hint(hint).hint("`credlet request` and `credlet get` send requests through it");
    }
    match (&credential.certificate, &credential.header) {
        (Some(_), _) => error.hint("the credential is a client certificate: `-o exec-credential` prints it"),
        (None, Some(_)) => error.hint("the credential is a password: `-o header` prints it"),
        (None, None) => error,
    }
}

fn text(credential: &Credential, reveal: Reveal, printer: &mut Printer) {
    let now = SystemClock::new().now();
    let mut lines = Vec::new();
    let mut row = |name: &str, value: String| lines.push((name.to_owned(), value));
    row("source", credential.source.describe());
    if let Some(proxy) = &credential.proxy {
        row("proxy", proxy.clone());
    }
    match &credential.header {
        Some(Header::Bearer(token)) => row("token", reveal.show(token)),
        Some(Header::Basic { username, password }) => {
            row("username", username.clone());
            row("password", reveal.show(password));
        }
        None => {}
    }
    if let Some(pair) = &credential.certificate {
        row("client key", reveal.show(&pair.key_pem));
    }
    if let Some(expires) = credential.expires {
        row("expires", when(expires, now));
    }
    if let Some(took) = credential.took {
        row("took", rough(took));
    }
    lines.extend(Facts::of(credential).rows(now));
    rows(printer, "", &lines);
}

fn object(credential: &Credential, reveal: Reveal) -> serde_json::Value {
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
        "facts": Facts::of(credential),
    });
    match &credential.header {
        Some(Header::Bearer(token)) => object["token"] = reveal.show(token).into(),
        Some(Header::Basic { username, password }) => {
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
