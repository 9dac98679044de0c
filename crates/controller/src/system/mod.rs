//! What every server has: the packages of the namespace `whisk.system`, which OpenWhisk's users expect.
//!
//! They are part of the program. Nothing of them is stored, so nothing is to be installed, upgraded or backed up, and nobody can
//! change them; [`catalog`] shows them beside what users have stored. A function's code is written to the blob store when it is first
//! needed.

mod catalog;
mod contents;

pub(crate) use catalog::WithSystem;
pub(crate) use contents::code_of;

/// Whose they are. No user has a key for it.
pub(crate) const NAMESPACE: &str = "whisk.system";
