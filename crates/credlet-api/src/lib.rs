//! What crosses a process boundary.

mod secret;

pub use secret::Secret;
