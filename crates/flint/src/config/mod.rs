//! The server's configuration, from a file, the environment and the command line; later sources take precedence.

mod keys;
mod load;
mod room;
mod sections;

pub(crate) use keys::{KEYS, Key};
pub(crate) use load::{Setting, load};
pub(crate) use room::Room;
pub(crate) use sections::{Config, LogWord, ServerConfig, SyncWord};
