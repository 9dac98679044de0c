//! What every [`Feeds`](crate::Feeds) does.

use flint_model::{ByteSize, EntityPath, Feed, Timestamp};
use serde_json::json;

use super::{
    Driver, Opened,
    sample::{LONG, PLENTY, call, everybody, feed, namespace, trigger},
};
use crate::{Expected, StoreError};

const ALL: usize = usize::MAX;
const MANY: usize = 100;

/// A store with these triggers and their namespaces.
async fn with_triggers(driver: &dyn Driver, paths: &[&str]) -> Opened {
    let opened = driver.open().await;
    for path in paths {
        let trigger = trigger(path, 1);
        opened.catalog.put_namespace(&namespace(trigger.namespace.as_str())).await.unwrap();
        opened.catalog.put_entity(&trigger.into(), Expected::Absent).await.unwrap();
    }
    opened
}

fn path(text: &str) -> EntityPath {
    text.parse().unwrap()
}

fn is_conflict<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Conflict))
}

/// Puts a new feed, and gives it as it is stored.
async fn put(opened: &Opened, feed: Feed) -> Feed {
    let revision = opened.feeds.put_feed(&feed, Expected::Absent, MANY).await.unwrap();
    Feed { revision, ..feed }
}

/// They come back as they were written, also after reopening, in order of path.
pub async fn what_was_written_comes_back(driver: &dyn Driver) {
    let opened = with_triggers(driver, &["b/t", "a/u", "a/t"]).await;
    let mut written = Vec::new();
    for at in ["b/t", "a/u", "a/t"] {
        written.push(put(&opened, feed(at, 500)).await);
    }
    let identity = opened.feeds.identity().await.unwrap();
    assert!(identity.len() == 32 && identity.bytes().all(|byte| byte.is_ascii_hexdigit()), "{identity}");
    opened.close.await;
    let opened = driver.open().await;
    assert_eq!(opened.feeds.identity().await.unwrap(), identity);
    let expected = [&written[2], &written[1], &written[0]].map(Clone::clone);
    assert_eq!(opened.feeds.feeds(None, ALL, PLENTY).await.unwrap(), expected);
    assert_eq!(opened.feeds.feeds(Some(&path("a/t")), 1, PLENTY).await.unwrap(), expected[1..2]);
    assert_eq!(opened.feeds.feed(&path("a/u")).await.unwrap().as_ref(), Some(&written[1]));
    assert_eq!(opened.feeds.feed(&path("a/none")).await.unwrap(), None);
    assert!(opened.feeds.delete_feed(&path("a/u")).await.unwrap());
    assert!(!opened.feeds.delete_feed(&path("a/u")).await.unwrap());
    assert_eq!(opened.feeds.feed(&path("a/u")).await.unwrap(), None);
    // Whoever reads on from one that is gone misses none.
    assert_eq!(opened.feeds.feeds(Some(&path("a/u")), ALL, PLENTY).await.unwrap(), expected[2..]);
    opened.close.await;
}

/// A write needs its trigger and what it expects, and a namespace has no more of them than it may.
pub async fn a_write_needs_what_it_expects(driver: &dyn Driver) {
    let opened = with_triggers(driver, &["a/t", "a/u", "b/t"]).await;
    let feeds = &opened.feeds;
    assert!(is_conflict(feeds.put_feed(&feed("a/none", 1), Expected::Absent, MANY).await));
    assert!(is_conflict(feeds.put_feed(&feed("a/t", 1), Expected::Revision(1), MANY).await));
    let first = put(&opened, feed("a/t", 1)).await;
    assert!(is_conflict(feeds.put_feed(&first, Expected::Absent, MANY).await));
    let second = Feed { fired: 7, ..first.clone() };
    let revision = feeds.put_feed(&second, Expected::Revision(first.revision), 1).await.unwrap();
    assert!(revision > first.revision, "and the one that is there may be written however few are allowed");
    assert!(is_conflict(feeds.put_feed(&first, Expected::Revision(first.revision), MANY).await));
    let refused = feeds.put_feed(&feed("a/u", 1), Expected::Absent, 1).await;
    assert!(matches!(refused, Err(StoreError::TooMany { allowed: 1 })), "{refused:?}");
    feeds.put_feed(&feed("b/t", 1), Expected::Absent, 1).await.unwrap();
    assert_eq!(feeds.feed(&path("a/t")).await.unwrap(), Some(Feed { revision, ..second }));
    opened.close.await;
}

/// Those that are due come first, and only they.
pub async fn what_is_due_comes_in_order(driver: &dyn Driver) {
    let opened = with_triggers(driver, &["a/t", "a/u", "a/v", "b/t"]).await;
    let feeds = &opened.feeds;
    assert_eq!(feeds.next_due().await.unwrap(), None);
    let mut rests = feed("a/v", 1);
    rests.next = None;
    put(&opened, rests).await;
    assert_eq!(feeds.next_due().await.unwrap(), None);
    for (at, due) in [("a/t", 300), ("a/u", 100), ("b/t", 200)] {
        put(&opened, feed(at, due)).await;
    }
    let at = Timestamp::from_millis;
    let due = async |now, limit| -> Vec<String> {
        let due = feeds.due_feeds(at(now), limit, PLENTY).await.unwrap();
        due.iter().map(|feed| feed.path().to_string()).collect()
    };
    assert_eq!(feeds.next_due().await.unwrap(), Some(at(100)));
    assert_eq!(due(99, 9).await, [""; 0]);
    assert_eq!(due(200, 9).await, ["a/u", "b/t"]);
    assert_eq!(due(1000, 2).await, ["a/u", "b/t"]);
    assert_eq!(due(1000, 9).await, ["a/u", "b/t", "a/t"]);
    opened.close.await;
}

/// What is read at once is bounded in bytes, and whoever reads on gets all of it.
pub async fn a_portion_is_bounded_in_bytes(driver: &dyn Driver) {
    const PAYLOAD: u64 = 100_000;
    let opened = with_triggers(driver, &["a/t", "a/u", "a/v", "b/t"]).await;
    let feeds = &opened.feeds;
    for at in ["a/t", "a/u", "a/v", "b/t"] {
        let mut large = feed(at, 100);
        large.payload = serde_json::from_value(json!({"x": "x".repeat(PAYLOAD as usize)})).unwrap();
        put(&opened, large).await;
    }
    for (most, count) in
        [(0, 1), (PAYLOAD / 2, 1), (PAYLOAD * 3 / 2, 1), (PAYLOAD * 5 / 2, 2), (PAYLOAD * 9, 4)]
    {
        let due = feeds.due_feeds(Timestamp::from_millis(100), MANY, ByteSize::bytes(most)).await.unwrap();
        assert_eq!(due.len(), count, "{most}");
        let (mut behind, mut read) = (None, 0);
        loop {
            let portion = feeds.feeds(behind.as_ref(), MANY, ByteSize::bytes(most)).await.unwrap();
            let Some(last) = portion.last() else { break };
            assert!(portion.len() <= count, "{most}");
            (behind, read) = (Some(last.path()), read + portion.len());
        }
        assert_eq!(read, 4);
    }
    opened.close.await;
}

/// What a firing calls and how the feed goes on are one: both, or neither.
pub async fn a_firing_is_one_commit(driver: &dyn Driver) {
    let opened = with_triggers(driver, &["a/t"]).await;
    let (feeds, queue) = (&opened.feeds, &opened.queue);
    let before = put(&opened, feed("a/t", 100)).await;
    let after = Feed { next: Some(Timestamp::from_millis(200)), fired: 1, ..before.clone() };
    let calls = || vec![call("a", 1, 3), call("a", 2, 3)];
    let revision = feeds.go_on(&after, calls(), Some(("me", LONG))).await.unwrap();
    assert!(revision > before.revision);
    assert_eq!(feeds.feed(&path("a/t")).await.unwrap(), Some(Feed { revision, ..after.clone() }));
    assert_eq!(queue.depth(None).await.unwrap(), 2);
    assert!(queue.lease("you", 9, LONG, everybody()).await.unwrap().is_empty(), "its calls have a holder");
    // Twice for one instant, by somebody who has not seen the first time.
    assert!(is_conflict(feeds.go_on(&after, calls(), None).await));
    // A call that cannot be accepted keeps the feed where it was.
    let known = calls();
    queue.enqueue_due(known[1].clone()).await.unwrap();
    let again = Feed { revision, fired: 2, ..after.clone() };
    assert!(is_conflict(feeds.go_on(&again, known, None).await));
    assert_eq!(queue.depth(None).await.unwrap(), 3);
    assert_eq!(feeds.feed(&path("a/t")).await.unwrap().map(|feed| feed.fired), Some(1));
    // One that calls nothing goes on too.
    feeds.go_on(&again, Vec::new(), None).await.unwrap();
    opened.close.await;
}

/// A feed goes with its trigger, and with its namespace; another trigger of that name has none.
pub async fn it_goes_with_its_trigger(driver: &dyn Driver) {
    let opened = with_triggers(driver, &["a/t", "a/u", "b/t"]).await;
    let (feeds, catalog) = (&opened.feeds, &opened.catalog);
    let mut revisions = Vec::new();
    for at in ["a/t", "a/u", "b/t"] {
        revisions.push(put(&opened, feed(at, 1)).await.revision);
    }
    let EntityPath { namespace, name } = path("a/t");
    let there = catalog.entity(&namespace, None, &name).await.unwrap().unwrap();
    // Written anew, it keeps its feed.
    let rewritten = catalog.put_entity(&there, Expected::Revision(there.revision())).await.unwrap();
    assert!(feeds.feed(&path("a/t")).await.unwrap().is_some());
    catalog.delete_entity(&namespace, None, &name, rewritten).await.unwrap();
    assert_eq!(feeds.feed(&path("a/t")).await.unwrap(), None);
    catalog.put_entity(&trigger("a/t", 2).into(), Expected::Absent).await.unwrap();
    assert_eq!(feeds.feed(&path("a/t")).await.unwrap(), None);
    let late = Feed { revision: revisions[0], ..feed("a/t", 1) };
    assert!(is_conflict(feeds.go_on(&late, Vec::new(), None).await));
    assert!(catalog.delete_namespace(&namespace).await.unwrap());
    let left: Vec<_> =
        feeds.feeds(None, ALL, PLENTY).await.unwrap().iter().map(|feed| feed.path().to_string()).collect();
    assert_eq!(left, ["b/t"]);
    opened.close.await;
}
