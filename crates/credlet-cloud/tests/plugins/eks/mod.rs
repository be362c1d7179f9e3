//! The EKS plugin and the AWS credential chain.

mod faults;
mod metadata;
mod profiles;
mod role_cache;
mod roles;
mod sso;
mod tokens;
