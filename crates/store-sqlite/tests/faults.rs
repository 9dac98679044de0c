//! What is refused, with which words, and what repairs itself: the data directory, the database and what is in it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
};

use bytes::Bytes;
use common::{ALL, open};
use flint_model::{Feed, Timestamp};
use flint_store::{
    DeadLetterBounds, Expected, Lease, QueuedCall, StoreError,
    conformance::sample::{LONG, PLENTY, call, everybody, feed, function, inhabit, namespace_name, trigger},
};
use flint_store_sqlite::{SqliteStore, StoreConfig};

#[tokio::test]
async fn a_second_server_is_refused_until_the_first_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 1 << 20);
    let refused = SqliteStore::open(StoreConfig::new(dir.path())).err().unwrap();
    assert!(
        matches!(&refused, StoreError::InUse { path, pid } if path == dir.path() && *pid == std::process::id()),
        "{refused}"
    );
    let (catalog, queue, log) = (store.catalog(), store.queue(), store.activations());
    store.close().await.unwrap();
    let store = open(dir.path(), 1 << 20);
    // Whoever still holds a part of the first is told so, and does not wait.
    for late in [
        catalog.all_functions().await.err(),
        catalog.put_function(&function("guest/a", 1), Expected::Absent).await.err(),
        queue.enqueue(call("guest", 1, 1), "a", LONG).await.err(),
        log.flush().await.err(),
    ] {
        assert!(late.unwrap().to_string().contains("the store is closed"));
    }
    drop(store);
    drop(open(dir.path(), 1 << 20));
}

/// As a command does that asks whether there is a server.
#[tokio::test]
async fn who_only_looks_at_the_lock_keeps_no_server_from_starting() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), 1 << 20));
    let lock = std::fs::File::open(dir.path().join("flint.lock")).unwrap();
    lock.lock_shared().unwrap();
    std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(10));
        drop(lock);
    });
    drop(open(dir.path(), 1 << 20));
}

/// Also in a directory that was there and that others may look into.
#[tokio::test]
async fn the_database_is_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let store = open(dir.path(), 1 << 20);
    inhabit(&*store.catalog()).await;
    // SQLite gives the files beside it the same mode.
    let modes = || {
        ["flint.db", "flint.db-wal", "flint.lock", "activations", "blobs"]
            .map(|name| fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777)
    };
    assert_eq!(modes(), [0o600, 0o600, 0o600, 0o700, 0o700]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn code_that_a_crash_left_half_written_goes_and_its_directory_stays() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), 1 << 20));
    let temporary = dir.path().join("blobs/tmp");
    let before = fs::metadata(&temporary).unwrap().ino();
    fs::write(temporary.join("7"), b"half of").unwrap();
    drop(open(dir.path(), 1 << 20));
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
    // Made anew, it might be another user's.
    assert_eq!(fs::metadata(&temporary).unwrap().ino(), before);
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), 1 << 20));
    let database = rusqlite::Connection::open(dir.path().join("flint.db")).unwrap();
    database.pragma_update(None, "user_version", 1000).unwrap();
    drop(database);
    let refused = SqliteStore::open(StoreConfig::new(dir.path())).err().unwrap();
    assert!(matches!(refused, StoreError::TooNew { found: 1000, .. }), "{refused}");
}

#[tokio::test]
async fn a_damaged_database_is_refused_with_the_repair_step() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 1 << 20);
    inhabit(&*store.catalog()).await;
    for at in 0..300 {
        store.queue().enqueue(call("guest", at, 3), "a", LONG).await.unwrap();
    }
    store.close().await.unwrap();
    let path = dir.path().join("flint.db");
    let whole = fs::read(&path).unwrap();
    let pages = whole.len() / 4096;
    // The header; then pages in the middle, of which some are of tables and some of indexes.
    for page in [0, 2, pages / 4, pages / 2, pages - 1] {
        let mut broken = whole.clone();
        broken[page * 4096..(page + 1) * 4096].fill(0xA5);
        fs::write(&path, &broken).unwrap();
        let refused = SqliteStore::open(StoreConfig::new(dir.path())).err();
        let refused =
            refused.unwrap_or_else(|| panic!("page {page} of {pages} is broken, and nobody noticed"));
        assert!(matches!(&refused, StoreError::Damaged { path: named, .. } if *named == path), "{refused}");
        assert!(refused.to_string().contains("flint restore"), "{refused}");
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(open(dir.path(), 1 << 20).queue().depth(None).await.unwrap(), 300);
}

#[tokio::test]
async fn a_lost_database_is_refused_while_there_is_code() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 1 << 20);
    let digest = store.blobs().put(bytes::Bytes::from_static(b"some code")).await.unwrap();
    store.close().await.unwrap();
    let path = dir.path().join("flint.db");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, b"").unwrap();
    fs::write(dir.path().join("flint.db-wal"), [7; 4096]).unwrap();
    for _ in 0..2 {
        let refused = SqliteStore::open(StoreConfig::new(dir.path())).err().unwrap();
        assert!(matches!(&refused, StoreError::Damaged { path: named, .. } if *named == path), "{refused}");
        let _ = fs::remove_file(&path);
    }
    fs::write(&path, &whole).unwrap();
    fs::remove_file(dir.path().join("flint.db-wal")).unwrap();
    assert!(open(dir.path(), 1 << 20).blobs().get(digest).await.unwrap().is_some());
}

#[tokio::test]
async fn damaged_code_is_refused_and_healed_by_storing_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 1 << 20);
    let content = Bytes::from_static(b"exports.main = () => 42");
    let digest = store.blobs().put(content.clone()).await.unwrap();
    let text = digest.to_string();
    let path = dir.path().join("blobs").join(&text[..2]).join(&text[2..]);
    fs::write(&path, b"exports.main = () => 41").unwrap();
    let refused = store.blobs().get(digest).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Damaged { path: named, .. } if *named == path), "{refused}");
    assert_eq!(store.blobs().put(content.clone()).await.unwrap(), digest);
    assert_eq!(store.blobs().get(digest).await.unwrap(), Some(content));
}

/// Whatever of it cannot be read, a call takes no other with it, and everybody can see that it is there.
#[tokio::test]
async fn a_call_that_cannot_be_read_holds_up_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 1 << 20);
    inhabit(&*store.catalog()).await;
    // Of each kind of damage one call that is due, one that runs, and one that has had all its attempts.
    let damages = [
        "policy = '{\"max'",
        "earlier = '[{'",
        "earlier = '[{\"start\":1}]'",
        "path = 'guest'",
        "path = CAST(x'67ff' AS TEXT)",
        "namespace = CAST(x'67ff' AS TEXT)",
        "namespace = CAST('guest' AS BLOB)",
        "activation = x'00' || activation",
        "lease = 'many'",
        "size = 'many'",
    ];
    let queue = store.queue();
    let mut damaged = Vec::new();
    for _ in 0..damages.len() {
        let due = call("guest", 1, 3);
        let (running, last) = (call("guest", 1, 3), call("guest", 1, 1));
        queue.enqueue_due(due.clone()).await.unwrap();
        for begun in [&running, &last] {
            queue.enqueue_begun(begun.clone(), "a", LONG).await.unwrap();
        }
        damaged.push([due, running, last].map(|call| call.activation));
    }
    let whole = [call("guest", 2, 3), call("other", 2, 3)];
    for call in &whole {
        queue.enqueue_due(call.clone()).await.unwrap();
    }
    drop(queue);
    store.close().await.unwrap();
    let database = rusqlite::Connection::open(dir.path().join("flint.db")).unwrap();
    for (damage, calls) in damages.iter().zip(&damaged) {
        for call in calls {
            let sql = format!("UPDATE calls SET {damage} WHERE activation = ?1");
            assert_eq!(database.execute(&sql, [call.as_u128().to_be_bytes()]).unwrap(), 1);
        }
    }
    drop(database);

    for owner in ["b", "c"] {
        let store = open(dir.path(), 1 << 20);
        let queue = store.queue();
        queue.release_all_except(owner).await.unwrap();
        let leased = queue.lease(owner, 100, LONG, everybody()).await.unwrap();
        assert_eq!(leased.len(), 2);
        assert!(whole.iter().all(|call| leased.iter().any(|leased| leased.call == *call)));
        let again = queue.lease_again(owner, 100, LONG, everybody()).await.unwrap();
        assert!(again.is_empty(), "{again:?}");
        let exhausted = queue.take_exhausted(100).await.unwrap();
        // Nobody needs the size of one that is over.
        assert!(exhausted.len() <= 1, "{exhausted:?}");
        assert_eq!(queue.unreadable().await.unwrap(), 3 * damages.len() - exhausted.len());
        assert_eq!(queue.depth(None).await.unwrap(), 2 + exhausted.len());
        drop(queue);
        store.close().await.unwrap();
    }
}

/// Nor do the feeds of all namespaces stop because of one.
#[tokio::test]
async fn a_feed_that_cannot_be_read_holds_up_no_others() {
    const MANY: usize = 100;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 1 << 20);
    inhabit(&*store.catalog()).await;
    let damages = [
        "body = '{\"namespace'",
        "body = CAST(x'67ff' AS TEXT)",
        "body = CAST(body AS BLOB)",
        "body = replace(body, '\"trigger\":\"', '\"trigger\":\"x')",
        "revision = 'many'",
        "revision = revision + 1",
    ];
    let put = async |at: &str, due| {
        store.catalog().put_entity(&trigger(at, 1).into(), Expected::Absent).await.unwrap();
        let put = store.feeds().put_feed(&feed(at, due), Expected::Absent, MANY).await;
        Feed { revision: put.unwrap(), ..feed(at, due) }
    };
    for number in 0..damages.len() {
        put(&format!("guest/damaged{number}"), 100).await;
    }
    let whole = [put("guest/whole", 200).await, put("other/whole", 300).await];
    store.close().await.unwrap();
    let database = rusqlite::Connection::open(dir.path().join("flint.db")).unwrap();
    for (number, damage) in damages.iter().enumerate() {
        let sql = format!("UPDATE feeds SET {damage} WHERE trigger = ?1");
        assert_eq!(database.execute(&sql, [format!("damaged{number}")]).unwrap(), 1);
    }
    drop(database);

    for _ in 0..2 {
        let store = open(dir.path(), 1 << 20);
        let feeds = store.feeds();
        let first = feeds.feeds(None, 1, PLENTY).await.unwrap();
        assert_eq!(first, whole[..1]);
        assert_eq!(feeds.feeds(Some(&first[0].path()), 1, PLENTY).await.unwrap(), whole[1..]);
        // As many as there are damaged ones, so that these alone would fill it.
        let due = feeds.due_feeds(Timestamp::from_millis(1000), damages.len(), PLENTY).await.unwrap();
        assert_eq!(due, whole);
        assert_eq!(feeds.next_due().await.unwrap(), Some(Timestamp::from_millis(200)));
        let alone = feeds.feed(&"guest/damaged0".parse().unwrap()).await.unwrap_err();
        assert!(matches!(alone, StoreError::Damaged { .. }), "{alone}");
        drop(feeds);
        store.close().await.unwrap();
    }
    let store = open(dir.path(), 1 << 20);
    assert!(store.feeds().delete_feed(&"guest/damaged0".parse().unwrap()).await.unwrap());
    store.feeds().put_feed(&feed("guest/damaged0", 100), Expected::Absent, MANY).await.unwrap();
    assert_eq!(store.feeds().next_due().await.unwrap(), Some(Timestamp::from_millis(100)));
    store.close().await.unwrap();
}

/// Makes a letter of a call.
async fn bury(store: &SqliteStore, call: &QueuedCall) {
    store.queue().enqueue_begun(call.clone(), "a", LONG).await.unwrap();
    let bounds = DeadLetterBounds {
        letters: 9,
        bytes: flint_model::ByteSize::mib(1),
        when_full: flint_store::WhenFull::DropOldest,
    };
    let (lease, reason) = (Lease::first(call.activation), flint_model::DeadLetterReason::AttemptsUsed);
    assert!(store.dead_letters().bury(lease, reason, None, bounds).await.unwrap().kept);
}

#[tokio::test]
async fn a_dead_letter_that_cannot_be_read_is_left_out_of_lists() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 1 << 20);
    inhabit(&*store.catalog()).await;
    let letters = [call("guest", 1, 1), call("guest", 2, 1)];
    for letter in &letters {
        bury(&store, letter).await;
    }
    let database = rusqlite::Connection::open(dir.path().join("flint.db")).unwrap();
    let one = letters[0].activation;
    database
        .execute("UPDATE calls SET earlier = '[' WHERE activation = ?1", [one.as_u128().to_be_bytes()])
        .unwrap();
    let (guest, query) = (namespace_name("guest"), flint_store::LetterQuery::default());
    let listed = store.dead_letters().list(&guest, &query, ALL).await.unwrap();
    assert_eq!(
        listed.iter().map(|letter| letter.call.activation).collect::<Vec<_>>(),
        [letters[1].activation]
    );
    let alone = store.dead_letters().get(&guest, one).await.unwrap_err();
    assert!(matches!(alone, StoreError::Damaged { .. }), "{alone}");
    assert!(store.dead_letters().remove(&guest, one).await.unwrap());
    store.close().await.unwrap();
}

/// Counts are kept beside the database, and what fails halfway is undone there.
#[tokio::test]
async fn what_is_undone_counts_as_it_did_before() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 1 << 20);
    inhabit(&*store.catalog()).await;
    for at in [1, 2] {
        bury(&store, &call("guest", at, 1)).await;
    }
    let (letters, guest) = (store.dead_letters(), namespace_name("guest"));
    let before = letters.usage(Some(&guest)).await.unwrap();
    // The second of two removals fails.
    let database = rusqlite::Connection::open(dir.path().join("flint.db")).unwrap();
    let last = "(SELECT count(*) FROM calls) = 1";
    let failing = format!(
        "CREATE TRIGGER failing BEFORE DELETE ON calls WHEN {last} BEGIN SELECT RAISE(ABORT, 'no'); END"
    );
    database.execute_batch(&failing).unwrap();
    let failed = letters.remove_some(&guest, None, 9).await.unwrap_err();
    assert!(matches!(failed, StoreError::Failed { .. }), "{failed}");
    assert_eq!((before.letters, letters.usage(Some(&guest)).await.unwrap()), (2, before));
    database.execute_batch("DROP TRIGGER failing").unwrap();
    assert_eq!(letters.remove_some(&guest, None, 9).await.unwrap(), 2);
    assert_eq!(letters.usage(Some(&guest)).await.unwrap().letters, 0);
    drop(letters);
    store.close().await.unwrap();
}
