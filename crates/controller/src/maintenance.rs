//! Removing what nothing refers to any more.

use std::{sync::Arc, time::Duration};

use flint_executor::PrepareError;
use tokio::{sync::Notify, time::sleep};

use crate::{Controller, ControllerError};

/// Code younger than this is kept although nothing refers to it.
const GRACE: Duration = Duration::from_secs(300);
/// At most so often leftovers are removed because somebody has to do without what they take.
const AT_MOST_EVERY: Duration = Duration::from_secs(30);

impl Controller {
    /// Removes code and prepared artefacts of functions that are gone. What is being deployed stays, and a deploy that begins waits.
    pub async fn collect(&self) -> Result<(), ControllerError> {
        self.invoker.measure().await;
        let (_doors, going_on) = self.deploys.shut().await;
        let versions = &self.stores.versions;
        // After those that are not written yet: one that was since is met here.
        let mut functions = self.stores.catalog.all_functions().await?;
        let mut code = versions.kept_code().await?;
        code.extend(going_on.iter().map(|function| function.code.digest));
        code.extend(functions.iter().map(|function| function.code.digest));
        // Of versions that nothing names, what was prepared can be made again.
        functions.extend(versions.named().await?);
        let functions: Vec<_> = functions.into_iter().map(Arc::new).chain(going_on).collect();
        let removed = self.stores.blobs.collect(&code, GRACE).await;
        // Whatever became of the code: by this it is known what each namespace takes.
        self.invoker.collect(&functions).await;
        if let removed @ 1.. = removed? {
            tracing::info!(removed, "removed code that no version of a function refers to");
        }
        Ok(())
    }

    /// Begins at once: executors learn by it which functions earlier lives of the server have left.
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

    /// A deploy was refused because its namespace has as much unpacked code as it may, or the disk is nearly full: some of that may be of functions that are
    /// deleted by now.
    pub(crate) fn look_for_leftovers(&self, refused: &PrepareError) {
        if matches!(refused, PrepareError::OverQuota(_) | PrepareError::NoRoom(_)) {
            self.leftovers.notify_one();
        }
    }
}

/// Resolves when it is time again, or earlier where somebody has to do without leftovers.
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
        // Also when that was while others were removed, and once for all who wait.
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
