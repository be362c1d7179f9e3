//! Renders the converted cluster and user.

use crate::server::BridgeMode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::exec::ApiVersion;
use credlet_api::kubeconfig::{AuthInfo, ClusterSection, EXEC_EXTENSION};
use serde_json::{Value, json};

use super::BridgePlan;

/// Names and values, in output order.
type Fields = Vec<(&'static str, Value)>;

/// Returns the fields of the converted cluster. Extensions of other programs are kept.
pub(super) fn cluster(old: &ClusterSection, plan: &BridgePlan) -> Fields {
    let others = old.extensions.iter().filter(|extension| extension.name != EXEC_EXTENSION).map(|extension| {
        let data = extension.item.as_ref().and_then(|data| serde_json::from_str(data.as_json()).ok());
        json!({"name": extension.name, "extension": data.unwrap_or(Value::Null)})
    });
    let ours = json!({"name": EXEC_EXTENSION, "extension": plan.bridge.extension()});
    let (port, upstream) = (plan.endpoint.port, &plan.bridge.upstream.server);
    let mut fields = match plan.endpoint.mode {
        BridgeMode::Server => vec![("server", json!(super::local(port, upstream)))],
        BridgeMode::ProxyUrl => {
            vec![("server", json!(upstream)), ("proxy-url", json!(format!("http://127.0.0.1:{port}")))]
        }
    };
    fields.push(("certificate-authority-data", json!(STANDARD.encode(&plan.authority))));
    if old.disable_compression.value {
        fields.push(("disable-compression", json!(true)));
    }
    fields.push(("extensions", others.chain([ours]).collect()));
    fields
}

/// Returns the fields of the converted user: the plugin, and the impersonation of the original user.
pub(super) fn user(old: &AuthInfo, plan: &BridgePlan) -> Fields {
    let mut exec = json!({
        "apiVersion": ApiVersion::V1.to_string(),
        "command": plan.program,
        "args": plan.args,
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": true,
    });
    let env = old.exec.iter().flat_map(|exec| &exec.value.env);
    let env: Vec<_> = env.map(|var| json!({"name": var.name.value, "value": var.value.expose()})).collect();
    if !env.is_empty() {
        exec["env"] = env.into();
    }
    let mut fields = vec![("exec", exec)];
    let mut keep = |name, value: Value, is_set: bool| {
        if is_set {
            fields.push((name, value));
        }
    };
    keep("as", json!(old.impersonate.value), !old.impersonate.value.is_empty());
    keep("as-uid", json!(old.impersonate_uid.value), !old.impersonate_uid.value.is_empty());
    keep("as-groups", json!(old.impersonate_groups.value), !old.impersonate_groups.value.is_empty());
    keep("as-user-extra", json!(old.impersonate_user_extra.value), !old.impersonate_user_extra.value.is_empty());
    fields
}
