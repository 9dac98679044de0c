//! Reads streams (JetStream): messages are read in order, from a position that the reader keeps, and
//! acknowledged when they are processed.
//!
//! Each connection creates a consumer of its own that starts there. The consumer of an earlier connection
//! might have delivered messages that nobody received; it would redeliver them late, after others, and a
//! position cannot describe messages that come out of order. So the sequence numbers of a consumer must
//! follow each other without a gap; otherwise the reader starts over.

use std::{fmt, time::Duration};

use async_nats::{
    Client,
    jetstream::{
        self, AckKind,
        consumer::{AckPolicy, DeliverPolicy, pull},
        stream::{Info, RetentionPolicy, Stream},
    },
};
use flint_model::{Deliver, NatsSource, StreamPosition};
use futures_util::StreamExt;

use crate::{Message, Name, NatsError, connect::causes, receiver::as_message};

/// Time after which an unacknowledged message is redelivered.
const GIVEN_AGAIN: Duration = Duration::from_secs(60);
/// Maximum number of unacknowledged messages.
const UNDONE: i64 = 1000;
/// Messages per pull request.
const PULLED: usize = 256;
/// Bytes per pull request, or one message if that is larger; at most half as much again is buffered here.
const PULLED_BYTES: usize = 8 << 20;
/// Allowance for a message's subject and reply subject.
const BESIDE: usize = 16 * 1024;
/// How long the server keeps the consumer of an absent reader.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 3600);
/// Heartbeat interval; a server that is silent for twice as long is gone.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// A reader of a stream.
pub(crate) struct Reading {
    stream: Stream,
    consumer: String,
    /// Where it begins.
    beginning: StreamPosition,
    messages: pull::Stream,
    /// Number of messages the consumer has delivered.
    given: u64,
}

/// The acknowledgement of a delivered message.
pub(crate) struct Unacknowledged(jetstream::message::Acker);

impl fmt::Debug for Unacknowledged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unacknowledged")
    }
}

impl Reading {
    pub(crate) async fn open(
        client: &Client,
        source: &NatsSource,
        name: &str,
        who: Name<'_>,
        position: Option<&StreamPosition>,
    ) -> Result<Self, NatsError> {
        let failed =
            |error: &dyn std::error::Error| NatsError::Stream { stream: name.to_owned(), why: causes(error) };
        let stream = jetstream::new(client.clone()).get_stream(name).await.map_err(|error| failed(&error))?;
        let info = stream.cached_info();
        let is_queue = info.config.retention == RetentionPolicy::WorkQueue;
        let beginning = beginning(info, source, position);

        let family = family_of(&format!("{} {}", who.store, who.trigger));
        let consumer = format!("{family}{}", client.new_inbox().rsplit('.').next().unwrap_or_default());
        let config = pull::Config {
            durable_name: Some(consumer.clone()),
            description: Some(format!("Flint: {}", who.trigger)),
            filter_subject: source.subject.clone(),
            deliver_policy: match is_queue {
                // A work queue contains only unprocessed messages, and cannot be read in any other way.
                true => DeliverPolicy::All,
                false => DeliverPolicy::ByStartSequence { start_sequence: beginning.sequence + 1 },
            },
            ack_policy: AckPolicy::Explicit,
            ack_wait: GIVEN_AGAIN,
            max_ack_pending: UNDONE,
            inactive_threshold: REMEMBERED,
            ..pull::Config::default()
        };
        // Earlier versions named consumers by the trigger alone, including that of a reader that resumes now.
        if position.is_some() {
            forget(&stream, &family_of(who.trigger), None).await;
        }
        // A work queue permits one consumer per subject at a time, so the old one has to go first. Elsewhere
        // it goes last, since an interest-based stream drops messages without a consumer.
        if is_queue {
            forget(&stream, &family, None).await;
        }
        let reader = stream.create_consumer(config).await.map_err(|error| failed(&error))?;
        forget(&stream, &family, Some(&consumer)).await;
        let messages = reader
            .stream()
            .max_messages_per_batch(PULLED)
            .max_bytes_per_batch(PULLED_BYTES.max(client.server_info().max_payload + BESIDE))
            .heartbeat(HEARTBEAT)
            .expires(HEARTBEAT * 3)
            .messages()
            .await
            .map_err(|error| failed(&error))?;
        Ok(Self { stream, consumer, beginning, messages, given: 0 })
    }

    /// The beginning: messages up to there are unwanted or were read before.
    pub(crate) fn beginning(&self) -> &StreamPosition {
        &self.beginning
    }

    pub(crate) async fn one(&mut self) -> Result<(Message, Unacknowledged), NatsError> {
        let message = match self.messages.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => return Err(NatsError::Ended(causes(&error))),
            None => return Err(NatsError::Ended("the server cannot be reached any more".to_owned())),
        };
        let info = message.info().map_err(|error| NatsError::Ended(error.to_string()))?;
        let (sequence, given) = (info.stream_sequence, info.consumer_sequence);
        if given != self.given + 1 {
            return Err(NatsError::Ended("a message was lost on its way, and is asked for again".to_owned()));
        }
        self.given = given;
        let (message, acker) = message.split();
        Ok((as_message(message, Some(sequence)), Unacknowledged(acker)))
    }

    /// Deletes the consumer, since this reader will not come back.
    pub(crate) async fn forget(self) {
        let _ = self.stream.delete_consumer(&self.consumer).await; // else the server forgets it by itself later
    }
}

/// The common prefix of the names of a reader's consumers.
fn family_of(who: &str) -> String {
    format!("flint-{}-", &blake3::hash(who.as_bytes()).to_hex()[..20])
}

/// Where to begin: after the position, if it is one of this stream and not of an earlier one of the same
/// name. In a work queue, messages of another subject were not read before, whatever their numbers.
fn beginning(info: &Info, source: &NatsSource, position: Option<&StreamPosition>) -> StreamPosition {
    let is_queue = info.config.retention == RetentionPolicy::WorkQueue;
    let stream = match is_queue {
        true => format!("{} {}", info.created, source.subject),
        false => info.created.to_string(),
    };
    let before_all = info.state.first_sequence.saturating_sub(1);
    // A position beyond the end means that the stream has lost its end; numbers are assigned again from
    // there.
    let is_of_it = |position: &&StreamPosition| {
        position.stream == stream && position.sequence <= info.state.last_sequence
    };
    match (position.filter(is_of_it), source.deliver) {
        (Some(position), _) => position.clone(),
        (None, Deliver::New) if !is_queue => StreamPosition { stream, sequence: info.state.last_sequence },
        // A work queue's messages are there to be processed.
        (None, _) => StreamPosition { stream, sequence: before_all },
    }
}

/// Deletes the consumers of earlier connections. Those of other Flint servers have other names.
async fn forget(stream: &Stream, family: &str, except: Option<&str>) {
    let mut names = stream.consumer_names();
    let mut old = Vec::new();
    while let Some(Ok(name)) = names.next().await {
        if name.starts_with(family) && Some(name.as_str()) != except {
            old.push(name);
        }
    }
    for name in old {
        if let Err(error) = stream.delete_consumer(&name).await {
            tracing::debug!(consumer = name, %error, "the server forgets this reader by itself later");
        }
    }
}

impl Unacknowledged {
    pub(crate) async fn keep(&self) {
        self.tell(AckKind::Progress).await;
    }

    pub(crate) async fn done(self) {
        self.tell(AckKind::Ack).await;
    }

    /// If this does not reach the server, it redelivers the message, which is recognised by its number.
    async fn tell(&self, what: AckKind) {
        if let Err(error) = self.0.ack_with(what).await {
            tracing::debug!(%error, "an acknowledgement was not sent");
        }
    }
}
