//! A scripted executor on Tokio's clock: for tests of the pool and of what stands above it, which run in paused time.
//!
//! It checks on its instances what the executor contract promises to be asked for ([`Sim::violations`]): no call beyond the slots, none
//! on a paused or stopped instance, none of another revision.

mod executor;
mod instance;
mod script;

pub use executor::{Seen, Sim, SimBlobs};
pub use script::{Answer, Script, function, job, key, never};
