use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_client::conn::{self, Credential, Crypto};
use credlet_client::kubeconfig::{HeaderCredential, Identity};
use credlet_proxy::sign::{Signer, Signing};
use http::HeaderValue;
use zeroize::Zeroizing;

use super::told;
use crate::error::CliError;

/// What stands in the kubeconfig itself: a token, a password, a certificate.
#[derive(Debug)]
pub(super) struct Fixed(Credential);

impl Fixed {
    pub(super) fn of(identity: &Identity) -> Result<Self, CliError> {
        let text = identity.header.as_ref().and_then(|header| match &header.value {
            HeaderCredential::Token(token) => Some(Zeroizing::new(format!("Bearer {}", token.expose()))),
            HeaderCredential::Basic { username, password } => {
                let pair = Zeroizing::new(format!("{username}:{}", password.expose()));
                Some(Zeroizing::new(format!("Basic {}", STANDARD.encode(&*pair))))
            }
            _ => None,
        });
        let header = text.map(|text| HeaderValue::from_str(&text)).transpose();
        let mut header = header.map_err(|_| CliError::usage("the user's token does not fit into a header"))?;
        if let Some(header) = &mut header {
            header.set_sensitive(true);
        }
        let pair = identity
            .certificate
            .as_ref()
            .map(|pair| conn::Identity::from_pem(&pair.certificate.value, &pair.key.value, &Crypto::aws_lc_rs()));
        Ok(Self(Credential::new(1, header, pair.transpose().map_err(told)?)))
    }
}

impl Signer for Fixed {
    fn credential(&self) -> Signing<'_, Credential> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}
