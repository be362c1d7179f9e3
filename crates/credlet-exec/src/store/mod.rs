//! Tokens on disk between two runs: [`credlet_platform::store`], [`read_or_fetch`], encryption with a key from the keyring, and
//! the token cache of the cloud sources.

mod read_or_fetch;
mod seal;
mod token_cache;

#[doc(no_inline)]
pub use credlet_platform::store::*;

pub use self::read_or_fetch::read_or_fetch;
pub use self::seal::{SealError, Sealer};
pub use self::token_cache::{TokenCache, cache_dir, cache_key};

#[cfg(test)]
mod tests;
