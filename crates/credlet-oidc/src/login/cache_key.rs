//! Directory and file name of a stored login.

use std::path::{Path, PathBuf};

use aws_lc_rs::digest;
use credlet_exec::Env;
use credlet_exec::store::cache_dir;
use credlet_http::TrustRoots;

use super::settings::OidcSettings;

/// Returns the directory of stored logins: that of `--token-cache-dir`, else `credlet/oidc` in the user's
/// [cache directory](credlet_platform::dirs).
pub fn directory(given: Option<&Path>, env: &dyn Env) -> Option<PathBuf> {
    if let Some(given) = given {
        // kubelogin expands `~` too: in a kubeconfig no shell does.
        return match given.strip_prefix("~") {
            Ok(rest) => env.home_dir().map(|home| home.join(rest)),
            Err(_) => Some(given.to_owned()),
        };
    }
    cache_dir(env, "oidc")
}

/// The file name of a login: a digest of all settings that decide which token is issued, independent of the order of
/// flags. Clusters with the same settings share a login.
pub(super) fn name(settings: &OidcSettings) -> String {
    let mut sum = digest::Context::new(&digest::SHA256);
    // With the length, so that different lists never collide.
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
        if settings.is_interactive() { "person" } else { "client" },
    ]);
    match &settings.roots {
        TrustRoots::Pem(pem) => part(pem),
        TrustRoots::Unchecked => part(b"anybody"),
        _ => part(b""),
    }
    credlet_api::hex(sum.finish())
}

#[cfg(test)]
mod tests {
    use credlet_exec::FixedEnv;
    use credlet_platform::dirs::CACHE_IN_HOME;

    use super::super::{GrantType, OidcOptions};
    use super::*;

    fn options() -> OidcOptions {
        OidcOptions {
            issuer_url: Some("https://id.example".into()),
            client_id: Some("kube".into()),
            extra_scopes: vec!["email".into(), "groups".into()],
            auth_request_extra_params: vec!["a=1".into(), "b=2".into()],
            ..OidcOptions::default()
        }
    }

    fn named(options: &OidcOptions) -> String {
        name(&OidcSettings::new(options, &FixedEnv::default()).unwrap())
    }

    #[test]
    fn name_is_independent_of_flag_order_and_redirect() {
        let other = OidcOptions {
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
    fn name_depends_on_every_token_setting() {
        let others = [
            OidcOptions { issuer_url: Some("https://id.example/".into()), ..options() },
            OidcOptions { client_id: Some("kube2".into()), ..options() },
            OidcOptions { client_secret: Some("x".into()), ..options() },
            OidcOptions { extra_scopes: vec!["email".into()], ..options() },
            OidcOptions { auth_request_extra_params: vec!["a=1".into()], ..options() },
            OidcOptions { auth_request_extra_params: vec!["a=1b".into(), "=2".into()], ..options() },
            OidcOptions { request_headers: vec!["x=y".into()], ..options() },
            OidcOptions { use_access_token: true, ..options() },
            OidcOptions { insecure_skip_tls_verify: true, ..options() },
            OidcOptions { grant_type: GrantType::ClientCredentials, client_secret: Some("x".into()), ..options() },
        ];
        let mut names: Vec<_> = others.iter().map(named).chain([named(&options())]).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), others.len() + 1);
    }

    #[test]
    fn default_directory_is_in_the_user_cache() {
        let env = FixedEnv::new([("HOME", "/home/ada")]);
        assert_eq!(directory(None, &env).unwrap(), Path::new("/home/ada").join(CACHE_IN_HOME).join("credlet/oidc"));
        assert_eq!(directory(Some(Path::new("~/x")), &env).unwrap(), Path::new("/home/ada/x"));
        let env = FixedEnv::new([("XDG_CACHE_HOME", "/cache")]);
        assert_eq!(directory(None, &env).unwrap(), Path::new("/cache/credlet/oidc"));
        assert_eq!(directory(None, &FixedEnv::default()), None);
    }
}
