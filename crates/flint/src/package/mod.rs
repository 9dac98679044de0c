//! From a path to a deploy: what the code is, how it is packed, what its manifest says.

mod archive;
pub(crate) mod contents;
mod kind;
mod manifest;
mod media;
mod request;
mod warmup;

pub(crate) use media::media_type;
pub(crate) use request::{Package, package};
