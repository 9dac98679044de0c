//! News of activations that ended, for those who follow logs.

use std::sync::Arc;

use flint_model::{Activation, LogLine, LogStream};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

/// Records that a slow follower may lag behind before it misses some.
const BACKLOG: usize = 256;
/// Log lines that followers get of one record, in bytes, with what a line takes beside its text: all of the backlog stays in memory for one who does not read.
const MOST_LOGS: usize = 256 << 10;
const LEFT_OUT: &str = "(the rest is in the record: ask for this activation by its id)";

/// Tells followers of every activation that ends. Costs nothing while nobody follows.
#[derive(Clone, Debug)]
pub struct ActivationFeed {
    sender: broadcast::Sender<Arc<Activation>>,
    closed: CancellationToken,
}

impl Default for ActivationFeed {
    fn default() -> Self {
        Self { sender: broadcast::Sender::new(BACKLOG), closed: CancellationToken::new() }
    }
}

impl ActivationFeed {
    /// Whether anybody follows.
    pub fn is_followed(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// Tells those who follow.
    pub fn publish(&self, record: &Activation) {
        if self.is_followed() {
            let mut record = record.clone();
            cut(&mut record.logs);
            // Fails only when the last follower has just gone.
            let _ = self.sender.send(Arc::new(record));
        }
    }

    /// Ends every follower's stream: the server is stopping.
    pub fn close(&self) {
        self.closed.cancel();
    }

    pub(crate) fn follow(&self) -> Follower {
        Follower { records: self.sender.subscribe(), closed: self.closed.clone() }
    }
}

/// Leaves as many lines as followers get.
fn cut(lines: &mut Vec<LogLine>) {
    let mut room = MOST_LOGS;
    let fits = |line: &&LogLine| {
        let rest = room.checked_sub(size_of::<LogLine>() + line.text.len());
        room = rest.unwrap_or_default();
        rest.is_some()
    };
    let kept = lines.iter().take_while(fits).count();
    if let Some(first) = lines.get(kept) {
        let last = LogLine { time_us: first.time_us, stream: LogStream::Stderr, text: LEFT_OUT.to_owned() };
        lines.truncate(kept);
        lines.push(last);
        lines.shrink_to_fit();
    }
}

/// One who follows.
pub(crate) struct Follower {
    records: broadcast::Receiver<Arc<Activation>>,
    closed: CancellationToken,
}

/// What a follower hears.
pub(crate) enum News {
    Ended(Arc<Activation>),
    /// So many were missed, because they came faster than they were read.
    Missed(u64),
}

impl Follower {
    /// The next news; `None` when the server is stopping. Cancellation-safe.
    pub(crate) async fn next(&mut self) -> Option<News> {
        tokio::select! {
            () = self.closed.cancelled() => None,
            record = self.records.recv() => match record {
                Ok(record) => Some(News::Ended(record)),
                Err(broadcast::error::RecvError::Lagged(count)) => Some(News::Missed(count)),
                Err(broadcast::error::RecvError::Closed) => None,
            },
        }
    }
}
