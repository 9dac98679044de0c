//! What an operator can configure about gates.

use std::time::Duration;

/// Limits of gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateConfig {
    /// The port on each sandbox's loopback.
    pub port: u16,
    /// Concurrent connections from one sandbox, or for each of the clones that share one. Further ones wait
    /// to be accepted.
    pub connections: usize,
    /// Concurrent connections through all gates together. One namespace gets at most half of them.
    pub max_connections: usize,
    /// How long a connection may stay idle, take to send a request's head, or leave an answer unread.
    pub idle: Duration,
    /// The largest request head in bytes; at least 8 KiB.
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
