use std::fmt;
use std::sync::Arc;

use cryptoki::mechanism::MechanismType;
use rustls::sign::{Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

use super::Pkcs11Error;
use super::mechanism::KeyKind;
use super::worker::TokenWorkerHandle;

/// A private key of a token, for rustls.
#[derive(Clone)]
pub(super) struct TokenKey {
    worker: Arc<TokenWorkerHandle>,
    kind: KeyKind,
    schemes: Vec<SignatureScheme>,
}

impl TokenKey {
    pub(super) fn new(
        worker: Arc<TokenWorkerHandle>,
        kind: KeyKind,
        mechanisms: &[MechanismType],
    ) -> Result<Self, Pkcs11Error> {
        let schemes = kind.schemes(mechanisms);
        if schemes.is_empty() {
            return Err(Pkcs11Error::Key {
                reason: format!("of kind {kind:?} is unsupported by the token: no mechanism to sign with"),
            });
        }
        Ok(Self { worker, kind, schemes })
    }
}

impl SigningKey for TokenKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = *self.schemes.iter().find(|scheme| offered.contains(scheme))?;
        Some(Box::new(TokenSigner { worker: self.worker.clone(), scheme }))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.kind.algorithm()
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenKey({:?})", self.kind)
    }
}

/// Makes one signature.
struct TokenSigner {
    worker: Arc<TokenWorkerHandle>,
    scheme: SignatureScheme,
}

impl Signer for TokenSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        self.worker.sign(self.scheme, message).map_err(|error| rustls::Error::General(error.to_string()))
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

impl fmt::Debug for TokenSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenSigner({:?})", self.scheme)
    }
}
