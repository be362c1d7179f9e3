//! A `.dockercfg` that whoever made the node has put into its metadata, or somewhere that its metadata names.

use std::collections::BTreeMap;

use credlet_api::image::{AuthConfig, DockerAuths};
use credlet_core::World;
use http::StatusCode;
use zeroize::Zeroizing;

use crate::gcp::Google;
use crate::oauth::Error;
use crate::web::{Ask, Plain, Web};

/// All credentials in it: a person has written down each registry.
pub(super) async fn fetch(
    google: &Google,
    world: &World,
    by_address: bool,
) -> Result<BTreeMap<String, AuthConfig>, Error> {
    const WHAT: &str = "the node's .dockercfg";
    let failed = |source| Error::Web { what: WHAT.to_owned(), source };
    if !by_address {
        let text = Zeroizing::new(google.metadata_value("instance/attributes/google-dockercfg").await?);
        return auths(text.as_bytes());
    }
    let address = google.metadata_value("instance/attributes/google-dockercfg-url").await?;
    if !address.starts_with("http") {
        return Err(Error::config("the node's attribute google-dockercfg-url", "is not an address"));
    }
    let answer = Web::new(world).fetch(Ask::get(address).plain(Plain::Anywhere)).await.map_err(failed)?;
    if answer.status != StatusCode::OK {
        return Err(failed(answer.nonsense("that is not the file")));
    }
    auths(answer.body())
}

fn auths(text: &[u8]) -> Result<BTreeMap<String, AuthConfig>, Error> {
    let auths = DockerAuths::from_dockercfg(text);
    auths.map(|auths| auths.0).map_err(|error| Error::config("in the node's metadata", error.to_string()))
}
