//! Receives messages from a subject or a stream.

use async_nats::Client;
use bytes::Bytes;
use flint_model::{NatsSource, StreamPosition};
use futures_util::FutureExt;

use crate::{
    NatsError, Reach,
    connect::{connect, subscribe},
    heard::Heard,
    line::Line,
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
    line: Line,
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
        let (client, line) = connect(source, &format!("Flint: {}", name.trigger), reach).await?;
        let opened = match &source.stream {
            Some(stream) => {
                Source::Stream(Box::new(Reading::open(&client, source, stream, name, position).await?))
            }
            None => {
                let subscriber = subscribe(&client, source, &line).await?;
                Source::Subject(Heard::new(subscriber, line.clone()))
            }
        };
        Ok(Self { source: opened, line, _client: client })
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
        self.line.missed()
    }

    /// Waits for messages, and returns those available.
    pub async fn next(&mut self, bounds: Bounds) -> Result<Batch, NatsError> {
        let mut batch = Batch { messages: Vec::new(), unacknowledged: Vec::new() };
        let mut bytes = 0;
        while batch.messages.len() < bounds.messages.max(1) && bytes < bounds.bytes.max(1) {
            let next = match batch.messages.is_empty() {
                true => Some(self.source.one(&self.line).await),
                false => self.source.one(&self.line).now_or_never(),
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
    /// The next message, or why there are no more once all that came are taken.
    async fn one(&mut self, line: &Line) -> Result<(Message, Option<Unacknowledged>), NatsError> {
        match self {
            Self::Stream(reading) => tokio::select! {
                biased;
                one = reading.one() => one.map(|(message, unacknowledged)| (message, Some(unacknowledged))),
                why = line.ended() => Err(NatsError::Ended(why)),
            },
            Self::Subject(heard) => match heard.one().await {
                Some(message) => Ok((message, None)),
                None => Err(NatsError::Ended(line.ended().await)),
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
