//! Functions as forks of a warmed-up snapshot: isolation `process`, start `fork`, reuse `never` and `warm`, contract `handler`.
//!
//! `runtime → zygote of the function → clone per call`: a [`tree::Tree`] is one revision of a function. It
//! makes a [`zygote::Zygote`], a runtime in a sandbox of its own that has loaded the function, was warmed up
//! and is frozen; a start forks it. A zygote never contains anything of a call. A busy zygote keeps some
//! [`standby`] clones forked ahead. See docs/snapshots.md and, for the separation of clones, SECURITY.md.

#![forbid(unsafe_code)]

mod config;
mod demand;
mod executor;
mod growth;
mod instance;
mod permits;
mod record;
mod standby;
mod succession;
mod tally;
mod tree;
mod worth;
mod zygote;

pub use config::ForkConfig;
pub use executor::ForkExecutor;
