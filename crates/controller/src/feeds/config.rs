//! Configuration of feeds.

use std::time::Duration;

use flint_invoker::units;
use flint_model::HostPattern;
use flint_nats::Reach;
use serde::{Deserialize, Serialize};

/// Keys `feeds.*`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FeedsConfig {
    /// How many triggers of a namespace may have a feed of `/whisk.system`.
    pub per_namespace: usize,
    /// How close two firings of an alarm may follow each other.
    #[serde(with = "units::duration")]
    pub min_interval: Duration,
    /// What becomes of the instants of an alarm that have passed while nothing could be fired.
    pub missed: Missed,
    /// How old the latest of them may be to be fired for.
    #[serde(with = "units::duration")]
    pub missed_window: Duration,
    /// Hosts whose NATS servers may be connected to; none: there are no feeds of messages.
    pub nats_hosts: Vec<HostPattern>,
    /// Whether they may be at addresses of this machine and its neighbours.
    pub nats_allow_private: bool,
    /// Connections to NATS at once, one for each trigger.
    pub nats_connections: usize,
    /// Those of one namespace.
    pub nats_connections_per_namespace: usize,
}

/// What becomes of instants that were missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Missed {
    /// One firing for all of them, that of the latest.
    #[default]
    Once,
    /// None.
    None,
}

impl Default for FeedsConfig {
    fn default() -> Self {
        Self {
            per_namespace: 100,
            min_interval: Duration::from_secs(1),
            missed: Missed::Once,
            missed_window: Duration::from_secs(3600),
            nats_hosts: Vec::new(),
            nats_allow_private: false,
            nats_connections: 256,
            nats_connections_per_namespace: 16,
        }
    }
}

impl FeedsConfig {
    /// What may be connected to.
    pub(crate) fn reach(&self) -> Reach {
        Reach { hosts: self.nats_hosts.clone(), private: self.nats_allow_private }
    }
}
