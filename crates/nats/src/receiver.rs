//! Receives messages from a subject or a stream.

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

/// Bounds of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of messages.
    pub messages: usize,
    /// Size from which on no further message is added.
    pub bytes: usize,
}

/// The identity of a listener. A new listener of the same identity replaces the old one.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    /// The trigger, shown on the NATS server.
    pub trigger: &'a str,
    /// Distinguishes it from triggers with the same path on other Flint servers.
    pub store: &'a str,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The subject it was sent to.
    pub subject: String,
    /// Its payload.
    pub payload: Bytes,
    /// Its headers, in order of name.
    pub headers: Vec<(String, String)>,
    /// Its sequence number in the stream.
    pub sequence: Option<u64>,
}

/// Messages received together, at least one.
#[derive(Debug)]
pub struct Batch {
    /// In order of arrival.
    pub messages: Vec<Message>,
    pub(crate) unacknowledged: Vec<Unacknowledged>,
}

/// A listener. Dropping it closes the connection.
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
    /// Connects and subscribes.
    /// `position` is how far a stream has been read. Messages may be delivered again; their sequence numbers
    /// tell.
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
                // A reply proves that the server has processed the subscription.
                client.flush().await.map_err(|error| NatsError::Ended(causes(&error)))?;
                Source::Subject(Heard::new(subscriber, Arc::clone(&missed)))
            }
        };
        Ok(Self { source: opened, missed, _client: client })
    }

    /// For a stream, where reading begins: after the given position, if it is one of this stream, and
    /// otherwise where the source says.
    pub fn beginning(&self) -> Option<&StreamPosition> {
        match &self.source {
            Source::Subject(_) => None,
            Source::Stream(reading) => Some(reading.beginning()),
        }
    }

    /// Number of messages of a plain subject that were lost because they arrived faster than they were taken.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Waits for messages, and returns those available.
    pub async fn next(&mut self, bounds: Bounds) -> Result<Batch, NatsError> {
        let mut batch = Batch { messages: Vec::new(), unacknowledged: Vec::new() };
        let mut bytes = 0;
        while batch.messages.len() < bounds.messages.max(1) && bytes < bounds.bytes.max(1) {
            let next = match batch.messages.is_empty() {
                true => Some(self.source.one().await),
                false => self.source.one().now_or_never(),
            };
            // An error of a later message is reported by the next call.
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

    /// Asks for more time before these messages are redelivered.
    pub async fn keep(&self, batch: &Batch) {
        for message in &batch.unacknowledged {
            message.keep().await;
        }
    }

    /// Acknowledges these messages.
    pub async fn done(&self, batch: Batch) {
        for message in batch.unacknowledged {
            message.done().await;
        }
    }

    /// Deletes the listener's state on the server, since it will not come back.
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
