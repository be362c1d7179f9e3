//! Tokens on disk between two runs: [`credlet_platform::store`], encryption with a key from the keyring, and the token cache of
//! the cloud sources.

mod seal;
mod token_cache;

#[doc(no_inline)]
pub use credlet_platform::store::*;

pub use self::seal::{SealError, Sealer};
pub use self::token_cache::{TokenCache, cache_key};

#[cfg(test)]
mod tests;
