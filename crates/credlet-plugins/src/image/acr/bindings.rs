//! Identity bindings: the cluster's own API server vouches for service accounts, under another name than its usual one.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use credlet_api::Secret;
use credlet_client::conn::{Connecting, Direct, Roots, Route, Target};
use credlet_core::World;

use super::SCOPE;
use crate::azure::AccessToken;
use crate::oauth::{Error, file, granted};
use crate::web::{Ask, Limits, Plain, Web};

#[derive(Debug, Args)]
pub(super) struct Bindings {
    /// The name under which the API server gives out tokens of identity bindings
    #[arg(long, value_name = "NAME", requires = "ib_apiserver_ip", value_parser = name)]
    pub(super) ib_sni_name: Option<String>,
    /// Where the API server is: an address or a name, and a port if it is not 443
    #[arg(long, value_name = "ADDRESS", requires = "ib_sni_name", value_parser = address)]
    ib_apiserver_ip: Option<Address>,
    /// The identity of service accounts that name none
    #[arg(long, value_name = "ID", requires = "ib_sni_name")]
    pub(super) ib_default_client_id: Option<String>,
    /// The tenant of service accounts that name none
    #[arg(long, value_name = "ID", requires = "ib_sni_name")]
    pub(super) ib_default_tenant_id: Option<String>,
    /// Whom to believe that it is the API server
    #[arg(long, value_name = "FILE", default_value = "/etc/kubernetes/certs/ca.crt")]
    ib_ca_file: PathBuf,
}

/// Where to connect to, whatever a URL says.
#[derive(Clone, Debug)]
struct Address(Target);

fn name(text: &str) -> Result<String, &'static str> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    let is_name = !text.is_empty() && text.bytes().all(is_letter);
    if is_name { Ok(text.to_owned()) } else { Err("it is the name of a host, and nothing else") }
}

fn address(text: &str) -> Result<Address, &'static str> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(Address(Target::new(&address.ip().to_string(), address.port())));
    }
    let is_address = text.parse::<IpAddr>().is_ok();
    if is_address || name(text).is_ok() { Ok(Address(Target::new(text, 443))) } else { Err("it is no address") }
}

impl Bindings {
    /// A token for registries, of the identity that this service account is bound to.
    pub(super) async fn token(&self, client_id: &str, account: &Secret, world: &World) -> Result<AccessToken, Error> {
        const WHAT: &str = "a token of the service account's identity binding";
        let failed = |source| Error::Web { what: WHAT.to_owned(), source };
        let (Some(name), Some(address)) = (&self.ib_sni_name, &self.ib_apiserver_ip) else {
            return Err(Error::config("--ib-sni-name", "needs --ib-apiserver-ip"));
        };
        let authority = file(&self.ib_ca_file, "the cluster's certificate authority")?;
        let limits = Limits::default();
        let route = Elsewhere { direct: Direct::new(limits.connect), target: address.0.clone() };
        let web = Web::new(world).with_roots(Roots::Pem(authority.as_bytes().to_vec())).with_route(Arc::new(route));
        let fields = [
            ("grant_type", "client_credentials"),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("scope", SCOPE),
            ("client_assertion", account.expose()),
            ("client_id", client_id),
        ];
        let asked_at = world.clock.now();
        let ask = Ask::post_form(format!("https://{name}/"), &fields).plain(Plain::Never).limits(limits);
        let answer = web.fetch(ask).await.map_err(failed)?;
        granted(&answer, WHAT, asked_at, |_| None)
    }
}

#[derive(Debug)]
struct Elsewhere {
    direct: Direct,
    target: Target,
}

impl Route for Elsewhere {
    fn connect<'a>(&'a self, _: &'a Target) -> Connecting<'a> {
        self.direct.connect(&self.target)
    }
}
