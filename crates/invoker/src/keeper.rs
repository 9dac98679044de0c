//! The task that owns an instance from its start to its end.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use crate::{entry::Entry, shared::Shared};

/// How long an executor may take to stop an instance; its memory counts as free after that.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// How long an executor may take to measure, pause or resume.
pub(crate) const SHORT_PATIENCE: Duration = Duration::from_secs(5);

/// Takes a stopped instance out of the pool, also when its executor panics.
struct Gone<'a>(&'a Shared, &'a Entry);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        let Self(shared, entry) = self;
        shared.pool().gone(entry.id);
        shared.capacity.notify_one();
    }
}

/// Owns an instance: measures it once, notices when it ends by itself, and stops it when asked to.
pub(crate) async fn keep(shared: Arc<Shared>, entry: Arc<Entry>) {
    let _gone = Gone(&shared, &entry);
    let crashed = {
        let watch = async {
            if !entry.is_single_use() {
                measure(&shared, &entry).await;
            }
            entry.instance.ended().await;
        };
        tokio::select! {
            biased;
            () = entry.retire.notified() => false,
            () = watch => true,
        }
    };
    if crashed {
        let idle = shared.pool().ended(entry.id);
        if idle {
            // An instance that ends during a call is reported as that call's fault.
            shared.totals.crashed.add(1);
            tracing::warn!(instance = %entry.id, function = %entry.key.path, "an idle instance has ended by itself");
        }
        entry.retire.notified().await;
    }
    if timeout(STOP_PATIENCE, entry.instance.stop()).await.is_err() {
        tracing::error!(instance = %entry.id, function = %entry.key.path,
            "the executor did not stop an instance within {} s", STOP_PATIENCE.as_secs());
    }
}

/// Updates an instance's charge to its present memory use.
pub(crate) async fn measure(shared: &Shared, entry: &Entry) {
    if let Ok(Some(memory)) = timeout(SHORT_PATIENCE, entry.instance.memory()).await {
        shared.pool().measured(entry.id, memory);
    }
}
