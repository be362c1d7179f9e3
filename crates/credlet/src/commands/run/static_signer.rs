use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_http::{CryptoBackend, HttpCredential};
use credlet_kubeconfig::{HeaderCredential, UserCredentials};
use credlet_proxy::sign::{SignFuture, Signer};
use http::HeaderValue;
use zeroize::Zeroizing;

use super::usage_error;
use crate::error::CliError;

/// Signs with the token, password or certificate in the kubeconfig.
#[derive(Debug)]
pub(super) struct StaticSigner(HttpCredential);

impl StaticSigner {
    pub(super) fn of(identity: &UserCredentials) -> Result<Self, CliError> {
        let text = identity.header.as_ref().and_then(|header| match &header.value {
            HeaderCredential::Token(token) => Some(Zeroizing::new(format!("Bearer {}", token.expose()))),
            HeaderCredential::Basic { username, password } => {
                let pair = Zeroizing::new(format!("{username}:{}", password.expose()));
                Some(Zeroizing::new(format!("Basic {}", STANDARD.encode(&*pair))))
            }
            _ => None,
        });
        let header = text.map(|text| HeaderValue::from_str(&text)).transpose();
        let mut header = header.map_err(|_| CliError::usage("the user's token is not valid in a header"))?;
        if let Some(header) = &mut header {
            header.set_sensitive(true);
        }
        let pair = identity.certificate.as_ref().map(|pair| {
            credlet_http::TlsIdentity::from_pem(&pair.certificate.value, &pair.key.value, &CryptoBackend::aws_lc_rs())
        });
        Ok(Self(HttpCredential::new(1, header, pair.transpose().map_err(usage_error)?)))
    }
}

impl Signer for StaticSigner {
    fn credential(&self) -> SignFuture<'_, HttpCredential> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}
