//! Work that takes a while, such as parsing megabytes, done off the async threads: of these there may be one, which
//! serves everybody.

use flint_model::NamespaceName;
use flint_shares::Shares;

use crate::{Controller, ControllerError};

/// Pieces of work at once: each takes a processor, and may take memory.
const AT_ONCE: u32 = 4;
/// Of one namespace, so that nobody keeps others waiting.
const OF_ONE: u32 = 2;

/// Bounds how much is done aside at once.
#[derive(Debug)]
pub(crate) struct Aside(Shares<NamespaceName>);

impl Default for Aside {
    fn default() -> Self {
        Self(Shares::new(AT_ONCE, OF_ONE))
    }
}

impl Controller {
    /// Does `work` for a namespace off the async threads, once it is its turn. Work that has begun goes on if this
    /// future is dropped, and counts until it ends.
    pub async fn aside<T: Send + 'static>(
        &self,
        namespace: &NamespaceName,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ControllerError> {
        let share = self.aside.0.take(namespace, 1).await;
        let working = tokio::task::spawn_blocking(move || {
            let _share = share;
            work()
        });
        working.await.map_err(|error| ControllerError::Internal(format!("work aside failed: {error}")))
    }
}
