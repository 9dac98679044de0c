//! Manages the listeners: one task with a connection of its own for each trigger whose feed is an active NATS
//! subject.
//!
//! Their number is limited in total and per namespace; further ones wait until there is room. A changed feed
//! gets a new listener once the old one has ended: a trigger never has two.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use flint_model::{EntityPath, Feed, FeedSource, FeedState, NatsSource, Timestamp};
use tokio::{
    task::{Id, JoinError, JoinSet},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::{changes::Changed, ring::BATCH_BYTES};
use crate::{Controller, ControllerError};

/// Feeds read at once.
const BATCH: usize = 64;
/// Delay before a retry after a failure of the store.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// The state of each listener's connection, in words for users.
#[derive(Default)]
pub(crate) struct Connections(Mutex<HashMap<EntityPath, String>>);

impl Connections {
    pub(super) fn set(&self, trigger: &EntityPath, state: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(trigger.clone(), state.into());
    }

    fn remove(&self, trigger: &EntityPath) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(trigger);
    }

    /// The state of a trigger's connection, if it has one.
    pub(crate) fn of(&self, trigger: &EntityPath) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(trigger).cloned()
    }
}

/// What a listener listens to.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Listening {
    pub(super) trigger: EntityPath,
    pub(super) source: NatsSource,
    /// When the feed became active; tells it from an earlier feed of the same trigger.
    pub(super) since: Timestamp,
}

impl Listening {
    /// What to listen to for a feed, if anything.
    pub(super) fn of(feed: &Feed) -> Option<Self> {
        match (&feed.source, &feed.state) {
            (FeedSource::Nats(source), FeedState::Active) => {
                Some(Self { trigger: feed.path(), source: source.clone(), since: feed.since })
            }
            _ => None,
        }
    }
}

/// A running listener.
struct Listener {
    listening: Listening,
    task: Id,
    stop: CancellationToken,
}

/// Wanted and running listeners.
#[derive(Default)]
struct Listeners {
    wanted: BTreeSet<EntityPath>,
    running: HashMap<EntityPath, Listener>,
    tasks: JoinSet<()>,
}

impl Listeners {
    fn of_namespace(&self, trigger: &EntityPath) -> usize {
        self.running.keys().filter(|other| other.namespace == trigger.namespace).count()
    }
}

impl Controller {
    /// Manages listeners while the server runs.
    pub(crate) async fn listen(self: Arc<Self>) {
        let mut listeners = Listeners::default();
        let mut work = self.look_everywhere(&mut listeners).await;
        loop {
            if work.is_ok() {
                work = self.start_listeners(&mut listeners).await;
            }
            if let Err(error) = &work {
                let detail = error.detail().unwrap_or_else(|| error.to_string());
                tracing::error!(detail, "feeds of messages cannot be read; trying again");
                tokio::select! {
                    () = self.stopping.cancelled() => break,
                    () = sleep(AFTER_FAILURE) => {}
                }
                // The failure lost track of which feed changed.
                work = self.look_everywhere(&mut listeners).await;
                continue;
            }
            work = tokio::select! {
                () = self.stopping.cancelled() => break,
                changed = self.feeding.listening.next() => self.look_at_changed(&mut listeners, changed).await,
                Some(ended) = listeners.tasks.join_next_with_id() => {
                    self.listener_ended(&mut listeners, ended);
                    Ok(())
                }
            };
        }
        // Each stops with the server.
        while listeners.tasks.join_next().await.is_some() {}
    }

    async fn look_everywhere(&self, listeners: &mut Listeners) -> Result<(), ControllerError> {
        let mut after = None;
        let mut gone: BTreeSet<_> = listeners.wanted.clone();
        loop {
            let feeds = self.stores.feeds.feeds(after.as_ref(), BATCH, BATCH_BYTES).await?;
            let Some(last) = feeds.last() else { break };
            after = Some(last.path());
            for feed in &feeds {
                gone.remove(&feed.path());
                self.look_at_one(listeners, &feed.path(), Some(feed));
            }
        }
        for trigger in gone {
            self.look_at_one(listeners, &trigger, None);
        }
        Ok(())
    }

    async fn look_at_changed(
        &self,
        listeners: &mut Listeners,
        mut changed: Changed,
    ) -> Result<(), ControllerError> {
        let of_namespaces = listeners.wanted.iter().filter(|one| changed.namespaces.contains(&one.namespace));
        changed.triggers.extend(of_namespaces.cloned());
        for trigger in changed.triggers {
            let feed = self.stores.feeds.feed(&trigger).await?;
            self.look_at_one(listeners, &trigger, feed.as_ref());
        }
        Ok(())
    }

    /// Registers a trigger's feed, and stops a listener to anything else.
    fn look_at_one(&self, listeners: &mut Listeners, trigger: &EntityPath, feed: Option<&Feed>) {
        let wanted = feed.and_then(Listening::of);
        let listener = listeners.running.get(trigger);
        if let Some(listener) = listener.filter(|one| wanted.as_ref() != Some(&one.listening)) {
            listener.stop.cancel();
        }
        let is_running = listener.is_some();
        match wanted {
            Some(_) => drop(listeners.wanted.insert(trigger.clone())),
            None => {
                listeners.wanted.remove(trigger);
                if !is_running {
                    self.feeding.connections.remove(trigger);
                }
            }
        }
    }

    /// Starts wanted listeners as far as there is room.
    async fn start_listeners(self: &Arc<Self>, listeners: &mut Listeners) -> Result<(), ControllerError> {
        let waiting: Vec<_> =
            listeners.wanted.iter().filter(|one| !listeners.running.contains_key(*one)).cloned().collect();
        let config = &self.config.feeds;
        for trigger in waiting {
            let full = if listeners.running.len() >= config.nats_connections {
                Some("this server has as many connections to NATS as it may (feeds.nats_connections)")
            } else if listeners.of_namespace(&trigger) >= config.nats_connections_per_namespace {
                Some(
                    "this namespace has as many connections to NATS as it may (feeds.nats_connections_per_namespace)",
                )
            } else {
                None
            };
            if let Some(why) = full {
                self.feeding.connections.set(&trigger, format!("waiting: {why}"));
                continue;
            }
            let feed = self.stores.feeds.feed(&trigger).await?;
            let Some(listening) = feed.as_ref().and_then(Listening::of) else {
                listeners.wanted.remove(&trigger);
                continue;
            };
            self.feeding.connections.set(&trigger, "connecting");
            let stop = self.stopping.child_token();
            let task = Arc::clone(self).listen_for(listening.clone(), stop.clone());
            let task = listeners.tasks.spawn_on(task, &self.runtime).id();
            listeners.running.insert(trigger, Listener { listening, task, stop });
        }
        Ok(())
    }

    fn listener_ended(&self, listeners: &mut Listeners, ended: Result<(Id, ()), JoinError>) {
        let task = match ended {
            Ok((task, ())) => task,
            Err(error) => {
                tracing::error!(%error, "listening for a trigger has ended; beginning again");
                error.id()
            }
        };
        let of_task = listeners.running.iter().find(|(_, one)| one.task == task);
        if let Some(trigger) = of_task.map(|(trigger, _)| trigger.clone()) {
            listeners.running.remove(&trigger);
            self.feeding.connections.remove(&trigger);
        }
    }
}
