//! Sharing something limited, so that nobody has all of it: [`Portions`] where whoever finds too little is refused,
//! [`Shares`] where it waits for its turn.
//!
//! Whoever shares is known by a key: a `NamespaceName`, or a `str`.

#![forbid(unsafe_code)]

mod portions;
mod shares;

pub use portions::Portions;
pub use shares::{Share, Shares};
