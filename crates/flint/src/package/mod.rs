//! Packages code for a deploy: recognises it, packs it, applies its manifest.

mod archive;
pub(crate) mod contents;
mod kind;
mod manifest;
mod media;
mod request;
mod warmup;

pub(crate) use media::media_type;
pub(crate) use request::{Package, package};
