//! Contract `handler`: one of Flint's shims calls the user's function; the link carries the calls.

mod call;
mod channel;
mod instance;
mod launch;
mod stream;
mod upload;

pub(crate) use instance::HandlerInstance;
pub(crate) use launch::{Cell, launch, load};
