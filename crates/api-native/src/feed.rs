//! Publishes ended activations to clients that follow logs.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use flint_model::{Activation, LogLine, LogStream, NamespaceName};
use serde_json::{json, value::to_raw_value};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

/// Records that a slow follower may lag behind before it misses some.
const BACKLOG: usize = 256;
/// Maximum followers per namespace, since each keeps unread records in memory.
pub(crate) const FOLLOWERS: usize = 32;
/// Maximum bytes of a record's log lines for followers, including overhead: the whole backlog stays in memory
/// for a follower that does not read.
const MOST_LOGS: usize = 256 << 10;
/// Maximum bytes of a record's result for followers.
const MOST_RESULT: usize = 64 << 10;
const LEFT_OUT: &str = "(the rest is in the record: ask for this activation by its id)";

/// Publishes every ended activation to the followers of its namespace. Costs nothing while there are none.
#[derive(Clone, Debug, Default)]
pub struct ActivationFeed(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Namespaces with followers.
    followed: Mutex<HashMap<NamespaceName, Followed>>,
    /// Number of these namespaces.
    count: AtomicUsize,
    closed: CancellationToken,
}

#[derive(Debug)]
struct Followed {
    sender: broadcast::Sender<Arc<Activation>>,
    followers: usize,
}

impl Shared {
    fn followed(&self) -> MutexGuard<'_, HashMap<NamespaceName, Followed>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActivationFeed {
    /// Whether a namespace has followers.
    pub fn is_followed(&self, namespace: &NamespaceName) -> bool {
        self.sender(namespace).is_some()
    }

    /// Publishes a record to its namespace's followers.
    pub fn publish(&self, record: &Activation) {
        let Some(sender) = self.sender(&record.namespace) else { return };
        let mut record = record.clone();
        cut(&mut record);
        // Fails only if the last follower has just gone.
        let _ = sender.send(Arc::new(record));
    }

    /// Ends all streams, when the server stops.
    pub fn close(&self) {
        self.0.closed.cancel();
    }

    /// Subscribes to a namespace; `None` if it has [`FOLLOWERS`] followers already.
    pub(crate) fn follow(&self, namespace: &NamespaceName) -> Option<Follower> {
        let mut all = self.0.followed();
        let new = || Followed { sender: broadcast::Sender::new(BACKLOG), followers: 0 };
        let followed = all.entry(namespace.clone()).or_insert_with(new);
        if followed.followers == FOLLOWERS {
            return None;
        }
        followed.followers += 1;
        let records = followed.sender.subscribe();
        self.0.count.store(all.len(), Ordering::Release);
        Some(Follower { records, namespace: namespace.clone(), feed: self.clone() })
    }

    fn sender(&self, namespace: &NamespaceName) -> Option<broadcast::Sender<Arc<Activation>>> {
        if self.0.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.0.followed().get(namespace).map(|followed| followed.sender.clone())
    }
}

/// Truncates a record to what followers get.
fn cut(record: &mut Activation) {
    cut_logs(&mut record.logs);
    let result = &mut record.response.result;
    if result.as_ref().is_some_and(|result| result.get().len() > MOST_RESULT) {
        *result = to_raw_value(&json!({ "left_out": LEFT_OUT })).ok();
    }
}

/// Truncates log lines for clients that did not ask for this activation's logs.
pub(crate) fn cut_logs(lines: &mut Vec<LogLine>) {
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

/// A subscription to one namespace.
pub(crate) struct Follower {
    records: broadcast::Receiver<Arc<Activation>>,
    namespace: NamespaceName,
    feed: ActivationFeed,
}

/// An item of the stream.
pub(crate) enum News {
    Ended(Arc<Activation>),
    /// This many records were missed because the follower was too slow.
    Missed(u64),
}

impl Follower {
    /// The next item; `None` when the server is stopping. Cancellation-safe.
    pub(crate) async fn next(&mut self) -> Option<News> {
        tokio::select! {
            () = self.feed.0.closed.cancelled() => None,
            record = self.records.recv() => match record {
                Ok(record) => Some(News::Ended(record)),
                Err(broadcast::error::RecvError::Lagged(count)) => Some(News::Missed(count)),
                Err(broadcast::error::RecvError::Closed) => None,
            },
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut all = self.feed.0.followed();
        if let Some(followed) = all.get_mut(&self.namespace) {
            followed.followers -= 1;
            if followed.followers == 0 {
                all.remove(&self.namespace);
            }
        }
        self.feed.0.count.store(all.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use flint_model::{ActivationId, Annotations, Response, Status, Timeline, Timestamp, Usage, Version};

    use super::*;

    fn record(namespace: &str) -> Activation {
        let path = format!("{namespace}/f").parse().unwrap();
        Activation {
            id: ActivationId::generate(),
            namespace: namespace.parse().unwrap(),
            name: "f".parse().unwrap(),
            path,
            version: Version::FIRST,
            kind: None,
            subject: namespace.to_owned(),
            cause: None,
            start: Timestamp::now(),
            end: Timestamp::now(),
            duration_us: 0,
            init_us: None,
            wait_us: 0,
            timeline: Timeline::default(),
            response: Response {
                status: Status::Success,
                result: None,
                size: flint_model::ByteSize::bytes(0),
                content_type: None,
            },
            usage: Usage::default(),
            timed_out: false,
            attempts: Vec::new(),
            logs: Vec::new(),
            components: Vec::new(),
            fired: Vec::new(),
            annotations: Annotations::default(),
        }
    }

    #[tokio::test]
    async fn what_a_follower_hears_and_misses_is_of_its_namespace() {
        let feed = ActivationFeed::default();
        let mine = record("mine");
        let mut follower = feed.follow(&mine.namespace).unwrap();
        feed.publish(&mine);
        for _ in 0..2 * BACKLOG {
            feed.publish(&record("theirs"));
        }
        assert!(matches!(follower.next().await, Some(News::Ended(heard)) if heard.id == mine.id));
        for _ in 0..BACKLOG + 3 {
            feed.publish(&mine);
        }
        assert!(matches!(follower.next().await, Some(News::Missed(3))));
        feed.close();
        // Pending items may be received before the end.
        while follower.next().await.is_some() {}
    }

    #[test]
    fn so_many_follow_a_namespace_and_who_goes_makes_room() {
        let feed = ActivationFeed::default();
        let (mine, theirs) = ("mine".parse().unwrap(), "theirs".parse().unwrap());
        assert!(!feed.is_followed(&mine));
        let mut followers: Vec<_> = (0..FOLLOWERS).map(|_| feed.follow(&mine).unwrap()).collect();
        assert!(feed.follow(&mine).is_none());
        assert!(feed.follow(&theirs).is_some() && !feed.is_followed(&theirs));
        followers.pop();
        assert!(feed.follow(&mine).is_some() && feed.is_followed(&mine));
        drop(followers);
        assert!(!feed.is_followed(&mine) && feed.0.followed().is_empty());
    }

    #[test]
    fn of_large_records_followers_get_what_is_small() {
        let mut large = record("mine");
        let result = |length: usize| to_raw_value(&"x".repeat(length)).ok();
        large.response.result = result(MOST_RESULT);
        let line =
            |length: usize| LogLine { time_us: 7, stream: LogStream::Stdout, text: "x".repeat(length) };
        large.logs = vec![line(5), line(MOST_LOGS), line(5)];
        cut(&mut large);
        assert_eq!(large.response.result.unwrap().get(), format!("{{\"left_out\":\"{LEFT_OUT}\"}}"));
        let texts: Vec<_> = large.logs.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["xxxxx", LEFT_OUT]);
        let mut small = record("mine");
        small.response.result = result(5);
        cut(&mut small);
        assert_eq!(small.response.result.unwrap().get(), "\"xxxxx\"");
    }
}
