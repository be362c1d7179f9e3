//! Where a login is kept, and under which name.

use std::path::{Path, PathBuf};

use aws_lc_rs::digest;
use credlet_client::conn::Roots;
use credlet_core::Env;

use super::settings::Settings;

/// The flag's directory, or the person's own cache. `None`: there is none of either.
pub fn directory(given: Option<&Path>, env: &dyn Env) -> Option<PathBuf> {
    if let Some(given) = given {
        // As shells do, and kubelogin: a kubeconfig knows no shell.
        return match given.strip_prefix("~") {
            Ok(rest) => env.home_dir().map(|home| home.join(rest)),
            Err(_) => Some(given.to_owned()),
        };
    }
    let cache = env.var("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    Some(cache.or_else(|| Some(env.home_dir()?.join(".cache")))?.join("credlet").join("oidc"))
}

/// The name of a login: the same for the same login, whatever the order of its flags, and another one if anything
/// differs that decides which token comes out. Clusters that share a login share its name.
pub(super) fn name(settings: &Settings) -> String {
    let mut sum = digest::Context::new(&digest::SHA256);
    // The length first: else two parts could be cut in two ways.
    let mut part = |bytes: &[u8]| {
        sum.update(&(bytes.len() as u64).to_be_bytes());
        sum.update(bytes);
    };
    let mut list = |parts: &[&str]| {
        part(&(parts.len() as u64).to_be_bytes());
        parts.iter().for_each(|text| part(text.as_bytes()));
    };
    list(&["credlet oidc login 1", &settings.issuer, &settings.client_id, settings.client_secret.expose()]);
    list(&settings.scopes.iter().map(String::as_str).collect::<Vec<_>>());
    list(&settings.extra_params.iter().flat_map(|(name, value)| [name.as_str(), value]).collect::<Vec<_>>());
    list(&settings.headers.iter().flat_map(|(name, value)| [name.as_str(), value.expose()]).collect::<Vec<_>>());
    list(&[
        if settings.use_access_token { "access token" } else { "id token" },
        if settings.needs_person() { "person" } else { "client" },
    ]);
    match &settings.roots {
        Roots::Pem(pem) => part(pem),
        Roots::Unchecked => part(b"anybody"),
        _ => part(b""),
    }
    sum.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use credlet_core::FixedEnv;

    use super::super::{GrantType, Options};
    use super::*;

    fn options() -> Options {
        Options {
            issuer_url: Some("https://id.example".into()),
            client_id: Some("kube".into()),
            extra_scopes: vec!["email".into(), "groups".into()],
            auth_request_extra_params: vec!["a=1".into(), "b=2".into()],
            ..Options::default()
        }
    }

    fn named(options: &Options) -> String {
        name(&Settings::new(options, &FixedEnv::default()).unwrap())
    }

    #[test]
    fn the_order_of_flags_and_where_the_browser_comes_back_to_mean_nothing() {
        let other = Options {
            extra_scopes: vec!["groups,email".replace(',', " ")],
            auth_request_extra_params: vec!["b=2".into(), "a=1".into()],
            listen_address: vec!["127.0.0.1:9".into()],
            skip_open_browser: true,
            grant_type: GrantType::DeviceCode,
            ..options()
        };
        assert_eq!(named(&options()), named(&other));
    }

    #[test]
    fn whatever_decides_the_token_is_in_the_name() {
        let others = [
            Options { issuer_url: Some("https://id.example/".into()), ..options() },
            Options { client_id: Some("kube2".into()), ..options() },
            Options { client_secret: Some("x".into()), ..options() },
            Options { extra_scopes: vec!["email".into()], ..options() },
            Options { auth_request_extra_params: vec!["a=1".into()], ..options() },
            Options { auth_request_extra_params: vec!["a=1b".into(), "=2".into()], ..options() },
            Options { request_headers: vec!["x=y".into()], ..options() },
            Options { use_access_token: true, ..options() },
            Options { insecure_skip_tls_verify: true, ..options() },
            Options { grant_type: GrantType::ClientCredentials, client_secret: Some("x".into()), ..options() },
        ];
        let mut names: Vec<_> = others.iter().map(named).chain([named(&options())]).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), others.len() + 1);
    }

    #[test]
    fn tokens_lie_in_the_persons_cache() {
        let env = FixedEnv::new([("HOME", "/home/ada")]);
        assert_eq!(directory(None, &env).unwrap(), Path::new("/home/ada/.cache/credlet/oidc"));
        assert_eq!(directory(Some(Path::new("~/x")), &env).unwrap(), Path::new("/home/ada/x"));
        let env = FixedEnv::new([("XDG_CACHE_HOME", "/cache")]);
        assert_eq!(directory(None, &env).unwrap(), Path::new("/cache/credlet/oidc"));
        assert_eq!(directory(None, &FixedEnv::default()), None);
    }
}
