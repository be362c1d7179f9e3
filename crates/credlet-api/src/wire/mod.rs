//! Reading and writing foreign documents to the byte, without ever quoting what is in them.

pub(crate) mod document;
pub(crate) mod duration;
pub(crate) mod fault;
pub(crate) mod json;
pub(crate) mod timestamp;
pub(crate) mod tree;
pub(crate) mod version;
mod visit;
pub(crate) mod yaml;
