//! Identity bindings: tokens that the cluster's API server issues for service accounts, under a separate SNI name.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use credlet_exec::Platform;
use credlet_http::{ConnectFuture, DirectRoute, HostPort, Route, TrustRoots};

use super::SCOPE;
use crate::azure::AccessToken;
use crate::oauth::{FILE_LIMIT, IdentityToken, TokenError, parse_token_response, read_text_file};
use credlet_http::fetch::{EndpointPolicy, FetchLimits, FetchRequest, HttpFetcher};

#[derive(Debug, Args)]
pub(super) struct IdentityBindings {
    /// SNI name under which the API server issues tokens of identity bindings
    #[arg(long, value_name = "NAME", requires = "ib_apiserver_ip", value_parser = name)]
    pub(super) ib_sni_name: Option<String>,
    /// Address or host name of the API server, with a port unless it is 443
    #[arg(long, value_name = "ADDRESS", requires = "ib_sni_name", value_parser = address)]
    ib_apiserver_ip: Option<ApiServerAddr>,
    /// Client id of service accounts without the annotation
    #[arg(long, value_name = "ID", requires = "ib_sni_name")]
    pub(super) ib_default_client_id: Option<String>,
    /// Tenant id of service accounts without the annotation
    #[arg(long, value_name = "ID", requires = "ib_sni_name")]
    pub(super) ib_default_tenant_id: Option<String>,
    /// PEM file of the API server's certificate authority
    #[arg(long, value_name = "FILE", default_value = "/etc/kubernetes/certs/ca.crt")]
    ib_ca_file: PathBuf,
}

/// The address to connect to, regardless of the host in the URL.
#[derive(Clone, Debug)]
struct ApiServerAddr(HostPort);

fn name(text: &str) -> Result<String, &'static str> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    let is_name = !text.is_empty() && text.bytes().all(is_letter);
    if is_name { Ok(text.to_owned()) } else { Err("must be a host name") }
}

fn address(text: &str) -> Result<ApiServerAddr, &'static str> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(ApiServerAddr(HostPort::new(&address.ip().to_string(), address.port())));
    }
    let is_address = text.parse::<IpAddr>().is_ok();
    if is_address || name(text).is_ok() {
        Ok(ApiServerAddr(HostPort::new(text, 443)))
    } else {
        Err("must be an address or a host name, optionally with a port")
    }
}

impl IdentityBindings {
    /// Requests a token for registries, of the identity that the service account is bound to.
    pub(super) async fn token(
        &self,
        client_id: &str,
        account: &IdentityToken,
        platform: &Platform,
    ) -> Result<AccessToken, TokenError> {
        const WHAT: &str = "identity binding token";
        let failed = |source| TokenError::Request { what: WHAT.to_owned(), source };
        let (Some(name), Some(address)) = (&self.ib_sni_name, &self.ib_apiserver_ip) else {
            return Err(TokenError::invalid_setting("--ib-sni-name", "requires --ib-apiserver-ip"));
        };
        let authority = read_text_file(&self.ib_ca_file, "certificate authority of the cluster", FILE_LIMIT)?;
        let limits = FetchLimits::default();
        let route = PinnedRoute { direct: DirectRoute::new(limits.connect), target: address.0.clone() };
        let fetcher = HttpFetcher::new(platform.clock.clone(), platform.env.clone())
            .with_roots(TrustRoots::Pem(authority.as_bytes().to_vec()))
            .with_route(Arc::new(route));
        let fields = [
            ("grant_type", "client_credentials"),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("scope", SCOPE),
            ("client_assertion", account.expose()),
            ("client_id", client_id),
        ];
        let requested_at = platform.clock.now();
        let request =
            FetchRequest::post_form(format!("https://{name}/"), &fields).policy(EndpointPolicy::https()).limits(limits);
        let response = fetcher.fetch(request).await.map_err(failed)?;
        Ok(parse_token_response(&response, WHAT, requested_at, |_| None)?.limit_expiry(account.expires()))
    }
}

#[derive(Debug)]
struct PinnedRoute {
    direct: DirectRoute,
    target: HostPort,
}

impl Route for PinnedRoute {
    fn connect<'a>(&'a self, _: &'a HostPort) -> ConnectFuture<'a> {
        self.direct.connect(&self.target)
    }
}
