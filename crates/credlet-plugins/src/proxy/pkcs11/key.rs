use std::fmt;
use std::sync::Arc;

use cryptoki::mechanism::MechanismType;
use rustls::sign::{Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

use super::Pkcs11Error;
use super::desk::Desk;
use super::mechanism::Kind;

/// The key, as the TLS stack wants to see it.
#[derive(Clone)]
pub(super) struct TokenKey {
    desk: Arc<Desk>,
    kind: Kind,
    schemes: Vec<SignatureScheme>,
}

impl TokenKey {
    pub(super) fn new(desk: Arc<Desk>, kind: Kind, mechanisms: &[MechanismType]) -> Result<Self, Pkcs11Error> {
        let schemes = kind.schemes(mechanisms);
        if schemes.is_empty() {
            return Err(Pkcs11Error::Key {
                reason: format!("is of the kind {kind:?}, with which the token cannot sign"),
            });
        }
        Ok(Self { desk, kind, schemes })
    }
}

impl SigningKey for TokenKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = *self.schemes.iter().find(|scheme| offered.contains(scheme))?;
        Some(Box::new(TokenSigner { desk: self.desk.clone(), scheme }))
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

/// One signature, to be made.
struct TokenSigner {
    desk: Arc<Desk>,
    scheme: SignatureScheme,
}

impl Signer for TokenSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        self.desk.sign(self.scheme, message).map_err(|error| rustls::Error::General(error.to_string()))
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
