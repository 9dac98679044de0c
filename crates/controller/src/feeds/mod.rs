//! Feeds: what fires triggers by itself. [`lifecycle`] is how users make and change them, by calling a feed's action with a
//! `lifecycleEvent`; [`ring`] fires them when they are due, by the rules of [`turn`],
//! and [`receive`] when messages come, for those that [`listen`] finds.

mod arguments;
mod changes;
mod config;
mod event;
mod fire;
mod lifecycle;
mod listen;
mod messaging;
mod receive;
mod ring;
mod schedule;
mod turn;

pub use config::{FeedsConfig, Missed};

pub(crate) use arguments::Alarm;
pub(crate) use lifecycle::{Refused, Which};

use changes::Changes;
use flint_model::{EntityPath, NamespaceName};
use listen::Connections;
use tokio::sync::{Mutex, Notify};

/// What the controller keeps for them.
#[derive(Default)]
pub(crate) struct Feeding {
    /// Told when a feed was written: one may be due earlier than was known.
    changed: Notify,
    /// Told the same: one may have to be listened to.
    listening: Changes,
    /// How it goes with those that are listened to.
    connections: Connections,
    /// Held while feeds are fired, so that it is done by one at a time.
    firing: Mutex<()>,
}

impl Feeding {
    /// To be called after a feed was written, or may have been deleted.
    pub(crate) fn tell(&self, trigger: &EntityPath) {
        self.changed.notify_one();
        self.listening.tell(trigger);
    }

    /// To be called after a namespace was deleted.
    pub(crate) fn tell_namespace(&self, namespace: &NamespaceName) {
        self.changed.notify_one();
        self.listening.tell_namespace(namespace);
    }
}
