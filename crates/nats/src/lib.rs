//! A NATS client for feeds: [`Receiver::open`] connects and subscribes, [`Receiver::next`] returns messages,
//! [`Receiver::done`] acknowledges them.
//!
//! A plain subject is at-most-once: messages sent without a listener are lost, as are those that arrive
//! faster than they are taken. A stream (JetStream) is at-least-once: it redelivers a message until it is
//! acknowledged, and its sequence number tells whether it was delivered before.
//!
//! The server connects on behalf of its users, so the operator restricts where to: [`Reach`]. Names are
//! resolved here, and the connection is made to an address that was checked; other addresses that servers
//! announce are ignored.

#![forbid(unsafe_code)]

mod certificate;
mod connect;
mod error;
mod heard;
mod line;
mod reach;
mod receiver;
mod stream;

pub use error::NatsError;
pub use reach::Reach;
pub use receiver::{Batch, Bounds, Message, Name, Receiver};
