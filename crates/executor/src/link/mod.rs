//! The protocol between Flint and a runtime shim, `docs/link-protocol.md`: frames, and the messages in them.

mod decoder;
mod frame;
mod message;

pub use decoder::Decoder;
pub use frame::{Frame, FrameKind, HEADER_LENGTH, LinkError, MAX_HEAD, MAX_PAYLOAD, WINDOW};
pub use message::{
    ErrorKind, Freeze, Hello, Init, InvokeHead, LinkFailure, Restore, ResultHead, encode_headed, split_headed,
};
