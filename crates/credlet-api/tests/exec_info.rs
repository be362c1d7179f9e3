//! `KUBERNETES_EXEC_INFO`, byte for byte as client-go writes it: `vectors/info-*.jsonl` were recorded by
//! `e2e/oracle-exec`, which runs client-go itself.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use base64::Engine as _;
use credlet_api::exec::{
    ApiVersion, Cluster, ExecCredentialSpec, ExecInfo, ExecInfoError, FailedResponse, RawExtension,
};
use serde_json::Value;

fn lines(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name);
    let text = fs::read_to_string(path).unwrap();
    text.split('\n').filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Converts a test case of client-go; `None` where client-go returns an error before it encodes.
fn spec(case: &Value) -> Option<(ApiVersion, ExecCredentialSpec)> {
    let version = case["apiVersion"].as_str()?.parse().ok()?;
    let interactive = case["tty"].as_bool().unwrap_or_default()
        && !case["stdinUnavailable"].as_bool().unwrap_or_default()
        && case["interactiveMode"] != "Never";
    let cluster = match &case["cluster"] {
        Value::Object(cluster) if case["provideClusterInfo"] == true => {
            let text = |name: &str| cluster.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let flag = |name: &str| cluster.get(name).and_then(Value::as_bool).unwrap_or_default();
            let config = cluster.get("config").and_then(Value::as_str);
            Some(Cluster {
                server: text("server"),
                tls_server_name: text("tlsServerName"),
                insecure_skip_tls_verify: flag("insecure"),
                certificate_authority_data: base64::engine::general_purpose::STANDARD.decode(text("caData")).ok()?,
                proxy_url: text("proxyURL").into(),
                disable_compression: flag("disableCompression"),
                config: config.map(RawExtension::from_json).transpose().ok()?,
            })
        }
        _ => None,
    };
    Some((version, ExecCredentialSpec { cluster, interactive, ..ExecCredentialSpec::default() }))
}

#[test]
fn encodes_as_client_go() {
    let mut compared = 0;
    for (case, fact) in lines("info-cases.jsonl").iter().zip(lines("info-facts.jsonl")) {
        assert_eq!(case["name"], fact["name"]);
        let Some(theirs) = fact["info"].as_str() else { continue };
        let (version, spec) = spec(case).unwrap_or_else(|| panic!("client-go takes {}", case["name"]));
        assert_eq!(spec.encode(version), theirs, "{}", case["name"]);
        compared += 1;
    }
    assert!(compared >= 50, "only {compared} cases were compared");
}

#[test]
fn exec_info_round_trips() {
    for case in lines("info-cases.jsonl") {
        let Some((version, spec)) = spec(&case) else { continue };
        let info = ExecInfo::decode(spec.encode(version).as_bytes()).unwrap();
        assert_eq!(info.version, version);
        assert_eq!(info.spec.interactive, spec.interactive);
        assert_eq!(info.spec.cluster.is_some(), spec.cluster.is_some(), "{}", case["name"]);
        if let (Some(told), Some(understood)) = (&spec.cluster, &info.spec.cluster) {
            assert_eq!(understood.server, told.server);
            assert_eq!(understood.certificate_authority_data, told.certificate_authority_data);
            assert_eq!(understood.proxy_url, told.proxy_url);
        }
    }
}

#[test]
fn v1alpha1_has_response_and_no_cluster() {
    let mut spec = ExecCredentialSpec { cluster: Some(Cluster::default()), ..ExecCredentialSpec::default() };
    spec.lock_file_path = Some("/run/lock".into());
    let head = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1alpha1","spec":"#;
    assert_eq!(spec.encode(ApiVersion::V1alpha1), format!("{head}{{}}}}\n"));
    spec.interactive = true;
    let challenge = r#"Bearer realm="staging""#.to_owned();
    spec.response =
        Some(FailedResponse { code: 401, header: [("www-authenticate".to_owned(), vec![challenge])].into() });
    assert_eq!(
        spec.encode(ApiVersion::V1alpha1),
        format!(
            "{head}{}\n",
            r#"{"response":{"header":{"Www-Authenticate":["Bearer realm=\"staging\""]},"code":401},"interactive":true}}"#
        )
    );
    let understood = ExecInfo::decode(spec.encode(ApiVersion::V1alpha1).as_bytes()).unwrap();
    assert_eq!(understood.spec.response.unwrap().header["Www-Authenticate"], ["Bearer realm=\"staging\""]);
}

#[test]
fn v1_has_lock_file_and_no_response() {
    let spec = ExecCredentialSpec {
        response: Some(FailedResponse { code: 401, ..FailedResponse::default() }),
        lock_file_path: Some("/run/lock".into()),
        ..ExecCredentialSpec::default()
    };
    assert_eq!(
        spec.encode(ApiVersion::V1),
        concat!(
            r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","#,
            r#""spec":{"interactive":false,"lockFilePath":"/run/lock"}}"#,
            "\n"
        )
    );
}

#[test]
fn extension_from_yaml_has_sorted_keys() {
    let value = serde_json::json!({"audience": "AAA", "z": 1, "nested": {"b": 2, "a": 1}});
    assert_eq!(RawExtension::from_value(&value).as_json(), r#"{"audience":"AAA","nested":{"a":1,"b":2},"z":1}"#);
}

#[test]
fn rejects_invalid_exec_info() {
    let load = |text: &str| ExecInfo::decode(text.as_bytes());
    assert_eq!(load(""), Err(ExecInfoError::Unset));
    assert_eq!(load(" \n"), Err(ExecInfoError::Unset));
    assert!(matches!(load("bad data"), Err(ExecInfoError::InvalidDocument(_))));
    assert_eq!(load("{}"), Err(ExecInfoError::MissingApiVersion));
    assert!(matches!(load(r#"{"kind":"Status","apiVersion":"v1"}"#), Err(ExecInfoError::UnexpectedKind { .. })));
    let v9 = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v9"}"#;
    assert!(matches!(load(v9), Err(ExecInfoError::UnexpectedKind { .. })));
}

#[test]
fn connection_requires_cluster_info() {
    let mut spec = ExecCredentialSpec::default();
    let load = |spec: &ExecCredentialSpec| ExecInfo::decode(spec.encode(ApiVersion::V1).as_bytes()).unwrap();
    assert_eq!(load(&spec).connection().unwrap_err(), ExecInfoError::MissingCluster);

    spec.cluster = Some(Cluster {
        server: "https://1.2.3.4:6443".into(),
        tls_server_name: "kubernetes".into(),
        certificate_authority_data: b"PEM".to_vec(),
        proxy_url: "socks5://user:hunter2@proxy:1080".into(),
        disable_compression: true,
        ..Cluster::default()
    });
    let info = load(&spec);
    let connection = info.connection().unwrap();
    assert_eq!(connection.server(), "https://1.2.3.4:6443");
    assert_eq!(connection.tls_server_name(), Some("kubernetes"));
    assert_eq!(connection.certificate_authority_data(), Some(&b"PEM"[..]));
    assert_eq!(connection.proxy_url().map(|url| url.expose()), Some("socks5://user:hunter2@proxy:1080"));
    assert!(connection.disable_compression());
    assert!(!connection.insecure_skip_tls_verify());
    assert!(!format!("{info:?} {connection:?}").contains("hunter2"));

    for unusable in ["invalid- url\n", "ftp://proxy", "proxy:1080", "http://", "http://pro xy"] {
        spec.cluster.as_mut().unwrap().proxy_url = unusable.into();
        assert_eq!(load(&spec).connection().unwrap_err(), ExecInfoError::InvalidProxyUrl, "{unusable}");
    }
}
