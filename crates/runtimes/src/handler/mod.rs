//! Contract `handler`: one of Flint's shims runs the user's function, and calls go over its link.

mod bring_up;
mod call;
mod candidate;
mod channel;
mod frozen;
mod hub;
mod inbox;
mod instance;
mod launch;
mod shared;
mod stream;
mod upload;

pub use bring_up::BringUp;
pub use candidate::{Candidate, NotFrozen};
pub use frozen::{Frozen, NotForked};
pub use instance::HandlerInstance;
pub use launch::Cell;
pub(crate) use launch::{launch, load};
pub use shared::SharedInstance;
