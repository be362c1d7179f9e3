//! A cache around any exec plugin: `credlet cache [options] -- PLUGIN ARGS…`.
//!
//! kubectl runs a credential plugin for every command, and many plugins take a second to print a token that would have been
//! valid for another quarter of an hour. The cache stores the plugin's output and prints it until shortly before the
//! credential expires. It fails open: if the cache cannot be used, the plugin is run and its output passed on.
//!
//! [`CacheOptions::parse`] reads the command line without clap. [`CacheInvocation::new`] looks up the plugin and computes the
//! [`CacheKey`]. [`CacheInvocation::hit`] serves a stored entry without a lock, an async runtime or a thread.
//! [`CacheInvocation::miss`] takes the lock, checks the entry again, runs the plugin once for all waiting processes and stores
//! its output; it returns a [`CacheResponse`].
//!
//! Beside each entry `<key>` are `<key>.lock`, `<key>.calls` (calls per client process and [`CacheStats`]; a third call means
//! that the server rejected the token, see [`rejection`]), `<key>.failed` (the last failure, for callers that waited for it and
//! to limit repeated logins) and `<key>.inputs` (fingerprints of the key's parts, for [`compare`]). The secret that keys are
//! computed with is part of the user's state: [`invalidate_all`] removes it and thereby invalidates all entries.

mod allow;
mod compare;
mod entry;
mod failure;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod hit;
mod identity_files;
mod invocation;
mod key;
mod lifetime;
mod listing;
mod miss;
mod options;
mod output;
mod protection;
pub mod rejection;
mod request;
mod state;
mod stats;
mod warning;
mod working_dir;

pub use self::allow::CacheAllowError;
pub use self::compare::{EntryComparison, KeyDifference, compare};
pub use self::entry::CacheEntry;
pub use self::hit::CacheHit;
pub use self::invocation::{CacheInvocation, CacheMode};
pub use self::key::{CacheKey, KeyPart};
pub use self::listing::{ListedEntry, list, remove, remove_for_cluster};
pub use self::miss::CacheResponse;
pub use self::options::{CacheOptions, StormGuard, directory};
pub use self::request::CacheRequest;
pub use self::state::{CacheInvalidateError, invalidate_all, known_directories};
pub use self::stats::CacheStats;
pub use self::warning::CacheWarning;
