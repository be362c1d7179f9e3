//! Prints the server and the kind of user of each context: `cargo run -p credlet-kubeconfig --example contexts`.
//!
//! Reads the files in `$KUBECONFIG`, or `~/.kube/config`. Tokens, keys and passwords are not printed.

use credlet_api::escape_line;
use credlet_kubeconfig::{ConfigOverrides, HeaderCredential, LoadingRules, UserCredentials};
use credlet_platform::SystemEnv;

#[expect(clippy::print_stdout, reason = "an example for the terminal")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let kubeconfig = LoadingRules::from_env(&SystemEnv).load(&SystemEnv)?;
    for context in kubeconfig.contexts() {
        let mut overrides = ConfigOverrides::default();
        overrides.context = Some(context.name().to_owned());
        // Names are text of the file: escaped, they cannot control the terminal.
        let name = escape_line(context.name());
        match kubeconfig.resolve(&overrides, &SystemEnv) {
            Ok(resolved) => println!("{name}: {}, {}", resolved.server.value, user_kind(&resolved.identity)),
            // A context that cannot be used does not affect the others.
            Err(error) => println!("{name}: {error}"),
        }
    }
    Ok(())
}

/// Returns how requests of this user are authenticated, by kubectl's order of precedence.
fn user_kind(user: &UserCredentials) -> String {
    match user.header.as_ref().map(|header| &header.value) {
        Some(HeaderCredential::Token(_)) => "token".to_owned(),
        Some(HeaderCredential::TokenFile { .. }) => "token file".to_owned(),
        Some(HeaderCredential::Basic { .. }) => "user name and password".to_owned(),
        None if user.certificate.is_some() => "client certificate".to_owned(),
        None => match (user.exec_in_use(), user.auth_provider_in_use()) {
            (Some(exec), _) => format!("exec plugin {}", escape_line(&exec.config.command)),
            (None, Some(provider)) => format!("auth provider {}", escape_line(&provider.name)),
            (None, None) => "anonymous".to_owned(),
        },
    }
}
