//! Messages from NATS, for feeds: [`Receiver::open`] connects and listens, [`Receiver::next`] gives what has come, [`Receiver::done`]
//! says that it is not needed again.
//!
//! A plain subject is heard or missed: what is sent while nobody listens is gone, and so is what comes faster than it is taken. A stream
//! (JetStream) keeps its messages; each is given until it is done, and its number says whether it was given before.
//!
//! Who connects is the server, on behalf of its users, so where to is the operator's to allow: [`Reach`]. Names are resolved here, and the
//! address that is connected to is one that was looked at; what servers say of other servers is not listened to.

#![forbid(unsafe_code)]

mod certificate;
mod connect;
mod error;
mod heard;
mod reach;
mod receiver;
mod stream;

pub use error::NatsError;
pub use reach::Reach;
pub use receiver::{Batch, Bounds, Message, Name, Receiver};
