//! The queue of messages from a plain subject. The broker does not keep them, so they are read from the
//! connection at once. The queue is bounded in bytes, so that a fast sender does not exhaust memory; messages
//! that do not fit are dropped and counted as missed.

use std::{pin::pin, sync::Arc};

use async_nats::{Event, Subscriber};
use futures_util::StreamExt;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinSet,
};

use crate::{Message, line::Line, receiver::as_message};

/// Capacity in bytes. A larger message waits alone.
const ROOM: usize = 8 << 20;
/// Capacity in messages.
const MOST: usize = 16 * 1024;
/// Memory per message besides its parts.
const BESIDE: usize = 256;

/// A subscription and its queue.
pub(crate) struct Heard {
    waiting: mpsc::Receiver<(Message, OwnedSemaphorePermit)>,
    /// Reads from the connection; aborted on drop.
    _taking: JoinSet<()>,
}

impl Heard {
    /// Queues the messages of `subscriber` while the connection lasts.
    pub(crate) fn new(subscriber: Subscriber, line: Line) -> Self {
        let (sender, waiting) = mpsc::channel(MOST);
        let mut taking = JoinSet::new();
        taking.spawn(take(subscriber, sender, line));
        Self { waiting, _taking: taking }
    }

    /// The next message; `None` once the connection has ended and the queue is empty.
    pub(crate) async fn one(&mut self) -> Option<Message> {
        let (message, _room) = self.waiting.recv().await?;
        Some(message)
    }
}

async fn take(mut subscriber: Subscriber, sender: mpsc::Sender<(Message, OwnedSemaphorePermit)>, line: Line) {
    let room = Arc::new(Semaphore::new(ROOM));
    let mut ended = pin!(line.ended());
    loop {
        let message = tokio::select! {
            biased;
            message = subscriber.next() => message,
            _ = &mut ended => None,
        };
        let Some(message) = message else { return line.tell(Event::Closed) };
        let size = (message.length + BESIDE).min(ROOM) as u32;
        let place = Arc::clone(&room).try_acquire_many_owned(size).ok();
        let put = place.and_then(|place| sender.try_send((as_message(message, None), place)).ok());
        if put.is_none() {
            line.miss();
        }
    }
}
