//! Allowed destinations of a request. Every request of the cloud plugins carries or returns a credential, so the check is
//! in one place.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::FetchError;
use crate::{ServerAddr, is_loopback};

/// Hosts that a request may be sent to. Default: any host over https, this machine over http.
///
/// Endpoints can be set by variables and files that a kubeconfig chooses (`exec.env`), so the policy depends on the secret:
/// a value that is bound to its audience or host (a signed request, an identity token) may be sent to any https host, a
/// bearer secret (a refresh token, a client secret) only to hosts of its issuer, see [`only`](Self::only).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointPolicy {
    plaintext: Plaintext,
    /// Domains allowed over https. `None`: all.
    domains: Option<Vec<String>>,
}

/// Hosts that may be reached over http.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plaintext {
    Never,
    Loopback,
    Metadata,
    LinkLocal,
}

impl Default for EndpointPolicy {
    fn default() -> Self {
        Self { plaintext: Plaintext::Loopback, domains: None }
    }
}

impl EndpointPolicy {
    /// Allows any host over https, and no host over http.
    pub fn https() -> Self {
        Self { plaintext: Plaintext::Never, domains: None }
    }

    /// Extends the default by http to the well-known addresses of the clouds' metadata services.
    pub fn metadata() -> Self {
        Self { plaintext: Plaintext::Metadata, domains: None }
    }

    /// Extends [`metadata`](Self::metadata) by http to every IPv4 link-local address. For metadata services with a
    /// configured address, and requests without a secret that is valid beyond this machine.
    pub fn link_local() -> Self {
        Self { plaintext: Plaintext::LinkLocal, domains: None }
    }

    /// Restricts https to these domains and their subdomains, and to the hosts that are allowed over http. For a secret
    /// that any recipient could use.
    #[must_use]
    pub fn only<D: Into<String>>(self, domains: impl IntoIterator<Item = D>) -> Self {
        Self { domains: Some(domains.into_iter().map(Into::into).collect()), ..self }
    }

    /// # Errors
    /// [`FetchError::InsecureScheme`] if the host requires https, [`FetchError::HostNotAllowed`] if it is not in an allowed
    /// domain.
    pub(super) fn check(&self, server: &ServerAddr) -> Result<(), FetchError> {
        let is_local = self.plaintext.allows(server.host());
        if is_local {
            return Ok(());
        }
        if !server.is_https() {
            return Err(FetchError::InsecureScheme { host: server.to_string() });
        }
        match &self.domains {
            Some(domains) if !domains.iter().any(|domain| is_within(server.host(), domain)) => {
                Err(FetchError::HostNotAllowed { host: server.to_string() })
            }
            _ => Ok(()),
        }
    }
}

impl Plaintext {
    fn allows(self, host: &str) -> bool {
        match self {
            Self::Never => false,
            Self::Loopback => is_loopback(host),
            Self::Metadata => is_loopback(host) || is_metadata(host),
            Self::LinkLocal => Self::Metadata.allows(host) || is_link_local(host),
        }
    }
}

/// Whether the host is this machine or a metadata service: neither is behind a proxy.
pub(super) fn is_local(host: &str) -> bool {
    Plaintext::LinkLocal.allows(host)
}

/// EC2, Azure and Compute Engine; ECS; EKS Pod TlsIdentity; then EC2, EKS Pod TlsIdentity and Compute Engine over IPv6. The name is
/// Google's for the first of them.
fn is_metadata(host: &str) -> bool {
    const ADDRESSES: [IpAddr; 6] = [
        IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
        IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
        IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254)),
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x23)),
        IpAddr::V6(Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x254)),
    ];
    match host.parse::<IpAddr>() {
        Ok(address) => ADDRESSES.contains(&address.to_canonical()),
        Err(_) => host.eq_ignore_ascii_case("metadata.google.internal"),
    }
}

/// 169.254.0.0/16, where Azure App Service and metadata proxies listen.
fn is_link_local(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|address| matches!(address.to_canonical(), IpAddr::V4(v4) if v4.is_link_local()))
}

/// Whether the host is the domain or a subdomain of it.
fn is_within(host: &str, domain: &str) -> bool {
    let host = host.to_ascii_lowercase();
    host.strip_suffix(&*domain.to_ascii_lowercase()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// The redirect target if it is on this server.
pub(super) fn on_same_server(location: &str, server: &ServerAddr) -> Option<String> {
    if location.starts_with('/') && !location.starts_with("//") {
        return Some(location.to_owned());
    }
    let other = ServerAddr::parse(location).ok()?;
    let same = other.is_https() == server.is_https() && other.to_string().eq_ignore_ascii_case(&server.to_string());
    same.then(|| location.to_owned())
}

/// The host of a possibly invalid URL for a message: without user info, path and query.
pub(super) fn host_for_message(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    credlet_api::escape_control_chars(authority.rsplit('@').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: [&str; 6] = [
        "http://127.0.0.1:1",
        "http://127.8.8.8",
        "http://[::1]:8080",
        "http://localhost:80",
        "http://LOCALHOST",
        "https://localhost",
    ];
    const METADATA: [&str; 6] = [
        "http://169.254.169.254",
        "http://169.254.170.2",
        "http://[fd00:ec2::254]",
        "http://[fd00:ec2::23]",
        "http://[::ffff:169.254.169.254]",
        "http://metadata.google.internal",
    ];
    const REMOTE: [&str; 14] = [
        "http://192.0.2.1",
        "http://10.0.0.1",
        "http://0.0.0.0",
        "http://[::]",
        "http://[::2]",
        "http://[fe80::1]",
        "http://[fd00:ec2::1]",
        "http://127.1",
        "http://2130706433",
        "http://localhost.",
        "http://localhost.example",
        "http://127.0.0.1.nip.io",
        "http://169.254.169.254.nip.io",
        "http://sts.amazonaws.com",
    ];

    fn allows(policy: &EndpointPolicy, url: &str) -> bool {
        // An invalid address is not allowed either.
        ServerAddr::parse(url).is_ok_and(|server| policy.check(&server).is_ok())
    }

    #[test]
    fn http_is_local_only() {
        let (default, metadata, link) =
            (EndpointPolicy::default(), EndpointPolicy::metadata(), EndpointPolicy::link_local());
        for url in LOOPBACK {
            assert!(allows(&default, url) && allows(&metadata, url), "{url}");
            assert_eq!(allows(&EndpointPolicy::https(), url), url.starts_with("https"), "{url}");
        }
        for url in METADATA {
            assert!(!allows(&default, url) && allows(&metadata, url) && allows(&link, url), "{url}");
        }
        for url in REMOTE {
            let policies = [&default, &metadata, &link, &EndpointPolicy::https()];
            assert!(policies.into_iter().all(|policy| !allows(policy, url)), "{url}");
        }
        // Another host in the same network segment may have such an address.
        let link_local = "http://169.254.66.66";
        assert!(!allows(&default, link_local) && !allows(&metadata, link_local) && allows(&link, link_local));
        assert!(allows(&default, "https://192.0.2.1") && allows(&EndpointPolicy::https(), "https://a.example"));
    }

    #[test]
    fn only_restricts_https_to_domains() {
        let policy = EndpointPolicy::default().only(["googleapis.com"]);
        for url in ["https://googleapis.com", "https://OAUTH2.googleapis.COM/token", "https://a.b.googleapis.com"] {
            assert!(allows(&policy, url), "{url}");
        }
        for url in [
            "https://evil.example",
            "https://evilgoogleapis.com",
            "https://googleapis.com.evil.example",
            "https://googleapis.com@evil.example",
            "https://192.0.2.1",
            "http://oauth2.googleapis.com",
            "http://169.254.169.254",
        ] {
            assert!(!allows(&policy, url), "{url}");
        }
        assert!(allows(&policy, "http://127.0.0.1:1") && allows(&policy, "https://localhost"));
        let nowhere = EndpointPolicy::metadata().only::<String>([]);
        assert!(allows(&nowhere, "http://169.254.169.254") && !allows(&nowhere, "https://evil.example"));
    }

    #[test]
    fn redirect_must_stay_on_the_server() {
        let server = ServerAddr::parse("https://id.example").unwrap();
        let followed = |to: &str| on_same_server(to, &server);
        assert_eq!(followed("/b?x"), Some("/b?x".into()));
        assert_eq!(followed("https://ID.example:443/b"), Some("https://ID.example:443/b".into()));
        for elsewhere in
            ["//evil.example/b", "https://evil.example", "http://id.example/", "https://id.example:8443/", "b", ""]
        {
            assert_eq!(followed(elsewhere), None, "{elsewhere}");
        }
    }

    #[test]
    fn message_shows_only_the_host() {
        assert_eq!(host_for_message("https://jane:hunter2@id.example:1/hunter2?hunter2"), "id.example:1");
        assert_eq!(host_for_message("hunter"), "hunter");
    }
}
