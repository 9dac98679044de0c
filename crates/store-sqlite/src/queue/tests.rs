//! Calls that end while their records cannot be written.

use flint_model::{Activation, ByteSize, DeadLetterReason};
use flint_store::{
    DeadLetterBounds, DeadLetters, SystemClock, WhenFull,
    conformance::sample::{LONG, activation, call, namespace_name},
};

use super::*;
use crate::{StoreConfig, SyncMode, database, dead_letters::SqliteDeadLetters, readers::Readers};

/// The record has to be there before its call is gone: a crash in between would lose both.
#[tokio::test]
async fn a_call_whose_record_cannot_be_written_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flint.db");
    let connection = database::open_writer(&path, SyncMode::ProcessOnly).unwrap();
    connection.execute("INSERT INTO namespaces VALUES ('guest', '{}')", []).unwrap();
    let log = |syncs| {
        let activations = dir.path().join("activations");
        Arc::new(SegmentLog::failing(activations, &StoreConfig::new(dir.path()), syncs))
    };
    let failing = log(u32::MAX);
    let queue = SqliteQueue {
        writer: Arc::new(Writer::start(connection, |_| ()).unwrap()),
        tally: Arc::default(),
        log: Arc::clone(&failing),
        clock: Arc::new(SystemClock),
        turns: Default::default(),
        holders: Arc::default(),
    };
    let letters = |queue: &SqliteQueue| SqliteDeadLetters {
        writer: Arc::clone(&queue.writer),
        readers: Arc::new(Readers::new(path.clone())),
        tally: Arc::clone(&queue.tally),
        log: Arc::clone(&queue.log),
        clock: Arc::clone(&queue.clock),
    };
    let bounds = DeadLetterBounds { letters: 9, bytes: ByteSize::mib(1), when_full: WhenFull::DropOldest };
    let [over, dead] = [1, 2].map(|at| call("guest", at, 1));
    for call in [&over, &dead] {
        queue.enqueue_begun(call.clone(), "a", LONG).await.unwrap();
        failing.append(Activation { id: call.activation, ..activation("guest", "guest/work", 1, 1) });
    }
    let reason = DeadLetterReason::AttemptsUsed;
    let [over, dead] = [over, dead].map(|call| Lease::first(call.activation));
    queue.complete(over).await.unwrap_err();
    letters(&queue).bury(dead, reason, None, bounds).await.unwrap_err();
    assert_eq!(queue.depth(None).await.unwrap(), 2, "both are as they were");
    failing.stop();

    let queue = SqliteQueue { log: log(0), ..queue };
    assert!(queue.complete(over).await.unwrap());
    assert!(letters(&queue).bury(dead, reason, None, bounds).await.unwrap().kept);
    assert_eq!(queue.depth(Some(&namespace_name("guest"))).await.unwrap(), 0);
}
