//! Listens for one trigger: a connection, renewed with increasing delays when it ends.
//!
//! Received messages fire the trigger before further ones are taken. The commit that makes the calls durable
//! also writes the position in the stream, and messages are acknowledged only then: a redelivered one is
//! recognised by its position and skipped. A firing that is refused temporarily, because a queue is full or
//! the namespace throttled, is retried.

use std::{convert::Infallible, sync::Arc, time::Duration};

use flint_model::{EntityPath, Feed, FeedSource, NatsSource, StreamPosition};
use flint_nats::{Batch, Bounds, Message, Name, NatsError, Receiver};
use flint_store::StoreError;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{event::event_of, fire::Event, listen::Listening, turn::spent};
use crate::{Controller, ControllerError, ErrorKind};

/// Maximum number of messages per firing.
const MESSAGES: usize = 100;
/// First and longest delay before reconnecting or firing again; doubled each time, until a connection has lasted
/// as long as the longest.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Interval of progress reports: a stream redelivers messages of which it hears nothing for a minute.
const KEEP: Duration = Duration::from_secs(20);

/// Why a listener ended.
enum Ended {
    /// The feed was changed or deleted, or the server stops.
    Changed,
    Failed(String),
}

impl From<NatsError> for Ended {
    fn from(error: NatsError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Controller {
    /// Listens until told to stop or its feed changes.
    pub(super) async fn listen_for(self: Arc<Self>, listening: Listening, stop: CancellationToken) {
        let (trigger, mut pause) = (&listening.trigger, PAUSE.0);
        loop {
            let mut connected = None;
            let why = match self.receive(&listening, &stop, &mut connected).await {
                Err(Ended::Failed(why)) => why,
                Err(Ended::Changed) => return,
                Ok(never) => match never {},
            };
            pause = renewed(pause, connected.map(|since: Instant| since.elapsed()));
            tracing::info!(%trigger, why, "its messages cannot be had; trying again in {pause:?}");
            self.feeding.connections.set(trigger, why);
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(pause) => pause = (pause * 2).min(PAUSE.1),
            }
        }
    }

    /// Connects, and fires for incoming messages, until it ends.
    async fn receive(
        self: &Arc<Self>,
        listening: &Listening,
        stop: &CancellationToken,
        connected: &mut Option<Instant>,
    ) -> Result<Infallible, Ended> {
        let Listening { trigger, source, .. } = listening;
        let feed = self.still(listening).await?;
        let store = self.stores.feeds.identity().await;
        let store = store.map_err(|error| Ended::Failed(ControllerError::from(error).to_string()))?;
        let (reach, path) = (self.config.feeds.reach(), trigger.to_string());
        let name = Name { trigger: &path, store: &store };
        let opening = Receiver::open(source, name, feed.position.as_ref(), &reach);
        let mut receiver = tokio::select! {
            () = stop.cancelled() => return Err(Ended::Changed),
            receiver = opening => receiver?,
        };
        self.remember_beginning(feed, &receiver).await?;
        *connected = Some(Instant::now());
        let most = self.config.limits.bounds.max_payload.as_u64() as usize;
        loop {
            self.show_connected(trigger, &receiver);
            let batch = tokio::select! {
                () = stop.cancelled() => break,
                batch = receiver.next(Bounds { messages: MESSAGES, bytes: most / 2 }) => batch?,
            };
            tokio::select! {
                () = stop.cancelled() => break,
                fired = self.fire_batch(listening, &receiver, &batch) => fired?,
            }
            receiver.done(batch).await;
        }
        if !self.stopping.is_cancelled() && !self.goes_on_later(trigger, source).await {
            receiver.forget().await;
        }
        Err(Ended::Changed)
    }

    fn show_connected(&self, trigger: &EntityPath, receiver: &Receiver) {
        let state = match receiver.missed() {
            0 => "connected".to_owned(),
            missed => {
                format!("connected; {missed} messages were missed: they came faster than they were fired for")
            }
        };
        self.feeding.connections.set(trigger, state);
    }

    /// Whether the feed, which is no longer listened for, will read the same messages again: it was paused,
    /// or changed in other respects.
    async fn goes_on_later(&self, trigger: &EntityPath, old: &NatsSource) -> bool {
        match self.stores.feeds.feed(trigger).await {
            Ok(None) => false,
            Ok(Some(Feed { source: FeedSource::Nats(new), .. })) => {
                (&new.servers, &new.stream, &new.subject) == (&old.servers, &old.stream, &old.subject)
            }
            Ok(Some(_)) => false,
            Err(_) => true, // nobody knows
        }
    }

    /// Stores the position at which the reading of a stream begins, before reading: messages that arrive
    /// while the server is down are not missed.
    async fn remember_beginning(&self, feed: Feed, receiver: &Receiver) -> Result<(), Ended> {
        let position = receiver.beginning().cloned();
        if position.is_none() || position == feed.position {
            return Ok(());
        }
        match self.stores.feeds.go_on(&Feed { position, ..feed }, Vec::new(), None).await {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict) => Err(Ended::Failed("its feed was changed".to_owned())),
            Err(error) => Err(Ended::Failed(ControllerError::from(error).to_string())),
        }
    }

    /// The present feed, if it is still the one that is listened for.
    async fn still(&self, listening: &Listening) -> Result<Feed, Ended> {
        match self.stores.feeds.feed(&listening.trigger).await {
            Ok(Some(feed)) if Listening::of(&feed).as_ref() == Some(listening) => Ok(feed),
            Ok(_) => Err(Ended::Changed),
            Err(error) => Err(Ended::Failed(ControllerError::from(error).to_string())),
        }
    }

    /// Fires for all messages of a batch, in as many events as they need. Returns once that is durable.
    async fn fire_batch(
        self: &Arc<Self>,
        listening: &Listening,
        receiver: &Receiver,
        batch: &Batch,
    ) -> Result<(), Ended> {
        let Listening { trigger, source, .. } = listening;
        let most = self.config.limits.bounds.max_payload.as_u64() as usize;
        let (mut from, mut pause) = (0, PAUSE.0);
        while from < batch.messages.len() {
            let feed = self.still(listening).await?;
            let rest = in_order(&batch.messages[from..]);
            let known = rest.iter().take_while(|message| is_known(&feed, receiver, message)).count();
            if known > 0 {
                from += known;
                continue;
            }
            if receiver.beginning().is_some() && matches!(self.has_rules(trigger).await, Ok(false)) {
                // A stream keeps its messages for rules that are created after the feed.
                let state = "connected; what has come waits, because the trigger has no rule yet";
                self.feeding.connections.set(trigger, state);
                keep_for(PAUSE.0, receiver, batch).await;
                continue;
            }
            let (event, count) = event_of(source, &feed.payload, rest, most);
            match self.fire_messages(feed, receiver, &rest[..count], event).await {
                Ok(()) => (from, pause) = (from + count, PAUSE.0),
                // The feed was changed meanwhile, or deleted, which is noticed next.
                Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => {}
                Err(error) => {
                    let detail = error.detail().unwrap_or_else(|| error.to_string());
                    tracing::info!(%trigger, detail, "messages cannot fire it; trying again in {pause:?}");
                    let state = format!(
                        "connected; what has come waits, because the trigger cannot be fired: {error}"
                    );
                    self.feeding.connections.set(trigger, state);
                    keep_for(pause, receiver, batch).await;
                    pause = (pause * 2).min(PAUSE.1);
                }
            }
        }
        Ok(())
    }

    async fn fire_messages(
        self: &Arc<Self>,
        feed: Feed,
        receiver: &Receiver,
        messages: &[Message],
        event: String,
    ) -> Result<(), ControllerError> {
        let now = self.stores.clock.now();
        let read = messages.iter().filter_map(|message| message.sequence).max();
        let position = match (receiver.beginning(), read) {
            (Some(StreamPosition { stream, .. }), Some(sequence)) => {
                Some(StreamPosition { stream: stream.clone(), sequence })
            }
            _ => feed.position.clone(),
        };
        let left = feed.left.map(|left| left.saturating_sub(1));
        let after = Feed { position, last: Some(now), fired: feed.fired + 1, left, ..feed.clone() };
        let is_last = left == Some(0);
        let after = if is_last { spent(after, now) } else { after };
        let instant = read.map(|sequence| sequence.to_string());
        self.fire_feed(&feed, Event { payload: event, instant }, after).await?;
        if is_last {
            self.feeding.tell(&feed.path());
        }
        Ok(())
    }
}

/// The delay after a connection that lasted so long, if there was one. A broker that takes connections and then ends
/// them is not connected to any faster than one that refuses them.
fn renewed(pause: Duration, lasted: Option<Duration>) -> Duration {
    if lasted.is_some_and(|lasted| lasted >= PAUSE.1) { PAUSE.0 } else { pause }
}

/// Whether a message has fired before.
fn is_known(feed: &Feed, receiver: &Receiver, message: &Message) -> bool {
    match (&feed.position, receiver.beginning(), message.sequence) {
        (Some(position), Some(beginning), Some(sequence)) => {
            position.stream == beginning.stream && sequence <= position.sequence
        }
        _ => false,
    }
}

/// The longest prefix of messages with ascending positions. A redelivered message comes late, after others,
/// and may be recognisable only once these have fired.
fn in_order(messages: &[Message]) -> &[Message] {
    let goes_back = |pair: &[Message]| pair[0].sequence.is_some() && pair[1].sequence <= pair[0].sequence;
    let end = messages.windows(2).position(goes_back).map_or(messages.len(), |last| last + 1);
    &messages[..end]
}

/// Waits, and keeps a stream from redelivering messages meanwhile.
async fn keep_for(pause: Duration, receiver: &Receiver, batch: &Batch) {
    let mut left = pause;
    loop {
        receiver.keep(batch).await;
        if left <= KEEP {
            return sleep(left).await;
        }
        sleep(KEEP).await;
        left -= KEEP;
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn delays_begin_anew_after_a_connection_that_has_lasted() {
        let pause = Duration::from_secs(8);
        for (lasted, expected) in [(None, pause), (Some(PAUSE.0), pause), (Some(PAUSE.1), PAUSE.0)] {
            assert_eq!(renewed(pause, lasted), expected, "{lasted:?}");
        }
    }

    #[test]
    fn what_is_given_again_is_looked_at_after_what_came_before_it() {
        let message = |sequence| Message {
            subject: "s".to_owned(),
            payload: Bytes::new(),
            headers: Vec::new(),
            sequence,
        };
        for (numbers, count) in
            [(&[][..], 0), (&[7], 1), (&[5, 6, 9], 3), (&[5, 6, 6, 7], 2), (&[201, 250, 101, 102, 251], 2)]
        {
            let messages: Vec<_> = numbers.iter().map(|number| message(Some(*number))).collect();
            assert_eq!(in_order(&messages).len(), count, "{numbers:?}");
        }
        // Messages of a plain subject have no numbers.
        assert_eq!(in_order(&[message(None), message(None)]).len(), 2);
    }
}
