//! Sharing something limited, so that nobody has all of it: [`Portions`] where whoever finds too little is refused,
//! [`Shares`] where it waits until there is some, [`Rounds`] where it gets some again and again.
//!
//! Whoever shares is known by a key: a `NamespaceName`, or a `str`.

#![forbid(unsafe_code)]

mod portions;
mod rounds;
mod shares;

pub use portions::Portions;
pub use rounds::{Place, Rounds, Turn};
pub use shares::{Share, Shares};
