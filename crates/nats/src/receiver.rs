//! Listening to a subject, or reading a stream.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_nats::Client;
use bytes::Bytes;
use flint_model::{NatsSource, StreamPosition};
use futures_util::FutureExt;

use crate::{
    NatsError, Reach,
    connect::{causes, connect},
    heard::Heard,
    stream::{Reading, Unacknowledged},
};

/// How much is given at once.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// At most so many messages.
    pub messages: usize,
    /// No further message once there are so many bytes.
    pub bytes: usize,
}

/// Who listens. Whoever comes back under a name takes the place of the one before.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    /// What is fired, for those who look at the server's side.
    pub trigger: &'a str,
    /// What tells it from triggers of that path which others have.
    pub store: &'a str,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it was sent to.
    pub subject: String,
    /// What was sent.
    pub payload: Bytes,
    /// Its headers, in order of name.
    pub headers: Vec<(String, String)>,
    /// Its number within the stream.
    pub sequence: Option<u64>,
}

/// Messages that came together, one or more.
#[derive(Debug)]
pub struct Batch {
    /// In order.
    pub messages: Vec<Message>,
    pub(crate) unacknowledged: Vec<Unacknowledged>,
}

/// Somebody who listens. Dropped, the connection ends.
pub struct Receiver {
    source: Source,
    missed: Arc<AtomicU64>,
    _client: Client,
}

enum Source {
    Subject(Heard),
    Stream(Box<Reading>),
}

impl Receiver {
    /// Connects and listens.
    /// `position` is how far it has read a stream. Messages may be given that were given before; their numbers tell.
    pub async fn open(
        source: &NatsSource,
        name: Name<'_>,
        position: Option<&StreamPosition>,
        reach: &Reach,
    ) -> Result<Self, NatsError> {
        let missed = Arc::new(AtomicU64::new(0));
        let client = connect(source, &format!("Flint: {}", name.trigger), reach, &missed).await?;
        let opened = match &source.stream {
            Some(stream) => {
                Source::Stream(Box::new(Reading::open(&client, source, stream, name, position).await?))
            }
            None => {
                let subject = source.subject.clone();
                let subscriber = match &source.queue {
                    Some(queue) => client.queue_subscribe(subject, queue.clone()).await,
                    None => client.subscribe(subject).await,
                };
                let subscriber = subscriber.map_err(|error| NatsError::Invalid(causes(&error)))?;
                // Once this is answered, the subscription is made.
                client.flush().await.map_err(|error| NatsError::Ended(causes(&error)))?;
                Source::Subject(Heard::new(subscriber, Arc::clone(&missed)))
            }
        };
        Ok(Self { source: opened, missed, _client: client })
    }

    /// Of a stream, where this begins: after the position that was given, if that is of this very stream; else where the source says.
    pub fn beginning(&self) -> Option<&StreamPosition> {
        match &self.source {
            Source::Subject(_) => None,
            Source::Stream(reading) => Some(reading.beginning()),
        }
    }

    /// How many messages of a plain subject came faster than they were taken, and are gone.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Waits for messages, and gives those that are there.
    pub async fn next(&mut self, bounds: Bounds) -> Result<Batch, NatsError> {
        let mut batch = Batch { messages: Vec::new(), unacknowledged: Vec::new() };
        let mut bytes = 0;
        while batch.messages.len() < bounds.messages.max(1) && bytes < bounds.bytes.max(1) {
            let next = match batch.messages.is_empty() {
                true => Some(self.source.one().await),
                false => self.source.one().now_or_never(),
            };
            // What is wrong with a later one is seen when it is the first.
            let Some(Ok((message, unacknowledged))) = next else {
                match next {
                    Some(Err(error)) if batch.messages.is_empty() => return Err(error),
                    _ => break,
                }
            };
            bytes += message.payload.len();
            batch.messages.push(message);
            batch.unacknowledged.extend(unacknowledged);
        }
        Ok(batch)
    }

    /// Messages that were given need more time before they are done.
    pub async fn keep(&self, batch: &Batch) {
        for message in &batch.unacknowledged {
            message.keep().await;
        }
    }

    /// Messages that were given are not needed again.
    pub async fn done(&self, batch: Batch) {
        for message in batch.unacknowledged {
            message.done().await;
        }
    }

    /// Nobody will come back under this name.
    pub async fn forget(self) {
        if let Source::Stream(reading) = self.source {
            reading.forget().await;
        }
    }
}

impl Source {
    async fn one(&mut self) -> Result<(Message, Option<Unacknowledged>), NatsError> {
        match self {
            Self::Stream(reading) => {
                let (message, unacknowledged) = reading.one().await?;
                Ok((message, Some(unacknowledged)))
            }
            Self::Subject(heard) => match heard.one().await {
                Some(message) => Ok((message, None)),
                None => Err(NatsError::Ended("the server cannot be reached any more".to_owned())),
            },
        }
    }
}

pub(crate) fn as_message(message: async_nats::Message, sequence: Option<u64>) -> Message {
    let headers = message.headers.iter().flat_map(|headers| headers.iter());
    let mut headers: Vec<_> = headers
        .flat_map(|(name, values)| values.iter().map(move |value| (name.to_string(), value.to_string())))
        .collect();
    headers.sort();
    Message { subject: message.subject.to_string(), payload: message.payload, headers, sequence }
}
