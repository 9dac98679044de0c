//! Fires alarms when they are due.
//!
//! No schedule is kept in memory: due feeds are read from the store, and a firing is one commit. So the
//! server may be killed at any point, and reads the same schedule after a restart.

use std::{sync::Arc, time::Duration};

use flint_model::{ByteSize, Feed, FeedSource, FeedState, Rule, ThenDelete, Timestamp};
use flint_store::StoreError;
use futures_util::{StreamExt, stream};

use super::{
    fire::Event,
    schedule::{Schedule, plus},
    turn::{Turn, put_back, turn},
};
use crate::{Caller, Controller, ControllerError, ErrorKind};

/// Feeds read at once.
const BATCH: usize = 64;
/// Maximum bytes of a batch, unless a single feed takes more: each brings its payload, which becomes calls.
pub(super) const BATCH_BYTES: ByteSize = ByteSize::mib(4);
/// Concurrent firings, whose commits are grouped.
const AT_ONCE: usize = 32;

/// Longest sleep while an alarm is to come, which bounds the delay after the clock was set.
const NAP: Duration = Duration::from_secs(15);
/// Delay before a retry after a failure of the store.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Throttles count per minute, so a refused firing is retried in the next one.
const MINUTE_MS: u64 = 60_000;
/// The clock was set back if it goes back by more than this.
const SET_BACK: Duration = Duration::from_secs(60);

impl Controller {
    /// Fires alarms while the server runs.
    pub(crate) async fn ring(self: Arc<Self>) {
        // The clock may have been set since the last run, so its feeds are checked at once.
        let mut seen = Timestamp::from_millis(u64::MAX);
        loop {
            let now = self.stores.clock.now();
            if plus(now, SET_BACK) < seen {
                match self.clock_was_put_back(now).await {
                    Ok(()) => seen = now,
                    Err(error) => failed(&error),
                }
            }
            seen = seen.max(now);
            let wake = match self.fire_due().await {
                Ok(None) => None,
                Ok(Some(next)) => Some(next.min(plus(now, NAP))),
                Err(error) => {
                    failed(&error);
                    Some(plus(now, AFTER_FAILURE))
                }
            };
            let pause = async {
                match wake {
                    Some(moment) => self.stores.clock.until(moment).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.feeding.changed.notified() => {}
                () = pause => {}
            }
        }
    }

    /// Fires every alarm that is due; returns when the next one is.
    pub async fn fire_due(self: &Arc<Self>) -> Result<Option<Timestamp>, ControllerError> {
        let _one_at_a_time = self.feeding.firing.lock().await;
        loop {
            let now = self.stores.clock.now();
            let due = self.stores.feeds.due_feeds(now, BATCH, BATCH_BYTES).await?;
            if due.is_empty() || self.stopping.is_cancelled() {
                return Ok(self.stores.feeds.next_due().await?);
            }
            let done = stream::iter(due).map(|feed| self.look_at(feed, now)).buffer_unordered(AT_ONCE);
            let results: Vec<_> = done.collect().await;
            results.into_iter().collect::<Result<(), _>>()?;
        }
    }

    /// Handles a feed that is due.
    async fn look_at(self: &Arc<Self>, feed: Feed, now: Timestamp) -> Result<(), ControllerError> {
        let done = match &feed.state {
            FeedState::Leaving => self.leave(&feed).await,
            _ => match Schedule::of(&feed.source) {
                Ok(None) => Ok(()), // it has no instants
                Ok(Some(schedule)) => match turn(&feed, &schedule, now, &self.config.feeds) {
                    // Due according to the store: the clock was set between two reads.
                    Turn::Wait => Ok(()),
                    Turn::Skip(after) => {
                        tracing::info!(trigger = %feed.path(), "what its feed has missed is too long ago to be fired for");
                        self.write_feed(after).await
                    }
                    Turn::Fire(instant, after) => {
                        let payload = feed.payload.as_str().to_owned();
                        let instant = Some(instant.as_millis().to_string());
                        self.fire_feed(&feed, Event { payload, instant }, after).await
                    }
                },
                Err(why) => {
                    self.write_feed(Feed { state: FeedState::Ended(why), since: now, ..feed.clone() }).await
                }
            },
        };
        let Err(error) = done else { return Ok(()) };
        match error.kind() {
            // Changed or deleted meanwhile.
            ErrorKind::Conflict | ErrorKind::NotFound => Ok(()),
            ErrorKind::Internal | ErrorKind::Unavailable => Err(error),
            _ => {
                tracing::info!(trigger = %feed.path(), %error, "its feed could not fire; trying again later");
                let next_minute = (now.as_millis() / MINUTE_MS + 1) * MINUTE_MS;
                let later = Feed { retry_at: Some(Timestamp::from_millis(next_minute)), ..feed };
                match self.write_feed(later).await {
                    Err(error) if error.kind() != ErrorKind::Conflict => Err(error),
                    _ => Ok(()),
                }
            }
        }
    }

    async fn write_feed(&self, feed: Feed) -> Result<(), ControllerError> {
        self.stores.feeds.go_on(&feed, Vec::new(), None).await?;
        Ok(())
    }

    /// Deletes a trigger after its only firing, with its rules if its owner wanted that; its feed is deleted
    /// with it.
    async fn leave(self: &Arc<Self>, feed: &Feed) -> Result<(), ControllerError> {
        let Some(owner) = self.caller_of(&feed.namespace, &feed.subject).await? else {
            return Err(ControllerError::BadKey);
        };
        if let FeedSource::Once { then_delete: ThenDelete::Rules, .. } = feed.source {
            for rule in self.stores.catalog.rules_of(&feed.path()).await? {
                self.delete_rule_of(&owner, rule).await?;
            }
        }
        self.delete_trigger(&owner, &feed.path()).await?;
        Ok(())
    }

    async fn delete_rule_of(self: &Arc<Self>, owner: &Caller, rule: Rule) -> Result<(), ControllerError> {
        match self.delete_rule(owner, &rule.path()).await {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Checks every feed after the clock was set back.
    async fn clock_was_put_back(&self, now: Timestamp) -> Result<(), ControllerError> {
        let mut after = None;
        loop {
            let feeds = self.stores.feeds.feeds(after.as_ref(), BATCH, BATCH_BYTES).await?;
            let Some(last) = feeds.last() else { return Ok(()) };
            after = Some(last.path());
            // Off the async threads: each takes a search.
            let looking = tokio::task::spawn_blocking(move || {
                let anew = |feed: &Feed| put_back(feed, &Schedule::of(&feed.source).ok()??, now);
                feeds.iter().filter_map(anew).collect::<Vec<_>>()
            });
            let failed = |error| ControllerError::Internal(format!("looking at feeds failed: {error}"));
            for changed in looking.await.map_err(failed)? {
                tracing::warn!(trigger = %changed.path(), "the clock was put back: its feed begins anew");
                match self.stores.feeds.go_on(&changed, Vec::new(), None).await {
                    Ok(_) | Err(StoreError::Conflict) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

fn failed(error: &ControllerError) {
    let detail = error.detail().unwrap_or_else(|| error.to_string());
    tracing::error!(detail, "feeds cannot be fired; trying again");
}
