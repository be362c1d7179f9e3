//! JSON and YAML as Kubernetes reads and writes them. Decoding errors name fields and positions and never quote a
//! value.

pub(crate) mod document;
pub mod duration;
pub(crate) mod error;
pub(crate) mod json;
pub(crate) mod timestamp;
pub(crate) mod tree;
pub(crate) mod version;
mod visit;
pub(crate) mod yaml;
