//! Signers for the exec proxy that need more than the proxy itself has: AWS's signatures, and keys in security modules; and
//! the bridge to it for clients that do not know it.

pub mod bridge;
#[cfg(feature = "pkcs11")]
pub mod pkcs11;
pub mod sigv4;
