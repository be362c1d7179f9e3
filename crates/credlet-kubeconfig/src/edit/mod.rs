//! Edits kubeconfigs in place.
//!
//! Users keep comments, anchors and their own order in a kubeconfig, so it is edited and not rewritten. `document` finds the
//! byte ranges of the nodes of YAML or JSON; `text_edit` replaces, inserts or removes ranges and keeps all other bytes. On top
//! are the edits:
//!
//! - [`wrap`] and [`unwrap`] put `credlet cache` in front of an exec plugin, and remove it;
//! - [`set_auth_provider_value`] replaces a token of a legacy `auth-provider`;
//! - [`replace_section`] and [`restore_section`] replace a whole cluster or user.
//!
//! The first two return a text only if its decoded form equals that of the old one except for the intended change: a node that
//! another entry shares through an anchor is not edited. [`save`] and [`KubeconfigLock`] write the file.

mod auth_provider;
mod cache_wrap;
mod document;
mod save;
mod section;
mod text_edit;

pub use self::auth_provider::set_auth_provider_value;
pub use self::cache_wrap::{EditError, ExecUser, exec_users, unwrap, wrap};
pub use self::save::{KubeconfigLock, SaveError, save, save_with_backup};
pub use self::section::{Section, SectionError, replace_section, restore_section};
