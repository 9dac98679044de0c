//! Garbage collection: removes code and prepared artefacts that nothing refers to any more.

use std::{sync::Arc, time::Duration};

use flint_executor::PrepareError;
use tokio::{sync::Notify, time::sleep};

use crate::{Controller, ControllerError};

/// Unreferenced code younger than this is kept.
const GRACE: Duration = Duration::from_secs(300);
/// Minimum interval between collections that are requested because leftovers take room.
const AT_MOST_EVERY: Duration = Duration::from_secs(30);

impl Controller {
    /// Removes code and artefacts of deleted functions. Deploys in progress are spared, and a deploy that
    /// begins waits.
    pub async fn collect(&self) -> Result<(), ControllerError> {
        self.invoker.measure().await;
        let (_doors, going_on) = self.deploys.shut().await;
        let versions = &self.stores.versions;
        // Read after the deploys in progress, so that one which is written in between is found here.
        let mut functions = self.stores.catalog.all_functions().await?;
        let mut code = versions.kept_code().await?;
        code.extend(going_on.iter().map(|function| function.code.digest));
        code.extend(functions.iter().map(|function| function.code.digest));
        // Of other versions only the code is kept; their artefacts can be prepared again.
        functions.extend(versions.named().await?);
        let functions: Vec<_> = functions.into_iter().map(Arc::new).chain(going_on).collect();
        let removed = self.stores.blobs.collect(&code, GRACE).await;
        // Even if collecting code failed: this determines each namespace's disk use.
        self.invoker.collect(&functions).await;
        if let removed @ 1.. = removed? {
            tracing::info!(removed, "removed code that no version of a function refers to");
        }
        Ok(())
    }

    /// The first collection runs at once: it tells executors which artefacts of earlier runs are still
    /// needed.
    pub(crate) async fn collect_periodically(self: Arc<Self>) {
        loop {
            if let Err(error) = self.collect().await {
                let detail = error.detail().unwrap_or_else(|| error.to_string());
                tracing::warn!(detail, "removing unreferenced code failed; it is tried again later");
            }
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = next_collection(self.config.collect_every, &self.leftovers) => {}
            }
        }
    }

    /// Requests a collection after a deploy was refused because its namespace's quota or the disk is full:
    /// deleted functions may still take some of that.
    pub(crate) fn look_for_leftovers(&self, refused: &PrepareError) {
        if matches!(refused, PrepareError::OverQuota(_) | PrepareError::NoRoom(_)) {
            self.leftovers.notify_one();
        }
    }
}

/// Resolves when the next collection is due, or earlier on request.
async fn next_collection(every: Duration, leftovers: &Notify) {
    let at_least = every.min(AT_MOST_EVERY);
    sleep(at_least).await;
    tokio::select! {
        () = leftovers.notified() => {}
        () = sleep(every - at_least) => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn leftovers_are_looked_for_earlier_when_somebody_has_to_do_without_them() {
        let (leftovers, hour) = (Notify::new(), Duration::from_secs(3600));
        let began = Instant::now();
        next_collection(hour, &leftovers).await;
        assert!(began.elapsed() >= hour);
        // A request during a collection counts, and several count once.
        leftovers.notify_one();
        leftovers.notify_one();
        let began = Instant::now();
        next_collection(hour, &leftovers).await;
        assert!(began.elapsed() >= AT_MOST_EVERY && began.elapsed() < hour);
        let began = Instant::now();
        next_collection(hour, &leftovers).await;
        assert!(began.elapsed() >= hour);
    }
}
