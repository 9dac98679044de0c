//! The built-in packages of the namespace `whisk.system`, which OpenWhisk's users expect on every server.
//!
//! They are part of the binary and are not stored, so nothing has to be installed, upgraded or backed up, and
//! nobody can change them; [`catalog`] shows them beside the stored entities. A function's code is written to
//! the blob store when first needed.

mod catalog;
mod contents;

pub(crate) use catalog::WithSystem;
pub(crate) use contents::code_of;

/// Their namespace. No user has a key for it.
pub(crate) const NAMESPACE: &str = "whisk.system";
