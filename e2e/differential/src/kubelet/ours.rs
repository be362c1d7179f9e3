use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use credlet_api::Secret;
use credlet_api::image::{ApiVersion, AuthConfig, CredentialProviderRequest, CredentialProviderResponse};
use credlet_image::{
    Config, ConfigError, Coordinates, ImageName, Keyring, Pattern, Reason, Target, account_key, cache_key, look_up,
};
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
            let config = match Config::read(Path::new(text("path"))) {
                Ok(config) => config,
                Err(error) => return fields(&error).map(|fields| json!({"error": "", "fields": fields})),
            };
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

/// Where the mistakes are, in the kubelet's words. `None`: it could not be read as far as that.
fn fields(error: &ConfigError) -> Option<BTreeSet<String>> {
    let path = |reason: &Reason| match reason {
        Reason::NoProviders => Some("providers".to_owned()),
        Reason::NoName | Reason::Name(_) | Reason::DuplicateName { .. } => Some("providers.name".to_owned()),
        Reason::NoVersion | Reason::UnknownVersion => Some("providers.apiVersion".to_owned()),
        Reason::NoMatchImages | Reason::MatchImage { .. } => Some("providers.matchImages".to_owned()),
        Reason::NoDuration | Reason::NegativeDuration => Some("providers.defaultCacheDuration".to_owned()),
        Reason::TokenNeedsV1 | Reason::BothRequiredAndOptional(_) => Some("providers.tokenAttributes".to_owned()),
        Reason::NoTokenAttribute(name) => Some(format!("providers.tokenAttributes.{name}")),
        Reason::UnknownCacheType => Some("providers.tokenAttributes.cacheType".to_owned()),
        Reason::RequiredOfNobody => Some("providers.tokenAttributes.requiredServiceAccountAnnotationKeys".to_owned()),
        Reason::AnnotationKey { list, .. } | Reason::DuplicateAnnotationKey { list, .. } => {
            Some(format!("providers.tokenAttributes.{list}"))
        }
        _ => None,
    };
    error.mistakes.iter().map(|mistake| path(&mistake.reason)).collect()
}
