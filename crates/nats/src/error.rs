//! The errors of this crate.

/// Why there are no messages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NatsError {
    /// The operator allows no connections.
    #[error("this server makes no connections to NATS: its operator allows hosts with feeds.nats_hosts")]
    Off,
    /// The operator does not allow connections to this host.
    #[error("connections to {0} are not allowed: the operator allows hosts with feeds.nats_hosts")]
    NotAllowed(String),
    /// The host is, or resolves to, an address of this machine or its private network.
    #[error(
        "{0} has no public address, and connections to others are not allowed: the operator may allow them with feeds.nats_allow_private"
    )]
    NotPublic(String),
    /// The name does not resolve.
    #[error("the name {0} has no address")]
    NoAddress(String),
    /// No server could be used.
    #[error("no server can be used: {0}")]
    NoServer(String),
    /// Credentials or certificates are malformed.
    #[error("{0}")]
    Invalid(String),
    /// The stream does not exist or cannot be used.
    #[error("the stream '{stream}' cannot be read: {why}")]
    Stream {
        /// Its name.
        stream: String,
        /// What the server says.
        why: String,
    },
    /// The connection has ended.
    #[error("the connection has ended: {0}")]
    Ended(String),
}
