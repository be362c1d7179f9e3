//! A cache around any exec plugin: `credlet cache [options] -- PLUGIN ARGS…`.
//!
//! kubectl runs a credential plugin for every command; most take a second of Python for a token that was good for
//! another quarter of an hour. This stands in front of one, and is never worse than without it: whatever is wrong with
//! the cache, the plugin is run and its answer passed on.
//!
//! **The path:** [`Options::parse`] reads the command line without a parser's weight → [`Call::new`] finds out who is
//! asked for what, and by whom ([`Key`]) → [`Call::hit`] answers from a file, without a lock, a runtime or a thread →
//! else [`Call::miss`]: lock, look again, run the plugin once for all who wait, keep its answer.
//!
//! **Three names to know:** [`Options`], [`Call`], [`Answer`].
//!
//! Beside each entry `<key>` lie `<key>.lock`, `<key>.calls` (who was served how often: a third call means that the
//! token was refused) and `<key>.failed` (the last failure, for those who waited and against storms of logins).

mod allow;
mod answer;
mod call;
pub(crate) mod calls;
mod entry;
mod failure;
mod hit;
mod identity;
mod key;
mod life;
mod list;
mod miss;
mod note;
mod options;
mod question;
mod tally;

pub use self::allow::AllowError;
pub use self::call::{Call, Mode};
pub use self::entry::Entry;
pub use self::hit::Hit;
pub use self::key::{Input, Key};
pub use self::list::{Listed, list, remove, remove_of};
pub use self::miss::Answer;
pub use self::note::Note;
pub use self::options::{Options, StormGuard, directory, parse_duration};
pub use self::question::Question;
pub use self::tally::Tally;
