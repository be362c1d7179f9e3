//! The bytes of `KUBERNETES_EXEC_INFO`.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::exec::{ApiVersion, Cluster, ExecCredentialSpec, RawExtension};
use fastrand::Rng;
use serde_json::{Map, Value, json};

use crate::comparison::{Comparison, Difference, ReferenceProgram};
use crate::document;
use crate::random::{json as any, maybe, pick, text};

pub(crate) struct ExecInfo;

impl Comparison for ExecInfo {
    fn name(&self) -> &'static str {
        "exec-info"
    }

    fn reference(&self) -> ReferenceProgram {
        ReferenceProgram::Exec("exec-info")
    }

    fn generate(&self, rng: &mut Rng) -> Value {
        let mut cluster = Map::new();
        maybe(rng, 1, &mut cluster, "server", |rng| text(rng).into());
        maybe(rng, 2, &mut cluster, "tlsServerName", |rng| text(rng).into());
        maybe(rng, 3, &mut cluster, "insecure", |rng| rng.bool().into());
        maybe(rng, 2, &mut cluster, "ca", |rng| text(rng).into());
        maybe(rng, 3, &mut cluster, "proxyURL", |rng| text(rng).into());
        maybe(rng, 3, &mut cluster, "disableCompression", |rng| rng.bool().into());
        maybe(rng, 2, &mut cluster, "config", |rng| any(rng, 3));
        json!({
            "apiVersion": pick(rng, &["v1", "v1", "v1beta1", "v1beta1", "v1alpha1", "v2"]),
            "interactiveMode": pick(rng, &["Never", "IfAvailable", "Always"]),
            "provideClusterInfo": rng.usize(..4) > 0,
            "tty": rng.bool(),
            "cluster": cluster,
        })
    }

    fn query(&self, case: &Value, _: &Path) -> Value {
        let mut query = case.clone();
        let version = case["apiVersion"].as_str().unwrap_or_default();
        query["apiVersion"] = format!("client.authentication.k8s.io/{version}").into();
        // Without a terminal some modes are rejected before the request is encoded.
        if query["interactiveMode"]
            .as_str()
            .is_none_or(|mode| mode == "Always" && case["tty"] != true || mode.is_empty())
        {
            query["interactiveMode"] = "Never".into();
        }
        if let Some(cluster) = query["cluster"].as_object_mut() {
            if let Some(ca) = cluster.remove("ca") {
                cluster.insert("caData".to_owned(), STANDARD.encode(ca.as_str().unwrap_or_default()).into());
            }
            if let Some(config) = cluster.get_mut("config") {
                *config = document::write(config, "json").into();
            }
        } else {
            query.as_object_mut().expect("a case").remove("cluster");
        }
        query
    }

    fn ours(&self, query: &Value) -> (Value, String) {
        let info = spec(query).map_or(json!({}), |(version, spec)| json!({"info": spec.encode(version)}));
        (info, String::new())
    }

    fn plain(&self, theirs: &mut Value) {
        theirs.as_object_mut().expect("an answer").remove("error");
    }

    fn deliberate(&self, query: &Value, difference: &Difference<'_>) -> Option<&'static str> {
        let old = query["apiVersion"] == "client.authentication.k8s.io/v1alpha1";
        let (refused, written) = (difference.theirs.get("info").is_none(), difference.ours.get("info").is_some());
        (old && refused && written).then_some("v1alpha1 is still spoken here (behaviour 28)")
    }

    fn plant(&self, query: &mut Value) {
        if let Some(cluster) = query["cluster"].as_object_mut() {
            cluster.remove("tlsServerName");
        }
    }

    fn kind(&self, theirs: &Value) -> String {
        if theirs.get("info").is_some() { "written" } else { "refused" }.to_owned()
    }
}

/// The query in credlet's types. `None`: not representable.
fn spec(query: &Value) -> Option<(ApiVersion, ExecCredentialSpec)> {
    let version = query["apiVersion"].as_str()?.parse().ok()?;
    let interactive = query["tty"] == true && query["interactiveMode"] != "Never";
    let cluster = match &query["cluster"] {
        _ if query["provideClusterInfo"] != true => None,
        Value::Object(cluster) => {
            let text = |name: &str| cluster.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let flag = |name: &str| cluster.get(name).and_then(Value::as_bool).unwrap_or_default();
            let config = cluster.get("config").and_then(Value::as_str);
            Some(Cluster {
                server: text("server"),
                tls_server_name: text("tlsServerName"),
                insecure_skip_tls_verify: flag("insecure"),
                certificate_authority_data: STANDARD.decode(text("caData")).ok()?,
                proxy_url: text("proxyURL").into(),
                disable_compression: flag("disableCompression"),
                config: config.map(RawExtension::from_json).transpose().ok()?,
            })
        }
        _ => None,
    };
    Some((version, ExecCredentialSpec { cluster, interactive, ..ExecCredentialSpec::default() }))
}
