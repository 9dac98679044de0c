//! The minimal root file system that every sandbox shares, read-only.
//!
//! A [`Template`] is a mount namespace of its own whose `/` already is that root. A sandbox enters it and unshares: it copies some
//! ten mounts instead of the host's whole table, and the host's root is not there to be detached.

mod etc;
mod kind;
mod targets;
mod template;

pub(crate) use etc::name_servers;
pub(crate) use kind::RootKind;
pub(crate) use template::Template;
