//! From a path to a deploy: what the code is, how it is packed, what its manifest says.

mod archive;
mod contents;
mod kind;
mod manifest;
mod request;

pub(crate) use request::{Package, package};
