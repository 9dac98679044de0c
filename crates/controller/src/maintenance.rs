//! Removing what nothing refers to any more.

use std::{sync::Arc, time::Duration};

use crate::{Controller, ControllerError};

/// Code younger than this is kept although nothing refers to it.
const GRACE: Duration = Duration::from_secs(300);

impl Controller {
    /// Removes code and prepared artefacts of functions that are gone. What is being deployed stays, and a deploy that begins waits.
    pub async fn collect(&self) -> Result<(), ControllerError> {
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
        let removed = self.stores.blobs.collect(&code, GRACE).await?;
        self.invoker.collect(&functions).await;
        if removed > 0 {
            tracing::info!(removed, "removed code that no version of a function refers to");
        }
        Ok(())
    }

    pub(crate) async fn collect_periodically(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = tokio::time::sleep(self.config.collect_every) => {}
            }
            if let Err(error) = self.collect().await {
                let detail = error.detail().unwrap_or_else(|| error.to_string());
                tracing::warn!(detail, "removing unreferenced code failed; it is tried again later");
            }
        }
    }
}
