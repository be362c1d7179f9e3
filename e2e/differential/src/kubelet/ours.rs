use std::collections::BTreeMap;
use std::path::Path;

use credlet_api::Secret;
use credlet_api::image::{ApiVersion, AuthConfig, CredentialProviderRequest, CredentialProviderResponse};
use credlet_image::{Config, Coordinates, ImageName, Keyring, Pattern, Target, account_key, cache_key, look_up};
use serde_json::{Value, json};

use super::Kubelet;

/// Our answer. `None`: refused.
pub(super) fn answer(about: Kubelet, query: &Value) -> Option<Value> {
    let text = |name: &str| query[name].as_str().unwrap_or_default();
    let annotations = || -> BTreeMap<String, String> {
        let members = query["annotations"].as_object().into_iter().flatten();
        members.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
    };
    let version = || format!("credentialprovider.kubelet.k8s.io/{}", text("version")).parse::<ApiVersion>().ok();
    Some(match about {
        Kubelet::Name => {
            let name: ImageName = text("image").parse().ok()?;
            // The kubelet says "latest" where nobody says anything.
            let tag = name.tag().unwrap_or(if name.digest().is_none() { "latest" } else { "" });
            json!({"name": name.as_str(), "tag": tag, "digest": name.digest().unwrap_or_default()})
        }
        Kubelet::Match => {
            let (pattern, target) = (Pattern::parse(text("pattern")), Target::parse(text("image")));
            json!({"matched": pattern.is_ok_and(|pattern| target.is_ok_and(|target| pattern.matches(&target)))})
        }
        Kubelet::Keyring => {
            let keys = query["keys"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let auth = |number: usize| AuthConfig { username: number.to_string(), ..AuthConfig::default() };
            let keyring = Keyring::new(keys.enumerate().map(|(number, key)| (key, auth(number))));
            let users: Vec<_> =
                look_up(&[&keyring], text("image")).iter().map(|found| found.auth.username.clone()).collect();
            json!({"users": users})
        }
        Kubelet::Config => {
            let config = Config::read(Path::new(text("path"))).ok()?;
            json!({"providers": config.providers.iter().map(|provider| &provider.name).collect::<Vec<_>>(), "hash": config.hash})
        }
        Kubelet::Request => {
            let request = CredentialProviderRequest {
                version: version()?,
                image: text("image").to_owned(),
                service_account_token: Some(text("token")).filter(|token| !token.is_empty()).map(Secret::from),
                service_account_annotations: annotations(),
            };
            json!({"text": &**request.encode()})
        }
        Kubelet::Response => {
            let (response, _) = CredentialProviderResponse::decode(text("answer").as_bytes(), version()?).ok()?;
            let auth = |(key, auth): (&String, &AuthConfig)| json!([key, auth.username, auth.password.expose()]);
            let mut answer = json!({
                "cacheKeyType": response.cache_key_type.as_str(),
                "auth": response.auth.iter().map(auth).collect::<Vec<_>>(),
            });
            if let Some(lifetime) = response.cache_duration {
                answer["nanoseconds"] = u64::try_from(lifetime.as_nanos()).ok()?.into();
            }
            answer
        }
        Kubelet::Key => {
            let account = Coordinates {
                namespace: text("namespace").to_owned(),
                name: text("account").to_owned(),
                uid: text("uid").to_owned(),
            };
            let token = Secret::from(text("token"));
            let account = account_key(&account, &annotations(), (query["byToken"] == true).then_some(&token)).ok()?;
            let key = cache_key(text("image"), &account).ok()?;
            json!({"key": key.iter().map(|byte| format!("{byte:02x}")).collect::<String>()})
        }
    })
}
