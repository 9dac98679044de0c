//! The task that pauses, expires and measures idle instances.

use std::{sync::Arc, time::Duration};

use flint_model::InstanceId;
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, timeout},
};

use crate::{
    PoolConfig,
    keeper::{SHORT_PATIENCE, measure},
    shared::Shared,
};

/// Shortest time between two rounds.
const SHORTEST_ROUND: Duration = Duration::from_millis(10);

/// Concurrent pauses, so that a slow one delays few others.
const PAUSES_AT_ONCE: usize = 8;

/// Pauses, stops and measures until the invoker shuts down. Sleeps while the pool is empty.
pub(crate) async fn look_after(shared: Arc<Shared>, config: PoolConfig) {
    let round = config
        .sample_every
        .min(config.pause_grace / 4)
        .min(config.keep_alive.min(config.keep_alive_forked) / 4)
        .max(SHORTEST_ROUND);
    let mut rounds = interval(round);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut measured = Instant::now();
    let closing = shared.closing.clone();
    while !closing.is_cancelled() {
        let nothing_to_do = shared.pool().is_at_rest();
        if nothing_to_do {
            tokio::select! { () = closing.cancelled() => return, () = shared.occupied.notified() => {} }
        }
        tokio::select! { () = closing.cancelled() => return, _ = rounds.tick() => {} }
        let now = Instant::now();
        let expired = shared.pool().expire(config.keep_alive, config.keep_alive_forked, now);
        shared.totals.expired.add(expired);
        if now.saturating_duration_since(measured) >= config.sample_every {
            measured = now;
            let used = shared.pool().to_measure();
            for entry in used {
                measure(&shared, &entry).await;
            }
            let (evicted, relaxed) = {
                let mut pool = shared.pool();
                (pool.trim(now), pool.relax())
            };
            shared.totals.evicted.add(evicted);
            if relaxed {
                shared.prewarm.notify_one();
            }
        }
        let quiet = shared.pool().quiet(config.pause_grace, now);
        let pauses = pause_all(&shared, quiet, config.pause_grace);
        tokio::select! { () = closing.cancelled() => return, () = pauses => {} }
    }
}

async fn pause_all(shared: &Arc<Shared>, quiet: Vec<InstanceId>, grace: Duration) {
    let mut pauses = JoinSet::new();
    for id in quiet {
        if pauses.len() >= PAUSES_AT_ONCE {
            pauses.join_next().await;
        }
        let shared = Arc::clone(shared);
        pauses.spawn(async move { pause(&shared, id, grace).await });
    }
    while pauses.join_next().await.is_some() {}
}

/// Pauses an instance if it is still quiet when its turn has come: until then, a call that takes it waits for
/// nothing.
async fn pause(shared: &Shared, id: InstanceId, grace: Duration) {
    let claimed = shared.pool().begin_pause(id, grace, Instant::now());
    if let Some(entry) = claimed {
        // The state becomes "paused" also when this times out.
        let _ = timeout(SHORT_PATIENCE, entry.freeze.pause(&*entry.instance)).await;
    }
}
