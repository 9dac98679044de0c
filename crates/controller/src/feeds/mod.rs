//! Feeds: what fires triggers by itself. [`lifecycle`] is how users make and change them, by calling a feed's action with a
//! `lifecycleEvent`; [`ring`] fires them when they are due, by the rules of [`turn`].

mod arguments;
mod config;
mod fire;
mod lifecycle;
mod ring;
mod schedule;
mod turn;

pub use config::{FeedsConfig, Missed};

pub(crate) use arguments::Alarm;
pub(crate) use lifecycle::Refused;

use tokio::sync::{Mutex, Notify};

/// What the controller keeps for them.
#[derive(Default)]
pub(crate) struct Feeding {
    /// Told when a feed was written: one may be due earlier than was known.
    pub(crate) changed: Notify,
    /// Held while feeds are fired, so that it is done by one at a time.
    pub(crate) firing: Mutex<()>,
}
