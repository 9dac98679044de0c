//! The database schema and its migrations.

use std::path::Path;

use flint_store::StoreError;
use rusqlite::Connection;

use crate::fault::sql_fault;

/// Each runs once, in order; `user_version` counts those done. A released migration is never edited.
const MIGRATIONS: &[&str] = &[
    // 1: catalog and queue.
    "
    CREATE TABLE namespaces (
        name TEXT PRIMARY KEY,
        body TEXT NOT NULL              -- JSON of the entity, as everywhere below
    ) WITHOUT ROWID;

    CREATE TABLE keys (
        id BLOB PRIMARY KEY,
        namespace TEXT NOT NULL REFERENCES namespaces(name) ON DELETE CASCADE,
        created INTEGER NOT NULL,       -- ms since the epoch, as everywhere below
        body TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX keys_of_namespace ON keys(namespace, created, id);

    CREATE TABLE functions (
        namespace TEXT NOT NULL,
        package TEXT NOT NULL,          -- '' = in none
        name TEXT NOT NULL,
        revision INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (namespace, package, name)
    );
    CREATE INDEX functions_by_age ON functions(namespace, updated DESC, package, name);
    CREATE INDEX functions_of_package_by_age ON functions(namespace, package, updated DESC, name);

    -- The last revision given: one counter for all paths, so a path that was deleted needs no memory.
    CREATE TABLE revisions (last INTEGER NOT NULL);
    INSERT INTO revisions VALUES (0);

    CREATE TABLE calls (
        number INTEGER PRIMARY KEY,
        activation BLOB NOT NULL UNIQUE,
        namespace TEXT NOT NULL,
        subject TEXT NOT NULL,
        path TEXT NOT NULL,
        transaction_id TEXT NOT NULL,
        accepted INTEGER NOT NULL,
        max_attempts INTEGER NOT NULL,
        attempt INTEGER NOT NULL,       -- attempts begun
        started INTEGER NOT NULL,       -- when the last of them began
        earlier TEXT NOT NULL,          -- JSON list of the attempts that ended
        state INTEGER NOT NULL,         -- 0 leased, 1 delayed, 2 due, 3 exhausted, 4 exhausted and handed out, 5 leased and begun
        at INTEGER NOT NULL,            -- leased, begun: end of the lease; delayed: when it is due; else when it was accepted
        owner TEXT NOT NULL             -- of the last lease
    );
    CREATE INDEX calls_by_state ON calls(state, at, activation);
    -- Apart, so that a change of state does not rewrite a megabyte.
    CREATE TABLE arguments (
        number INTEGER PRIMARY KEY,
        body BLOB NOT NULL
    );
    ",
    // 2: data of functions.
    "
    CREATE TABLE key_values (
        namespace TEXT NOT NULL,
        bucket TEXT NOT NULL,
        key TEXT NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (namespace, bucket, key)
    );
    -- Kept with every write, so that a quota costs no counting.
    CREATE TABLE key_value_usage (
        namespace TEXT PRIMARY KEY,
        keys INTEGER NOT NULL,
        bytes INTEGER NOT NULL          -- of keys and values
    ) WITHOUT ROWID;
    ",
    // 3: packages, triggers, rules and sequences beside the functions.
    "
    CREATE TABLE entities (
        namespace TEXT NOT NULL,
        package TEXT NOT NULL,          -- '' = in none
        name TEXT NOT NULL,
        collection TEXT NOT NULL,       -- where it is listed: actions, packages, triggers, rules
        type TEXT NOT NULL,             -- what the body is: function, sequence, package, trigger, rule
        trigger TEXT,                   -- of a rule: what it listens to
        revision INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (namespace, package, name)
    );
    INSERT INTO entities (namespace, package, name, collection, type, revision, updated, body)
        SELECT namespace, package, name, 'actions', 'function', revision, updated, body FROM functions;
    DROP TABLE functions;
    CREATE INDEX entities_by_age ON entities(namespace, collection, updated DESC, package, name);
    CREATE INDEX entities_of_package_by_age ON entities(namespace, package, collection, updated DESC, name);
    CREATE INDEX rules_of_trigger ON entities(trigger) WHERE trigger IS NOT NULL;
    ",
    // 4: the journal of compositions, beside their calls.
    "
    CREATE TABLE compositions (
        number INTEGER PRIMARY KEY,     -- of the call
        begun INTEGER,                  -- when the attempt began that is under way
        earlier TEXT NOT NULL           -- JSON list of the attempts at this step that ended
    );
    -- Apart, so that counting an attempt does not rewrite a megabyte.
    CREATE TABLE composition_states (
        number INTEGER PRIMARY KEY,
        body BLOB NOT NULL
    );
    ",
    // 5: APIs of the gateway.
    "
    CREATE TABLE apis (
        namespace TEXT NOT NULL REFERENCES namespaces(name) ON DELETE CASCADE,
        base_path TEXT NOT NULL,
        revision INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (namespace, base_path)
    );
    ",
    // 6: retries and dead letters.
    "
    ALTER TABLE calls ADD COLUMN policy TEXT;                   -- JSON; NULL = the plain one, with max_attempts
    ALTER TABLE calls ADD COLUMN cause BLOB;                    -- of a redriven call: the activation it was before
    ALTER TABLE calls ADD COLUMN size INTEGER NOT NULL DEFAULT 0; -- bytes it takes, about
    ALTER TABLE calls ADD COLUMN reason TEXT;                   -- of a dead letter
    UPDATE calls SET size = 256 + ifnull((SELECT length(body) FROM arguments WHERE arguments.number = calls.number), 0);
    -- States beside those above: 6 dead letter (at: when it died), 7 due, and failed before.
    UPDATE calls SET state = 7 WHERE state = 2 AND attempt > 0;
    -- By namespace, so that namespaces take turns. Calls that are run from memory are in none of these.
    CREATE INDEX calls_due ON calls(namespace, at, activation) WHERE state = 2;
    CREATE INDEX calls_due_again ON calls(namespace, at, activation) WHERE state = 7;
    CREATE INDEX dead_letters ON calls(namespace, at, activation) WHERE state = 6;
    ",
    // 7: feeds, which go with their triggers.
    "
    CREATE TABLE feeds (
        namespace TEXT NOT NULL,
        package TEXT NOT NULL DEFAULT '', -- of the trigger: none
        trigger TEXT NOT NULL,
        revision INTEGER NOT NULL,
        due INTEGER,                    -- when there is something to do about it
        body TEXT NOT NULL,
        PRIMARY KEY (namespace, package, trigger),
        FOREIGN KEY (namespace, package, trigger) REFERENCES entities(namespace, package, name) ON DELETE CASCADE
    );
    CREATE INDEX feeds_by_due ON feeds(due) WHERE due IS NOT NULL;
    ",
    // 8: earlier versions of functions, and names for them. They go with their functions.
    "
    CREATE TABLE versions (
        namespace TEXT NOT NULL,
        package TEXT NOT NULL,          -- '' = in none
        name TEXT NOT NULL,
        version TEXT NOT NULL,
        revision INTEGER NOT NULL,
        code TEXT NOT NULL,             -- its address among the blobs
        body TEXT NOT NULL,
        PRIMARY KEY (namespace, package, name, version),
        FOREIGN KEY (namespace, package, name) REFERENCES entities(namespace, package, name) ON DELETE CASCADE
    );
    CREATE TABLE aliases (
        namespace TEXT NOT NULL,
        package TEXT NOT NULL,
        name TEXT NOT NULL,
        alias TEXT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (namespace, package, name, alias),
        FOREIGN KEY (namespace, package, name) REFERENCES entities(namespace, package, name) ON DELETE CASCADE
    );
    ",
    // 9: secrets, encrypted.
    "
    CREATE TABLE secrets (
        namespace TEXT NOT NULL REFERENCES namespaces(name) ON DELETE CASCADE,
        name TEXT NOT NULL,
        revision INTEGER NOT NULL,      -- of the value, not of how it is kept
        key TEXT NOT NULL,              -- the id of the key that it is encrypted with
        sealed BLOB NOT NULL,           -- nonce, value, tag
        updated INTEGER NOT NULL,
        PRIMARY KEY (namespace, name)
    ) WITHOUT ROWID;
    ",
    // 10: parameters in a column of their own, after the body, so that lists do not read them. NULL: none.
    "
    ALTER TABLE entities ADD COLUMN parameters TEXT;
    UPDATE entities SET parameters = json_extract(body, '$.parameters'), body = json_remove(body, '$.parameters')
        WHERE CASE WHEN json_valid(body) THEN json_array_length(body, '$.parameters') > 0 END;
    ",
    // 11: an identity for the database. Its backups share it.
    "
    CREATE TABLE identity (id TEXT NOT NULL);
    INSERT INTO identity VALUES (lower(hex(randomblob(16))));
    ",
    // 12: calls whose records were promised to their callers.
    "
    ALTER TABLE calls ADD COLUMN promised INTEGER NOT NULL DEFAULT 0; -- 1: whatever its namespace keeps
    -- The policy of blocking calls whose callers had gone.
    UPDATE calls SET promised = 1
        WHERE max_attempts = 1 AND CASE WHEN json_valid(policy) THEN json_array_length(policy, '$.on') = 0 END;
    ",
    // 13: which lease of a call is the current one. The leases before were those of earlier servers.
    "
    ALTER TABLE calls ADD COLUMN lease INTEGER NOT NULL DEFAULT 0; -- how many there were
    ",
    // 14: which step a composition has reached.
    "
    ALTER TABLE compositions ADD COLUMN step BLOB;              -- its activation; NULL = reached before this format
    ",
];

/// The newest schema version, which this build writes and reads.
pub(crate) const KNOWN: u32 = MIGRATIONS.len() as u32;

/// Migrates the tables, each step in a transaction of its own.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let found: u32 = connection
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(sql_fault(connection, "reading the format of the database"))?;
    if found > KNOWN {
        return Err(StoreError::TooNew { found, known: KNOWN });
    }
    for (step, sql) in (1..=KNOWN).zip(MIGRATIONS).skip(found as usize) {
        let fault = |error| crate::fault::database_fault(path, "migrating the database", &error);
        let transaction = connection.transaction().map_err(fault)?;
        transaction.execute_batch(sql).map_err(fault)?;
        transaction.pragma_update(None, "user_version", step).map_err(fault)?;
        transaction.commit().map_err(fault)?;
        if found > 0 {
            tracing::info!(format = step, path = %path.display(), "migrated the database");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use flint_model::{ActivationId, Attempt, ByteSize, DeadLetterReason, RetryPolicy, Timestamp};
    use flint_store::{
        CallPhase, CompositionStep, DeadLetterBounds, LeasedCall, WhenFull,
        conformance::sample::{LONG, everybody, namespace_name},
    };

    use super::*;
    use crate::{
        SqliteStore, StoreConfig,
        queue::call::{ARGUMENTS, COLUMNS, read},
    };

    #[test]
    fn functions_become_entities_with_nothing_changed() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(MIGRATIONS[0]).unwrap();
        connection.execute_batch(MIGRATIONS[1]).unwrap();
        connection.pragma_update(None, "user_version", 2).unwrap();
        let rows = "('a', '', 'f', 7, 70, '{\"n\":1}'), ('a', 'p', 'f', 8, 80, '{\"n\":2}')";
        connection.execute(&format!("INSERT INTO functions VALUES {rows}"), []).unwrap();
        migrate(&mut connection, Path::new("x")).unwrap();
        let expected = "('a', '', 'f', 'actions', 'function', NULL, 7, 70, '{\"n\":1}', NULL),
                        ('a', 'p', 'f', 'actions', 'function', NULL, 8, 80, '{\"n\":2}', NULL)";
        let same: i64 = connection
            .query_row(
                &format!("SELECT count(*) FROM (VALUES {expected} INTERSECT SELECT * FROM entities)"),
                [],
                |row| row.get(0),
            )
            .unwrap();
        let all: i64 = connection.query_row("SELECT count(*) FROM entities", [], |row| row.get(0)).unwrap();
        assert_eq!((same, all), (2, 2));
    }

    #[test]
    fn parameters_go_into_a_column_of_their_own_as_they_were() {
        let mut connection = Connection::open_in_memory().unwrap();
        for step in &MIGRATIONS[..9] {
            connection.execute_batch(step).unwrap();
        }
        connection.pragma_update(None, "user_version", 9).unwrap();
        let parameters =
            r#"[{"key":"\u0000 \"'ü","value":{"a":[null,1e300,-0.10]}},{"key":"k","init":true}]"#;
        let bodies = [
            (format!(r#"{{"a":1,"parameters":{parameters},"z":2}}"#), r#"{"a":1,"z":2}"#, Some(parameters)),
            (r#"{"a":1,"parameters":[]}"#.to_owned(), r#"{"a":1,"parameters":[]}"#, None),
            (r#"{"a":1}"#.to_owned(), r#"{"a":1}"#, None),
        ];
        for (number, (body, _, _)) in bodies.iter().enumerate() {
            let sql =
                "INSERT INTO entities (namespace, package, name, collection, type, revision, updated, body)
                       VALUES ('a', '', ?1, 'actions', 'function', 1, 1, ?2)";
            connection.execute(sql, rusqlite::params![number.to_string(), body]).unwrap();
        }
        migrate(&mut connection, Path::new("x")).unwrap();
        let mut statement =
            connection.prepare("SELECT body, parameters FROM entities ORDER BY name").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let rows: Vec<(String, Option<String>)> = rows.map(Result::unwrap).collect();
        let expected = bodies.map(|(_, body, parameters)| (body.to_owned(), parameters.map(str::to_owned)));
        assert_eq!(rows, expected);
    }

    #[test]
    fn calls_that_were_accepted_before_there_were_policies_are_run() {
        let mut connection = Connection::open_in_memory().unwrap();
        for step in &MIGRATIONS[..5] {
            connection.execute_batch(step).unwrap();
        }
        connection.pragma_update(None, "user_version", 5).unwrap();
        for (number, state, attempt) in [(1, 2, 0), (2, 2, 1), (3, 0, 0)] {
            let call = format!(
                "{number}, x'0000000000000000000000000000000{number}', 'guest', 's', 'guest/f', 't', 7, 4, {attempt}, 0, '[]', {state}, 7, ''"
            );
            connection.execute(&format!("INSERT INTO calls VALUES ({call})"), []).unwrap();
            connection.execute("INSERT INTO arguments VALUES (?1, x'7b7d')", [number]).unwrap();
        }
        migrate(&mut connection, Path::new("x")).unwrap();
        let sql = format!("SELECT {COLUMNS}, {ARGUMENTS}, state, size FROM calls ORDER BY number");
        let mut statement = connection.prepare(&sql).unwrap();
        let mut rows = statement.query([]).unwrap();
        let mut states = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let (_, leased) = read(&connection, row).unwrap();
            assert_eq!(leased.call.policy, RetryPolicy { max_attempts: 4, ..RetryPolicy::default() });
            assert_eq!((&*leased.call.arguments, row.get::<_, i64>(16).unwrap()), (&b"{}"[..], 258));
            states.push(row.get::<_, i64>(15).unwrap());
        }
        assert_eq!(states, [2, 7, 0]);
    }

    #[test]
    fn calls_whose_callers_had_gone_were_promised_their_records() {
        let mut connection = Connection::open_in_memory().unwrap();
        for step in &MIGRATIONS[..11] {
            connection.execute_batch(step).unwrap();
        }
        connection.pragma_update(None, "user_version", 11).unwrap();
        let policies = [
            (1, Some(r#"{"max_attempts":1,"on":[]}"#)),
            (3, Some(r#"{"max_attempts":3,"on":[]}"#)),
            (1, Some(r#"{"max_attempts":1,"on":["platform"]}"#)),
            (1, Some("{")),
            (1, None),
        ];
        for (number, (max_attempts, policy)) in (1_i64..).zip(policies) {
            let sql = "INSERT INTO calls (activation, namespace, subject, path, transaction_id, accepted, max_attempts,
                           attempt, started, earlier, state, at, owner, policy)
                       VALUES (?1, 'guest', 's', 'guest/f', 't', 7, ?2, 1, 7, '[]', 5, 7, '', ?3)";
            connection.execute(sql, rusqlite::params![number, max_attempts, policy]).unwrap();
        }
        migrate(&mut connection, Path::new("x")).unwrap();
        let mut statement = connection.prepare("SELECT promised FROM calls ORDER BY number").unwrap();
        let promised: Vec<bool> =
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(promised, [true, false, false, false, false]);
    }

    #[tokio::test]
    async fn calls_that_were_held_before_leases_were_numbered_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let connection = Connection::open(dir.path().join("flint.db")).unwrap();
        for step in &MIGRATIONS[..12] {
            connection.execute_batch(step).unwrap();
        }
        connection.pragma_update(None, "user_version", 12).unwrap();
        // Two leased, two begun, of which one for the last time, and one handed out to be given up.
        for (number, state, attempt) in [(1_u32, 0, 0), (2, 0, 0), (3, 5, 1), (4, 5, 3), (5, 4, 3)] {
            let sql =
                "INSERT INTO calls (number, activation, namespace, subject, path, transaction_id, accepted, max_attempts,
                     attempt, started, earlier, state, at, owner, size)
                 VALUES (?1, ?2, 'guest', 's', 'guest/f', 't', ?1, 3, ?3, 7, '[]', ?4, ?5, 'before', 258)";
            let (activation, until) = (u128::from(number).to_be_bytes(), i64::MAX / 2);
            connection.execute(sql, rusqlite::params![number, activation, attempt, state, until]).unwrap();
            connection.execute("INSERT INTO arguments VALUES (?1, x'7b7d')", [number]).unwrap();
        }
        drop(connection);

        let store = SqliteStore::open(StoreConfig::new(dir.path())).unwrap();
        let (queue, guest) = (store.queue(), namespace_name("guest"));
        assert_eq!(queue.release_all_except("after").await.unwrap(), 4);
        let first = queue.lease("after", 9, LONG, everybody()).await.unwrap();
        let again = queue.lease_again("after", 9, LONG, everybody()).await.unwrap();
        let exhausted = queue.take_exhausted(9).await.unwrap();
        let held = |calls: &[LeasedCall]| -> Vec<_> {
            let of = |held: &LeasedCall| (held.call.activation.as_u128(), held.lease.number, held.attempt);
            calls.iter().map(of).collect()
        };
        assert_eq!(held(&first), [(1, 1, 1), (2, 1, 1)]);
        assert_eq!(held(&again), [(3, 1, 2)]);
        assert_eq!(held(&exhausted), [(4, 1, 3), (5, 1, 3)]);

        assert!(queue.put_off(first[0].lease, LONG, "no node").await.unwrap());
        assert!(queue.begin(first[1].lease).await.unwrap());
        assert!(queue.complete(first[1].lease).await.unwrap());
        assert!(queue.begin(again[0].lease).await.unwrap());
        let failed = Attempt::new(Timestamp::from_millis(7), "it failed");
        assert!(queue.retry(again[0].lease, failed, LONG, false).await.unwrap());
        let bounds =
            DeadLetterBounds { letters: 9, bytes: ByteSize::mib(1), when_full: WhenFull::DropOldest };
        for call in &exhausted {
            let reason = DeadLetterReason::AttemptsUsed;
            assert!(store.dead_letters().bury(call.lease, reason, None, bounds).await.unwrap().kept);
        }
        let phase =
            async |call| queue.find(&guest, ActivationId::from_u128(call)).await.unwrap().unwrap().phase;
        assert!(matches!(phase(1).await, CallPhase::PutOff { .. }));
        assert!(matches!(phase(3).await, CallPhase::Delayed(_)));
        assert_eq!(queue.depth(None).await.unwrap(), 2);
        drop(queue);
        store.close().await.unwrap();
    }

    #[tokio::test]
    async fn compositions_that_were_at_a_step_before_steps_were_known_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let connection = Connection::open(dir.path().join("flint.db")).unwrap();
        for step in &MIGRATIONS[..13] {
            connection.execute_batch(step).unwrap();
        }
        connection.pragma_update(None, "user_version", 13).unwrap();
        // One with an attempt that ended and one that was under way, and one without.
        for (number, begun, earlier) in
            [(1_u32, Some(8), r#"[{"start":7,"ended_by":"failed"}]"#), (2, None, "[]")]
        {
            let sql =
                "INSERT INTO calls (number, activation, namespace, subject, path, transaction_id, accepted, max_attempts,
                     attempt, started, earlier, state, at, owner, size, lease)
                 VALUES (?1, ?2, 'guest', 's', 'guest/f', 't', ?1, 3, 0, 0, '[]', 0, ?3, 'before', 258, 1)";
            let (activation, until) = (u128::from(number).to_be_bytes(), i64::MAX / 2);
            connection.execute(sql, rusqlite::params![number, activation, until]).unwrap();
            connection.execute("INSERT INTO arguments VALUES (?1, x'7b7d')", [number]).unwrap();
            let sql = "INSERT INTO compositions VALUES (?1, ?2, ?3)";
            connection.execute(sql, rusqlite::params![number, begun, earlier]).unwrap();
            connection.execute("INSERT INTO composition_states VALUES (?1, x'73')", [number]).unwrap();
        }
        drop(connection);

        let store = SqliteStore::open(StoreConfig::new(dir.path())).unwrap();
        let (queue, journal) = (store.queue(), store.compositions());
        assert_eq!(queue.release_all_except("after").await.unwrap(), 2);
        let held = queue.lease("after", 9, LONG, everybody()).await.unwrap();
        let [first, second] = [held[0].lease, held[1].lease];
        let ends = async |lease| {
            let CompositionStep { state, earlier } = journal.take_up(lease).await.unwrap().unwrap();
            assert_eq!(state, "s");
            earlier.into_iter().map(|attempt| attempt.ended_by).collect::<Vec<_>>()
        };
        assert_eq!(ends(first).await, ["failed", "server restarted"]);
        assert!(ends(second).await.is_empty());

        let (now, next) = (ActivationId::generate(), ActivationId::generate());
        let failed = || Attempt::new(Timestamp::from_millis(9), "failed again");
        assert!(journal.begin(first, now).await.unwrap());
        assert!(journal.fail(first, now, failed()).await.unwrap());
        assert_eq!(ends(first).await, ["failed", "server restarted", "failed again"]);
        journal.reach(first, next, "s".into()).await.unwrap();
        assert!(!journal.begin(first, now).await.unwrap());
        assert!(journal.begin(first, next).await.unwrap());
        assert!(!journal.fail(first, now, failed()).await.unwrap());
        assert_eq!(ends(first).await, ["server restarted"]);
        assert!(journal.begin(second, now).await.unwrap());
        assert_eq!(ends(second).await, ["server restarted"]);
        drop((queue, journal));
        store.close().await.unwrap();
    }

    #[test]
    fn steps_run_once_and_a_newer_format_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, Path::new("x")).unwrap();
        connection.execute("INSERT INTO namespaces VALUES ('a', '{}')", []).unwrap();
        migrate(&mut connection, Path::new("x")).unwrap();
        let kept: i64 =
            connection.query_row("SELECT count(*) FROM namespaces", [], |row| row.get(0)).unwrap();
        assert_eq!(kept, 1);
        connection.pragma_update(None, "user_version", KNOWN + 1).unwrap();
        let refused = migrate(&mut connection, Path::new("x"));
        assert!(
            matches!(refused, Err(StoreError::TooNew { found, known }) if found == KNOWN + 1 && known == KNOWN)
        );
    }
}
