//! Functions as forks of a warmed-up snapshot: isolation `process`, start `fork`, reuse `never` and `warm`, contract `handler`.
//!
//! `runtime → function zygote → clone a call`: a [`tree::Tree`] is one revision of a function. It grows a [`zygote::Zygote`], a runtime
//! in a sandbox of its own that has loaded the function, was warmed up and is frozen; a start forks it. Nothing of a call is ever in
//! a zygote. A busy zygote keeps some [`standby`] clones forked ahead. See docs/snapshots.md and, for what separates clones, SECURITY.md.

#![forbid(unsafe_code)]

mod config;
mod demand;
mod executor;
mod growth;
mod instance;
mod record;
mod standby;
mod tally;
mod tree;
mod worth;
mod zygote;

pub use config::ForkConfig;
pub use executor::ForkExecutor;
