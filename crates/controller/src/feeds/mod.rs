//! Feeds: sources of events that fire triggers. [`lifecycle`] creates and changes them through calls of a
//! feed's action with a `lifecycleEvent`; [`ring`] fires alarms when they are due, by the rules of [`turn`],
//! and [`receive`] fires on messages, in the listeners managed by [`listen`].

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

/// The controller's state for feeds.
#[derive(Default)]
pub(crate) struct Feeding {
    /// Notified when a feed was written: it may be due earlier than expected.
    changed: Notify,
    /// Collects written feeds, which may need a listener.
    listening: Changes,
    /// The states of the listeners' connections.
    connections: Connections,
    /// Held while feeds are fired, so that only one task fires.
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

/// Reads any arguments as the feeds' actions do; for fuzz targets.
#[cfg(feature = "fuzzing")]
pub fn fuzz_feed_arguments(given: &serde_json::Map<String, serde_json::Value>) {
    let config = FeedsConfig::default();
    let now = flint_model::Timestamp::from_millis(1_795_000_000_000);
    let arguments = arguments::Arguments { given, now, config: &config };
    let _ = (arguments.payload(), arguments.nats_source(&config.reach()));
    for alarm in [Alarm::Cron, Alarm::Interval, Alarm::Once] {
        let Ok(source) = arguments.source(alarm) else { continue };
        let schedule = schedule::Schedule::of(&source).ok().flatten().expect("an alarm has a schedule");
        let first = schedule.next(now).expect("a schedule that never fires is refused");
        assert!(first > now, "{source:?}");
        let _ = (schedule.latest(first), arguments.changed(&source));
    }
}
