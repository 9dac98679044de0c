//! A scripted executor on Tokio's clock, for tests of the pool and of the layers above it in paused time.
//!
//! It checks what it is asked for against the executor contract ([`Sim::violations`]): no call beyond the
//! slots, on a paused or stopped instance, or of another revision.

mod executor;
mod instance;
mod script;

pub use executor::{Seen, Sim, SimBlobs};
pub use script::{Answer, Script, function, job, key, never};
