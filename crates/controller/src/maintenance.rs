//! Removing what nothing refers to any more.

use std::{sync::Arc, time::Duration};

use crate::{Controller, ControllerError};

/// Code younger than this is kept although nothing refers to it.
const GRACE: Duration = Duration::from_secs(300);

/// How long after meeting a deploy it is tried again.
const BUSY: Duration = Duration::from_secs(5);

impl Controller {
    /// Removes code and prepared artefacts of functions that are gone; `false` when a deploy was going on, which must not
    /// lose code that it has found stored and not yet referred to. It does not wait for deploys: further ones would then wait
    /// behind it.
    pub async fn collect(&self) -> Result<bool, ControllerError> {
        let Ok(_deploys) = self.deploys.try_write() else { return Ok(false) };
        let versions = &self.stores.versions;
        let mut functions = self.stores.catalog.all_functions().await?;
        let mut code = versions.kept_code().await?;
        code.extend(functions.iter().map(|function| function.code.digest));
        // Of versions that nothing names, what was prepared can be made again.
        functions.extend(versions.named().await?);
        let functions: Vec<_> = functions.into_iter().map(Arc::new).collect();
        let removed = self.stores.blobs.collect(&code, GRACE).await?;
        self.invoker.collect(&functions).await;
        if removed > 0 {
            tracing::info!(removed, "removed code that no version of a function refers to");
        }
        Ok(true)
    }

    pub(crate) async fn collect_periodically(self: Arc<Self>) {
        let mut wait = self.config.collect_every;
        loop {
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            wait = match self.collect().await {
                Ok(true) => self.config.collect_every,
                Ok(false) => BUSY,
                Err(error) => {
                    let detail = error.detail().unwrap_or_else(|| error.to_string());
                    tracing::warn!(detail, "removing unreferenced code failed; it is tried again later");
                    self.config.collect_every
                }
            };
        }
    }
}
