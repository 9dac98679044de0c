//! Removes finished calls from the queue, once their records are durable.

use std::{sync::Arc, time::Duration};

use flint_store::StoreError;
use futures_util::future::join_all;

use super::state::Done;
use crate::Controller;

/// Calls per flush.
const BATCH: usize = 256;

/// Delay before a retry when records cannot be written, since they have to come first.
const PAUSE: Duration = Duration::from_secs(1);

impl Controller {
    /// Takes finished calls in batches: one flush of the records, then each call is removed from the queue. A
    /// crash in between runs the call again, which at-least-once delivery allows, and never loses the record.
    pub(crate) async fn complete(self: Arc<Self>) {
        let finishing = self.accepted.finishing.lock().ok().and_then(|mut place| place.take());
        let Some(mut finishing) = finishing else { return };
        loop {
            let mut batch = Vec::with_capacity(BATCH);
            tokio::select! {
                biased;
                received = finishing.recv_many(&mut batch, BATCH) => if received == 0 { return },
                // Only once nothing is left to complete.
                () = self.stopped.cancelled() => return,
            }
            self.complete_batch(batch).await;
        }
    }

    async fn complete_batch(&self, mut batch: Vec<Done>) {
        let mut is_last = false;
        loop {
            if !self.flush_records(batch.len()).await {
                return;
            }
            // Concurrently, so that the store can group them into one commit.
            let completing = batch.into_iter().map(|done| async move {
                // One that the queue does not have under its lease is gone with its namespace, or was never there.
                let error = self.stores.queue.complete(done.lease).await.err();
                if error.is_none() {
                    self.accepted.leased().remove(&done.lease);
                }
                error.map(|error| (done, error))
            });
            let failed: Vec<_> = join_all(completing).await.into_iter().flatten().collect();
            if failed.is_empty() || is_last {
                return self.leave_to_run_again(&failed);
            }
            // Others' records, which are written first as well, may have failed meanwhile; if they are written now,
            // these calls are removed at the next attempt, or there is another reason.
            is_last = self.stores.activations.flush().await.is_ok();
            batch = failed.into_iter().map(|(done, _)| done).collect();
        }
    }

    /// Returns once the records of these calls are durable; `false` if the server stops before that.
    async fn flush_records(&self, calls: usize) -> bool {
        while let Err(error) = self.stores.activations.flush().await {
            tracing::error!(%error, calls, "records of finished calls are not written; trying again");
            tokio::select! {
                // The next run of the server runs these calls again.
                () = self.stopped.cancelled() => return false,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
        true
    }

    /// Leaves calls to the queue until their leases expire.
    fn leave_to_run_again(&self, failed: &[(Done, StoreError)]) {
        for (Done { lease, first }, error) in failed {
            let id = lease.activation;
            tracing::error!(activation = %id, %error, "a finished call stays in the queue and will run again");
            // Before the queue may hand it out.
            if let Some(account) = first {
                account.inherit(1);
                self.accepted.leave_one();
                self.accepted.hungry.notify_one();
            }
            self.accepted.leased().remove(lease);
        }
    }
}
