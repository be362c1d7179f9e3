//! Where we differ from clientcmd on purpose. Each reason has its row in `docs/behaviour.md`.

use serde_json::Value;

/// Why these answers to the same files may differ.
pub(super) fn reason(files: &[String], overrides: &Value, theirs: &Value, ours: &Value) -> Option<&'static str> {
    let outcome = |answer: &Value| answer["outcome"].as_str().unwrap_or_default().to_owned();
    let (config, our_config) = (&theirs["config"], &ours["config"]);
    let any = |word: &str| files.iter().any(|text| text.contains(word));
    let json = files.iter().any(|text| serde_json::from_str::<Value>(text).is_ok());
    match (&*outcome(theirs), &*outcome(ours)) {
        ("ok", "use") => {
            let server = config["server"].as_str().unwrap_or_default().to_ascii_lowercase();
            let Some(rest) = server.strip_prefix("https://").or_else(|| server.strip_prefix("http://")) else {
                return Some("a server without a scheme is an error (W32)");
            };
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let port = host.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.contains(']'));
            let bad_port = port.is_some_and(|port| !port.is_empty() && port.parse::<u16>().is_err());
            if host.is_empty() || host.starts_with(':') || host.contains('@') || bad_port {
                return Some("a server without a host, with a port that is none, or with a password in it is an error");
            }
            if config["ca"] == "" && files.iter().any(|text| text.contains("certificate-authority")) {
                return Some("a file of authorities without a certificate is an error");
            }
            if config["token"].as_str().is_some_and(|token| token.contains(|c: char| c.is_control())) {
                return Some("a token with a control character fits into no header (W27)");
            }
            if config["proxy"].as_str().is_some_and(|proxy| proxy.ends_with([':', '/'])) {
                return Some("a proxy without a host is an error");
            }
            if server.starts_with("http://") {
                return Some("what plain http makes superfluous is checked all the same");
            }
            if any("client-certificate")
                || any("client-key")
                || overrides["certificate"].is_string()
                || overrides["key"].is_string()
            {
                return Some("files of certificates and keys are read, and looked at, at once");
            }
            if config["context"] == "" {
                return Some("an entry without a name is nobody's");
            }
            None
        }
        ("use", "ok") if our_config["certificate"] != "" => {
            Some("whether certificate and key belong together is seen when the client is built")
        }
        ("use", "ok") if our_config["exec"]["apiVersion"] == "client.authentication.k8s.io/v1alpha1" => {
            Some("v1alpha1 is still spoken here (28)")
        }
        ("use", "ok") if our_config["authProvider"].is_object() => {
            Some("the settings of an oidc login are checked when it is used")
        }
        ("use", "ok") if any("auth-provider") => {
            Some("an auth-provider that is gone is a warning beside a credential that is not")
        }
        ("use", "ok") if our_config["server"].as_str().is_some_and(|server| server.contains('[')) => {
            Some("what stands in brackets is looked at when it is connected to")
        }
        ("load", "ok" | "use") if json => Some("a file that is JSON is read as JSON, whatever its keys"),
        ("ok" | "use", "load") if any("-data") => Some("data is text, not a list of bytes"),
        ("ok" | "use", "load")
            if files.iter().any(|text| text.matches("client.authentication.k8s.io/exec").count() > 1) =>
        {
            Some("two extensions with one name are refused, also if the first is empty")
        }
        ("ok", "ok") => {
            let differ = |name: &str| config[name] != our_config[name];
            let only = |names: &[&str]| {
                config
                    .as_object()
                    .is_some_and(|members| members.keys().all(|name| !differ(name) || names.contains(&&**name)))
            };
            if json && any("\u{85}") || any("\u{2028}") || any("\u{2029}") || any("\u{feff}") {
                return Some("a file that is JSON is read as JSON, whatever its line breaks");
            }
            let extension =
                |config: &Value| config["exec"]["extension"].as_str().unwrap_or_default().replace("-0", "0");
            if only(&["exec"])
                && config["exec"]["extension"] != our_config["exec"]["extension"]
                && extension(config) == extension(our_config)
            {
                return Some("a negative zero in an extension is zero");
            }
            if overrides["token"].as_str().is_some_and(|token| !token.is_empty()) && only(&["tokenFile", "token"]) {
                return Some("--token also drops a tokenFile (16)");
            }
            None
        }
        _ => None,
    }
}
