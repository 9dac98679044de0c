//! Contract `handler`: one of Flint's shims calls the user's function; the link carries the calls.

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

use std::time::Duration;

pub use bring_up::BringUp;
pub use candidate::{Candidate, NotFrozen};
pub use frozen::{Frozen, NotForked};
pub use instance::HandlerInstance;
pub use launch::Cell;
pub(crate) use launch::{launch, load};
pub use shared::SharedInstance;

/// What no call waits for takes the processor from nothing for so long at most, so that it is made in time also on a host that is never idle.
pub const LONGEST_IN_BACKGROUND: Duration = Duration::from_secs(1);
