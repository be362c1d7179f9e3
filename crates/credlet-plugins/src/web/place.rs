//! Which places a secret may be sent to.

use std::net::{IpAddr, Ipv6Addr};

use credlet_client::conn::Server;

/// Where a request may go without TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plain {
    /// Nowhere.
    Never,
    /// To this machine itself, and to the metadata services on its link.
    #[default]
    Local,
    /// Anywhere, because a person has written this very address down.
    Anywhere,
}

impl Plain {
    pub(super) fn allows(self, host: &str) -> bool {
        match self {
            Self::Never => false,
            Self::Local => is_local(host),
            Self::Anywhere => true,
        }
    }
}

/// Loopback addresses, link-local ones, and the private addresses at which EC2 and EKS serve metadata.
pub(super) fn is_local(host: &str) -> bool {
    const AMAZON: [u16; 2] = [0xfd00, 0x0ec2];
    match host.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_link_local(),
        Ok(IpAddr::V6(address)) => {
            address == Ipv6Addr::LOCALHOST || address.is_unicast_link_local() || address.segments().starts_with(&AMAZON)
        }
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

/// The address that a redirect leads to, if that is on this very server.
pub(super) fn on_same_server(to: &str, server: &Server) -> Option<String> {
    if to.starts_with('/') && !to.starts_with("//") {
        return Some(to.to_owned());
    }
    let other = Server::parse(to).ok()?;
    let same = other.is_https() == server.is_https() && other.to_string().eq_ignore_ascii_case(&server.to_string());
    same.then(|| to.to_owned())
}

/// The host of what may not even be a URL, without a user's name, path or query.
pub(super) fn harmless_host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    credlet_api::visible(authority.rsplit('@').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_goes_in_the_clear_to_local_places_only() {
        for local in
            ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "localhost", "169.254.169.254", "fd00:ec2::254"]
        {
            assert!(Plain::Local.allows(local), "{local}");
        }
        for far in
            ["10.0.0.1", "sts.amazonaws.com", "localhost.example", "169.254.169.254.nip.io", "fd00::1", "0.0.0.0"]
        {
            assert!(!Plain::Local.allows(far), "{far}");
            assert!(Plain::Anywhere.allows(far));
        }
        assert!(!Plain::Never.allows("127.0.0.1"));
    }

    #[test]
    fn a_redirect_stays_on_its_server_or_is_refused() {
        let server = Server::parse("https://id.example").unwrap();
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
    fn of_a_bad_address_only_the_host_is_told() {
        assert_eq!(harmless_host("https://jane:hunter2@id.example:1/hunter2?hunter2"), "id.example:1");
        assert_eq!(harmless_host("hunter"), "hunter");
    }
}
