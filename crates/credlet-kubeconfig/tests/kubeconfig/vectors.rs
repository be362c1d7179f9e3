//! Comparison with the results of client-go's `clientcmd` for the same files, one directory per case.

use std::fs;
use std::path::{Path, PathBuf};

use credlet_kubeconfig::{ConfigOverrides, HeaderCredential, KubeconfigError, LoadingRules, ResolvedConfig};
use credlet_platform::FixedEnv;
use serde_json::{Value, json};

#[test]
fn matches_clientcmd_vectors() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/kubeconfig");
    let mut cases: Vec<PathBuf> = fs::read_dir(root).unwrap().map(|case| case.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() >= 28, "the vectors are gone");
    let wrong: Vec<String> = cases.iter().filter_map(|case| difference(case)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn difference(case: &Path) -> Option<String> {
    let expect: Value = serde_json::from_slice(&fs::read(case.join("expect.json")).unwrap()).unwrap();
    let files = expect["kubeconfig"].as_array().unwrap().iter().map(|file| case.join(file.as_str().unwrap()));
    let env = FixedEnv::default();
    let loaded = LoadingRules::list(files.collect()).load(&env);
    let resolved = loaded.as_ref().map(|kubeconfig| kubeconfig.resolve(&ConfigOverrides::default(), &env));
    let (found, wanted) = match (expect["outcome"].as_str().unwrap(), &resolved) {
        ("refused when loaded", Err(KubeconfigError::Unreadable { .. }))
        | ("loads, refused when used", Ok(Err(KubeconfigError::Invalid { .. }))) => return None,
        ("ok", Ok(Ok(resolved))) => (summary(resolved), wanted(&expect, case)),
        (outcome, _) => return Some(format!("{}: expected {outcome:?}, got {resolved:?}", case.display())),
    };
    (found != wanted).then(|| format!("{}: expected {wanted:#}, got {found:#}", case.display()))
}

fn summary(resolved: &ResolvedConfig) -> Value {
    let authority = resolved.tls.certificate_authority.as_ref();
    let (token, token_file) = match resolved.identity.header.as_ref().map(|header| &header.value) {
        Some(HeaderCredential::Token(token)) => (token.expose(), false),
        Some(HeaderCredential::TokenFile { inline, .. }) => (inline.as_ref().map_or("", |token| token.expose()), true),
        _ => ("", false),
    };
    json!({
        "context": resolved.context.as_ref().map(|context| &context.value),
        "server": resolved.server.value,
        "tlsServerName": resolved.tls.server_name.as_ref().map_or("", |name| name),
        "insecure": resolved.tls.insecure_skip_verify.value,
        "caBytes": authority.map_or(0, |authority| authority.pem.len()),
        "caFile": authority.and_then(|authority| authority.file.as_deref()).unwrap_or(Path::new("")),
        "token": token,
        "tokenFile": token_file,
        "namespace": resolved.namespace.value,
        "exec": resolved.identity.exec.as_ref().map(|exec| json!({
            "command": exec.config.command,
            "env": exec.config.env.iter().map(|v| format!("{{{} {}}}", v.name, v.value.expose())).collect::<String>(),
            "interactiveMode": exec.config.interactive_mode.as_str(),
            "apiVersion": exec.config.api_version.as_str(),
        })),
    })
}

fn wanted(expect: &Value, case: &Path) -> Value {
    let mut wanted = expect.clone();
    let fields = wanted.as_object_mut().unwrap();
    for other in ["kubeconfig", "outcome", "exec_raw"] {
        fields.remove(other);
    }
    fields.entry("exec").or_insert(Value::Null);
    let text = wanted.to_string().replace("<dir>", &case.to_string_lossy());
    serde_json::from_str(&text).unwrap()
}
