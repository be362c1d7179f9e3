//! Command lines of the built-in plugins.

pub(crate) mod oidc;
