//! Deliberate differences from clientcmd. Each reason is listed in `docs/behaviour.md` and depends on both results, so that it
//! excuses only the difference it describes.

use serde_json::Value;

use crate::comparison::Difference;

/// The reason why these results for the same files may differ.
pub(super) fn reason(files: &[String], overrides: &Value, difference: &Difference<'_>) -> Option<&'static str> {
    let outcome = |answer: &Value| answer["outcome"].as_str().unwrap_or_default().to_owned();
    let error = difference.theirs["error"].as_str().unwrap_or_default();
    let why = difference.why;
    let json = || files.iter().any(|text| serde_json::from_str::<Value>(text).is_ok());
    match (&*outcome(difference.theirs), &*outcome(difference.ours)) {
        ("ok", "use") => refused(&difference.theirs["config"], why),
        ("use", "ok") => taken(error, &difference.ours["config"]),
        ("load", "ok" | "use") if error.contains("yaml: ") && json() => {
            Some("a file that is JSON is read as JSON, whatever its keys")
        }
        ("ok" | "use", "load") if why.contains("-data`: expected base64") && lists_bytes(files) => {
            Some("data is text, not a list of bytes")
        }
        ("ok" | "use", "load")
            if why.contains("invalid `users[].user.token`: expected a string") && has_twice(files, "token") =>
        {
            Some("in YAML too, what is there twice must be right twice")
        }
        ("ok", "ok") => changed(files, overrides, &difference.plain["config"], &difference.ours["config"]),
        _ => None,
    }
}

/// clientcmd accepts the files, credlet reports these errors: one of them must be a deliberate check.
fn refused(config: &Value, why: &str) -> Option<&'static str> {
    let text = |name: &str| config[name].as_str().unwrap_or_default();
    let server = text("server").to_ascii_lowercase();
    let scheme = server.split_once("://").map(|(scheme, _)| scheme).filter(|scheme| !scheme.is_empty());
    let holds = |name: &str, what: &str| text(name).contains(what);
    if why.contains("missing scheme in `server`") && scheme.is_none() {
        return Some("a server without a scheme is an error (W32)");
    }
    if why.contains("unsupported scheme in `server`") && !matches!(scheme, Some("http" | "https")) {
        return Some("a server with another scheme is an error at once");
    }
    if why.contains("`server` must not contain a user name") && authority(&server).contains('@') {
        return Some("a server with a user name in it is an error");
    }
    if why.contains("`server` is not an address") && !connectable(&server) {
        return Some("a server without a usable host and port, or that no request can carry as it is, is an error");
    }
    if why.contains("`proxy-url` is not an address") && !connectable(text("proxy")) {
        return Some("a proxy without a usable host and port is an error at once");
    }
    if why.contains("`proxy-url` is not an address") && !is_utf8(authority(text("proxy"))) {
        return Some("a proxy's user name and password are UTF-8");
    }
    if why.contains("contains a NUL character") && config["exec"].to_string().contains("\\u0000") {
        return Some("what no process can be given is an error at once");
    }
    if why.contains("missing PEM certificate in `certificate-authority`") && config["ca"] == "" {
        return Some("a file of authorities without a certificate is an error");
    }
    if why.contains("missing PEM certificate in `client-certificate`")
        && !holds("certificate", "-----BEGIN CERTIFICATE")
        || why.contains("missing PEM private key in `client-key`") && !holds("key", "PRIVATE KEY-----")
    {
        return Some("files of certificates and keys are looked at at once");
    }
    if why.contains("contains a line break or another control character") && text("token").contains(char::is_control) {
        return Some("a token with a control character fits into no header (W27)");
    }
    if scheme == Some("http") && !why.contains("`server`") && !why.contains("`proxy-url`") {
        return Some("what plain http makes superfluous is checked all the same");
    }
    None
}

/// clientcmd reports this error, credlet accepts the files.
fn taken(error: &str, config: &Value) -> Option<&'static str> {
    if error == "tls: private key does not match public key" && config["certificate"] != "" {
        return Some("whether certificate and key belong together is seen when the client is built");
    }
    if error == "exec plugin: invalid apiVersion \"client.authentication.k8s.io/v1alpha1\""
        && config["exec"]["apiVersion"] == "client.authentication.k8s.io/v1alpha1"
    {
        return Some("v1alpha1 is still spoken here (28)");
    }
    if ["Must provide idp-issuer-url", "Must provide client-id"].contains(&error)
        && config["authProvider"]["name"] == "oidc"
    {
        return Some("the settings of an oidc login are checked when it is used");
    }
    let credential = ["token", "tokenFile", "username", "certificate"].into_iter().any(|name| config[name] != "");
    if error.starts_with("no Auth Provider found for name") && credential {
        return Some("an auth-provider that is gone is a warning beside a credential that is not");
    }
    None
}

/// Both accept the files with different results.
fn changed(files: &[String], overrides: &Value, theirs: &Value, ours: &Value) -> Option<&'static str> {
    let only = |names: &[&str]| {
        theirs
            .as_object()
            .is_some_and(|members| members.keys().all(|name| theirs[name] == ours[name] || names.contains(&&**name)))
    };
    let token = &overrides["token"];
    if token.as_str().is_some_and(|token| !token.is_empty())
        && ours["token"] == *token
        && ours["tokenFile"] == ""
        && theirs["tokenFile"] != ""
        && only(&["tokenFile", "token"])
    {
        return Some("--token also drops a tokenFile (16)");
    }
    // YAML 1.1 has more line breaks and folds them.
    let breaks = ['\u{85}', '\u{2028}', '\u{2029}', '\u{feff}'];
    let json = |text: &String| text.contains(breaks) && serde_json::from_str::<Value>(text).is_ok();
    files.iter().any(json).then_some("a file that is JSON is read as JSON, whatever its line breaks")
}

fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// Whether its percent-escapes decode to UTF-8.
fn is_utf8(text: &str) -> bool {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.extend(part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()));
        bytes.extend(part.bytes().skip(2));
    }
    String::from_utf8(bytes).is_ok()
}

/// Whether the address can be connected to.
fn connectable(url: &str) -> bool {
    let place = authority(url);
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let (host, port) = match place.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
        Some((host, port)) => (host, port.is_empty() || port.parse::<u16>().is_ok()),
        None => (place, true),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%".contains(c);
    // Only valid within brackets.
    let odd = host.contains(['%', ':']) && !host.starts_with('[');
    port && !host.is_empty() && !odd && url.chars().all(plain)
}

/// Whether a member of this name occurs twice in one object.
fn has_twice(files: &[String], name: &str) -> bool {
    let twice = |text: &String| {
        let lines = text.lines().filter(|line| line.trim_start().starts_with(&format!("{name}:"))).count();
        lines > 1 || text.matches(&format!("\"{name}\":")).count() > 1
    };
    files.iter().any(twice)
}

/// Whether a `…-data` field is a list.
fn lists_bytes(files: &[String]) -> bool {
    let list = |text: &str| {
        let text = text.trim_start_matches(['"', ':']).trim_start();
        text.starts_with('[') || text.starts_with("- ")
    };
    files.iter().any(|text| text.split("-data").skip(1).any(list))
}
