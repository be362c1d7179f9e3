use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use credlet_api::Secret;
use credlet_api::image::{AuthConfig, CredentialProviderRequest, CredentialProviderResponse, ProviderApiVersion};
use credlet_image::{
    ConfigError, DockerKeyring, ImageName, ImagePattern, ImageProvidersConfig, MatchTarget, ProviderConfigFault,
    ServiceAccountRef, account_key, cache_key, look_up,
};
use serde_json::{Value, json};

use super::KubeletComparison;

/// Returns credlet's result. `None`: rejected.
pub(super) fn answer(about: KubeletComparison, query: &Value) -> Option<Value> {
    let text = |name: &str| query[name].as_str().unwrap_or_default();
    let annotations = || -> BTreeMap<String, String> {
        let members = query["annotations"].as_object().into_iter().flatten();
        members.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
    };
    let version =
        || format!("credentialprovider.kubelet.k8s.io/{}", text("version")).parse::<ProviderApiVersion>().ok();
    Some(match about {
        KubeletComparison::Name => {
            let name: ImageName = text("image").parse().ok()?;
            // The kubelet adds the tag "latest" if there is none.
            let tag = name.tag().unwrap_or(if name.digest().is_none() { "latest" } else { "" });
            json!({"name": name.as_str(), "tag": tag, "digest": name.digest().unwrap_or_default()})
        }
        KubeletComparison::Match => {
            let (pattern, target) = (ImagePattern::parse(text("pattern")), MatchTarget::parse(text("image")));
            json!({"matched": pattern.is_ok_and(|pattern| target.is_ok_and(|target| pattern.matches(&target)))})
        }
        KubeletComparison::Keyring => {
            let keys = query["keys"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let auth = |number: usize| AuthConfig { username: number.to_string(), ..AuthConfig::default() };
            let keyring = DockerKeyring::new(keys.enumerate().map(|(number, key)| (key, auth(number))));
            let users: Vec<_> =
                look_up(&[&keyring], text("image")).iter().map(|found| found.auth.username.clone()).collect();
            json!({"users": users})
        }
        KubeletComparison::Config => {
            let config = match ImageProvidersConfig::read(Path::new(text("path"))) {
                Ok(config) => config,
                Err(error) => return fields(&error).map(|fields| json!({"error": "", "fields": fields})),
            };
            json!({"providers": config.providers.iter().map(|provider| &provider.name).collect::<Vec<_>>(), "hash": config.hash})
        }
        KubeletComparison::Request => {
            let request = CredentialProviderRequest {
                version: version()?,
                image: text("image").to_owned(),
                service_account_token: Some(text("token")).filter(|token| !token.is_empty()).map(Secret::from),
                service_account_annotations: annotations(),
            };
            json!({"text": &**request.encode()})
        }
        KubeletComparison::Response => {
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
        KubeletComparison::Key => {
            let account = ServiceAccountRef {
                namespace: text("namespace").to_owned(),
                name: text("account").to_owned(),
                uid: text("uid").to_owned(),
            };
            let token = Secret::from(text("token"));
            let account = account_key(&account, &annotations(), (query["byToken"] == true).then_some(&token)).ok()?;
            let key = cache_key(text("image"), &account).ok()?;
            json!({"key": credlet_api::hex(key)})
        }
    })
}

/// The fields with errors, in the kubelet's notation. `None`: decoding failed before validation.
fn fields(error: &ConfigError) -> Option<BTreeSet<String>> {
    let path = |reason: &ProviderConfigFault| match reason {
        ProviderConfigFault::NoProviders => Some("providers".to_owned()),
        ProviderConfigFault::NoName | ProviderConfigFault::Name(_) | ProviderConfigFault::DuplicateName { .. } => {
            Some("providers.name".to_owned())
        }
        ProviderConfigFault::NoVersion | ProviderConfigFault::UnknownVersion => Some("providers.apiVersion".to_owned()),
        ProviderConfigFault::NoMatchImages | ProviderConfigFault::MatchImage { .. } => {
            Some("providers.matchImages".to_owned())
        }
        ProviderConfigFault::NoDuration | ProviderConfigFault::NegativeDuration => {
            Some("providers.defaultCacheDuration".to_owned())
        }
        ProviderConfigFault::TokenNeedsV1 | ProviderConfigFault::BothRequiredAndOptional(_) => {
            Some("providers.tokenAttributes".to_owned())
        }
        ProviderConfigFault::NoTokenAttribute(name) => Some(format!("providers.tokenAttributes.{name}")),
        ProviderConfigFault::UnknownCacheType => Some("providers.tokenAttributes.cacheType".to_owned()),
        ProviderConfigFault::AnnotationsWithoutAccount => {
            Some("providers.tokenAttributes.requiredServiceAccountAnnotationKeys".to_owned())
        }
        ProviderConfigFault::AnnotationKey { list, .. } | ProviderConfigFault::DuplicateAnnotationKey { list, .. } => {
            Some(format!("providers.tokenAttributes.{list}"))
        }
        _ => None,
    };
    error.problems.iter().map(|problem| path(&problem.reason)).collect()
}
