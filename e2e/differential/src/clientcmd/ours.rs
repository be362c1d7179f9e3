use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use credlet_exec::FixedEnv;
use credlet_kubeconfig::{ConfigOverrides, HeaderCredential, KubeconfigError, LoadingRules, ResolvedConfig};
use serde_json::{Value, json};

/// Returns the result and the error text.
pub(super) fn answer(query: &Value) -> (Value, String) {
    let env = FixedEnv::default().in_dir("/");
    let files = query["files"].as_array().into_iter().flatten().filter_map(Value::as_str).map(PathBuf::from);
    let rules = LoadingRules::list(files.collect()).explicit(query["explicit"].as_str().unwrap_or_default());
    let resolved = rules.load(&env).and_then(|loaded| loaded.resolve(&overrides(&query["overrides"]), &env));
    match resolved {
        Ok(resolved) => (json!({"outcome": "ok", "config": summary(&resolved)}), String::new()),
        Err(error @ KubeconfigError::Unreadable { .. }) => (json!({"outcome": "load"}), error.to_string()),
        Err(error) => (json!({"outcome": "use"}), error.to_string()),
    }
}

fn overrides(given: &Value) -> ConfigOverrides {
    let text = |name: &str| given[name].as_str().map(str::to_owned);
    let flag = |name: &str| given[name] == true;
    let mut overrides = ConfigOverrides::default();
    overrides.context = text("context");
    overrides.cluster = text("cluster");
    overrides.user = text("user");
    overrides.namespace = text("namespace");
    overrides.server = text("server");
    overrides.tls_server_name = text("tlsServerName");
    overrides.certificate_authority = text("ca").map(PathBuf::from);
    overrides.proxy_url = text("proxyURL").map(Into::into);
    overrides.insecure_skip_tls_verify = flag("insecure");
    overrides.disable_compression = flag("disableCompression");
    overrides.token = text("token").map(Into::into);
    overrides.username = text("username");
    overrides.password = text("password").map(Into::into);
    overrides.client_certificate = text("certificate").map(PathBuf::from);
    overrides.client_key = text("key").map(PathBuf::from);
    overrides.impersonate = text("as");
    overrides.impersonate_uid = text("asUID");
    let groups = given["asGroups"].as_array().into_iter().flatten();
    overrides.impersonate_groups = groups.filter_map(Value::as_str).map(str::to_owned).collect();
    overrides
}

/// Encodes the configuration in the oracle's format.
fn summary(resolved: &ResolvedConfig) -> Value {
    let https = resolved.server.value.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
    let (mut token, mut token_file, mut username, mut password) =
        (String::new(), String::new(), String::new(), String::new());
    match resolved.identity.header.as_ref().map(|header| &header.value) {
        Some(HeaderCredential::Token(secret)) => token = secret.expose().to_owned(),
        Some(HeaderCredential::TokenFile { file, inline }) => {
            token = match inline {
                Some(inline) => inline.expose().trim().to_owned(),
                None => file.read().map(|token| token.expose().to_owned()).unwrap_or_default(),
            };
            token_file = shown(file.path());
        }
        Some(HeaderCredential::Basic { username: name, password: secret }) => {
            (username, password) = (name.clone(), secret.expose().to_owned());
        }
        _ => {}
    }
    let certificate = resolved.identity.certificate.as_ref();
    let authority = resolved.tls.certificate_authority.as_ref();
    let person = resolved.impersonation.as_ref();
    json!({
        "context": resolved.context.as_ref().map_or("", |context| &context.value),
        "server": resolved.server.value,
        "namespace": resolved.namespace.value,
        // Not used over plain http.
        "tlsServerName": if https { resolved.tls.server_name.as_ref().map_or("", |name| &name.value) } else { "" },
        "insecure": https && resolved.tls.insecure_skip_verify.value,
        "ca": if https { authority.map(|ca| String::from_utf8_lossy(&ca.pem).into_owned()).unwrap_or_default() } else { String::new() },
        "certificate": certificate.map(|pair| String::from_utf8_lossy(&pair.certificate).into_owned()).unwrap_or_default(),
        "key": certificate.map(|pair| pair.key.expose().to_owned()).unwrap_or_default(),
        "token": token,
        "tokenFile": token_file,
        "username": username,
        "password": password,
        "proxy": resolved.proxy_url.as_ref().map_or("", |url| url.expose()),
        "disableCompression": resolved.disable_compression.value,
        "as": person.map_or("", |person| &person.user.value),
        "asUID": person.and_then(|person| person.uid.as_ref()).map_or("", |uid| &uid.value),
        "asGroups": person.and_then(|person| person.groups.as_ref()).map(|groups| groups.value.clone()),
        "asExtra": person.and_then(|person| person.extra.as_ref()).map(|extra| extra.value.clone()),
        "exec": resolved.identity.exec.as_ref().map(|exec| json!({
            "command": exec.config.command,
            "args": exec.config.args,
            "env": exec.config.env.iter().map(|variable| [&*variable.name, variable.value.expose()]).collect::<Vec<_>>(),
            "apiVersion": exec.config.api_version.as_str(),
            "installHint": exec.config.install_hint,
            "provideClusterInfo": exec.config.provide_cluster_info,
            "interactiveMode": exec.config.interactive_mode.as_str(),
            "extension": exec.cluster.config.as_ref().map_or("", |config| config.as_json()),
        })),
        "authProvider": resolved.identity.auth_provider.as_ref().map(|provider| json!({
            "name": provider.name,
            "config": provider.config.iter().map(|(name, value)| (&**name, value.expose())).collect::<BTreeMap<_, _>>(),
        })),
    })
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
