//! Forgetting calls that are over, once their records are durable.

use std::{sync::Arc, time::Duration};

use flint_model::ActivationId;
use futures_util::future::join_all;

use crate::Controller;

/// Calls completed after one flush.
const BATCH: usize = 256;

/// How long to wait when the records cannot be written: they come first.
const PAUSE: Duration = Duration::from_secs(1);

impl Controller {
    /// Takes finished calls in batches: one flush of the records, then each is removed from the queue. A crash between the
    /// two runs the call again, which at-least-once allows; it never loses the record.
    pub(crate) async fn complete(self: Arc<Self>) {
        let finishing = self.accepted.finishing.lock().ok().and_then(|mut place| place.take());
        let Some(mut finishing) = finishing else { return };
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                biased;
                received = finishing.recv_many(&mut batch, BATCH) => if received == 0 { return },
                // Only when nothing is left to complete.
                () = self.stopped.cancelled() => return,
            }
            self.complete_batch(&batch).await;
            batch.clear();
        }
    }

    async fn complete_batch(&self, batch: &[ActivationId]) {
        while let Err(error) = self.stores.activations.flush().await {
            tracing::error!(%error, calls = batch.len(), "records of finished calls are not written; trying again");
            tokio::select! {
                // The next server runs these calls again.
                () = self.stopped.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
        // Together, so that the store can do them in one commit.
        let completing = batch.iter().map(|id| async move {
            if let Err(error) = self.stores.queue.complete(*id).await {
                tracing::error!(activation = %id, %error, "a finished call stays in the queue and will run again");
            }
            self.accepted.leased().remove(id);
        });
        join_all(completing).await;
    }
}
