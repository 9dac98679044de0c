//! What an operator can set.

use std::time::Duration;

/// Bounds of gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateConfig {
    /// Where a gate listens on its sandbox's loopback.
    pub port: u16,
    /// Connections at once from one sandbox, or from each of the clones that share one. Further ones wait to be accepted.
    pub connections: usize,
    /// Connections at once through all gates together, of which those of one account take at most half.
    pub max_connections: usize,
    /// How long a connection may stay idle, take to send a request's head, or leave an answer unread.
    pub idle: Duration,
    /// The largest head of a request, in bytes; at least 8 KiB.
    pub max_header: usize,
}

impl Default for GateConfig {
    fn default() -> Self {
        Self {
            port: 3233,
            connections: 64,
            max_connections: 4096,
            idle: Duration::from_secs(15),
            max_header: 64 << 10,
        }
    }
}
