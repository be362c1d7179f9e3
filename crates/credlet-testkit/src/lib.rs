//! Test parts.
