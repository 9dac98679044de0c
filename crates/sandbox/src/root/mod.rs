//! The minimal root file system that every sandbox shares, read-only.
//!
//! A [`Template`] is a mount namespace whose `/` is that root already. A sandbox enters and unshares it,
//! which copies some ten mounts instead of the host's whole table, and leaves no old root to detach.

mod etc;
mod kind;
mod targets;
mod template;

pub(crate) use etc::name_servers;
pub(crate) use kind::RootKind;
pub(crate) use template::Template;
