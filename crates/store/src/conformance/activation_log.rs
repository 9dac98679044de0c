//! What every [`ActivationLog`] does.

use flint_model::{Activation, ActivationId, ByteSize, LogLine, LogStream, Timestamp};
use futures_util::future::join_all;

use super::sample::{UNICODE, activation, namespace_name, text_of};
use crate::{ActivationLog, ActivationQuery, Page};

const ALL: Page = Page { skip: 0, limit: usize::MAX };

fn everything() -> ActivationQuery {
    ActivationQuery::default()
}

fn ids(records: &[Activation]) -> Vec<ActivationId> {
    records.iter().map(|record| record.id).collect()
}

/// The order of lists.
fn latest_first(records: &mut [Activation]) {
    records.sort_by_key(|record| std::cmp::Reverse((record.start, record.id)));
}

/// A record is seen as soon as it is appended, and stays when it is written.
pub async fn a_record_is_seen_at_once(log: &dyn ActivationLog) {
    let guest = namespace_name("guest");
    for round in 0..5 {
        let record = activation("guest", "guest/work", round, 2);
        let (id, text) = (record.id, text_of(&record));
        assert!(log.get(&guest, id).await.unwrap().is_none());
        log.append(record);
        for _ in 0..2 {
            assert_eq!(text_of(&log.get(&guest, id).await.unwrap().unwrap()), text);
            assert_eq!(log.count(&guest, &everything()).await.unwrap(), round as usize + 1);
            let listed = log.list(&guest, &everything(), Page { skip: 0, limit: 1 }, true).await.unwrap();
            assert_eq!(text_of(&listed[0]), text);
            log.flush().await.unwrap();
        }
    }
}

/// Lists have the latest start first, ties by id, in pages without gap or overlap, wherever the records are.
pub async fn a_list_is_in_order_and_paged(log: &dyn ActivationLog) {
    let guest = namespace_name("guest");
    let mut records: Vec<_> = [50, 10, 30, 30, 30, 20, 90, 10, 70, 60]
        .map(|start| activation("guest", "guest/work", start, 0))
        .into();
    for (at, record) in records.iter().enumerate() {
        log.append(record.clone());
        if at == 5 {
            log.flush().await.unwrap();
        }
    }
    latest_first(&mut records);
    for _ in 0..2 {
        for size in 1..=records.len() + 1 {
            let mut listed = Vec::new();
            for skip in (0..records.len() + size).step_by(size) {
                listed.extend(
                    log.list(&guest, &everything(), Page { skip, limit: size }, false).await.unwrap(),
                );
            }
            assert_eq!(ids(&listed), ids(&records), "in pages of {size}");
        }
        let beyond = Page { skip: usize::MAX, limit: 1 };
        assert!(log.list(&guest, &everything(), beyond, false).await.unwrap().is_empty());
        assert!(log.list(&guest, &everything(), Page { skip: 0, limit: 0 }, false).await.unwrap().is_empty());
        log.flush().await.unwrap();
    }
}

/// Filters by name and time give what a plain list gives; bounds are inclusive.
pub async fn filters_agree_with_a_plain_list(log: &dyn ActivationLog) {
    let guest = namespace_name("guest");
    let mut records: Vec<_> = (0..60_u64)
        .map(|at| {
            activation("guest", ["guest/a", "guest/b", "guest/p/a"][at as usize % 3], at * 7 % 20 * 10, 0)
        })
        .collect();
    for (at, record) in records.iter().enumerate() {
        log.append(record.clone());
        if at == 40 {
            log.flush().await.unwrap();
        }
    }
    latest_first(&mut records);
    let times = [None, Some(0), Some(50), Some(55), Some(190), Some(1000)];
    for name in [None, Some("a"), Some("b"), Some("p/a"), Some("p"), Some("none")] {
        for since in times {
            for upto in times {
                let time = |at: Option<u64>| at.map(Timestamp::from_millis);
                let query =
                    ActivationQuery { name: name.map(str::to_owned), since: time(since), upto: time(upto) };
                let expected: Vec<_> = records
                    .iter()
                    .filter(|record| name.is_none_or(|name| record.path.local() == name))
                    .filter(|record| query.since.is_none_or(|since| record.start >= since))
                    .filter(|record| query.upto.is_none_or(|upto| record.start <= upto))
                    .map(|record| record.id)
                    .collect();
                assert_eq!(log.count(&guest, &query).await.unwrap(), expected.len(), "{query:?}");
                assert_eq!(ids(&log.list(&guest, &query, ALL, false).await.unwrap()), expected, "{query:?}");
                let page = log.list(&guest, &query, Page { skip: 3, limit: 2 }, false).await.unwrap();
                assert_eq!(
                    ids(&page),
                    expected.iter().skip(3).take(2).copied().collect::<Vec<_>>(),
                    "{query:?}"
                );
            }
        }
    }
}

/// A record is found under the name that was called, in the package of the function, which may be another namespace's, or in the binding
/// through which it was called.
pub async fn a_name_is_that_of_the_call(log: &dyn ActivationLog) {
    let called = |at: u64| {
        let mut record = activation("guest", "other/pack/work", at, 0);
        record.name = "called".parse().unwrap();
        record
    };
    let mut bound = called(2);
    bound.annotations.set("binding", "guest/mine");
    log.append(called(1));
    log.append(bound);
    for _ in 0..2 {
        for (name, count) in [
            ("pack/called", 1),
            ("mine/called", 1),
            ("called", 0),
            ("work", 0),
            ("pack/work", 0),
            ("pack", 0),
        ] {
            let query = ActivationQuery { name: Some(name.to_owned()), ..everything() };
            assert_eq!(log.count(&namespace_name("guest"), &query).await.unwrap(), count, "{name}");
        }
        log.flush().await.unwrap();
    }
}

/// Lists have logs when asked for; one record always has them.
pub async fn logs_come_on_request(log: &dyn ActivationLog) {
    let guest = namespace_name("guest");
    let record = activation("guest", "guest/work", 1, 5);
    let (id, logs) = (record.id, record.logs.clone());
    log.append(record);
    for _ in 0..2 {
        assert_eq!(log.get(&guest, id).await.unwrap().unwrap().logs, logs);
        assert_eq!(log.list(&guest, &everything(), ALL, true).await.unwrap()[0].logs, logs);
        assert_eq!(log.list(&guest, &everything(), ALL, false).await.unwrap()[0].logs, []);
        log.flush().await.unwrap();
    }
}

/// A page leaves out results, and log lines, that would make it very large, and says so; one record always has them.
pub async fn a_page_is_bounded(log: &dyn ActivationLog) {
    const LARGE: usize = 1 << 20;
    let guest = namespace_name("guest");
    let large = format!("\"{}\"", "x".repeat(LARGE));
    let line = LogLine { time_us: 1, stream: LogStream::Stdout, text: "y".repeat(LARGE) };
    for start in 0..80 {
        let mut record = activation("guest", "guest/work", start, 0);
        record.response.result = serde_json::from_str(if start % 2 == 0 { &large } else { "{}" }).unwrap();
        record.logs = if start % 2 == 0 { vec![line.clone()] } else { Vec::new() };
        log.append(record);
        log.flush().await.unwrap();
    }
    let listed = log.list(&guest, &everything(), ALL, true).await.unwrap();
    let result = |record: &Activation| record.response.result.as_ref().unwrap().get().to_owned();
    assert_eq!(listed.len(), 80);
    let (large, small): (Vec<_>, Vec<_>) =
        listed.iter().partition(|record| record.start.as_millis() % 2 == 0);
    assert!(
        small.iter().all(|record| result(record) == "{}" && record.logs.is_empty()),
        "small ones are there"
    );
    let (whole, cut) = large.split_at(large.iter().take_while(|record| result(record).len() > LARGE).count());
    assert!((1..40).contains(&whole.len()) && whole.len() + cut.len() == 40);
    assert!(whole.iter().all(|record| record.logs.len() == 1));
    for record in cut {
        assert!(result(record).contains("left out") && record.logs[0].text.contains("left out"));
        let found = log.get(&guest, record.id).await.unwrap().unwrap();
        assert!(result(&found).len() > LARGE && found.logs[0].text.len() == LARGE);
    }
}

/// What was recorded is read, whatever it contains and however large it is.
pub async fn values_survive(log: &dyn ActivationLog) {
    let name = "R&D @x.y";
    let mut full = activation(name, "R&D @x.y/my package/do it", 1 << 41, 0);
    full.response.result = Some(
        serde_json::from_str(&format!("{{\"a\" : [1.0, 1e3, {:?}]}}", "ü\u{1F980}".repeat(1000))).unwrap(),
    );
    full.subject = UNICODE.to_owned();
    full.cause = Some(ActivationId::from_u128(u128::MAX));
    full.init_us = Some(u64::MAX);
    full.timed_out = true;
    full.usage.memory_peak = Some(ByteSize::mib(300));
    full.annotations.set(UNICODE, UNICODE);
    full.attempts = vec![flint_model::Attempt::new(Timestamp::from_millis(1), UNICODE.to_owned())];
    // Logs of two streams may go back in time.
    full.logs = [(5, UNICODE), (3, ""), (u64::MAX, "x"), (0, "\r\t")]
        .map(|(time_us, text)| LogLine { time_us, stream: LogStream::Stderr, text: text.to_owned() })
        .into();
    let mut large = activation(name, "R&D @x.y/large", 2, 0);
    large.response.result =
        Some(serde_json::from_str(&format!("{{\"large\":\"{}\"}}", "x".repeat(1 << 20))).unwrap());
    let line = LogLine { time_us: 1, stream: LogStream::Stdout, text: "y".repeat(1000) };
    large.logs = vec![line; 10 << 10];
    let mut bare = activation(name, "R&D @x.y/bare", 3, 0);
    bare.response.result = None;
    bare.response.content_type = Some("image/png".to_owned());
    bare.kind = None;
    let owner = namespace_name(name);
    for record in [full, large, bare] {
        let (id, text) = (record.id, text_of(&record));
        log.append(record);
        for _ in 0..2 {
            let found = log.get(&owner, id).await.unwrap().unwrap();
            assert!(text_of(&found) == text, "{id} has changed");
            log.flush().await.unwrap();
        }
    }
}

/// A call that ran twice after a crash keeps its first record.
pub async fn the_first_of_two_is_kept(log: &dyn ActivationLog) {
    let guest = namespace_name("guest");
    let first = activation("guest", "guest/work", 100, 1);
    let mut second = activation("guest", "guest/again", 200, 2);
    second.id = first.id;
    let mut elsewhere = activation("other", "other/work", 300, 0);
    elsewhere.id = first.id;
    let text = text_of(&first);
    log.append(first);
    log.flush().await.unwrap();
    log.append(second.clone());
    log.append(elsewhere);
    log.flush().await.unwrap();
    assert_eq!(text_of(&log.get(&guest, second.id).await.unwrap().unwrap()), text);
    assert_eq!(log.count(&guest, &everything()).await.unwrap(), 1);
    assert_eq!(log.list(&guest, &everything(), ALL, false).await.unwrap().len(), 1);
    assert_eq!(
        log.count(&namespace_name("other"), &everything()).await.unwrap(),
        1,
        "another namespace's is another record"
    );
}

/// A namespace sees its own records only.
pub async fn namespaces_are_apart(log: &dyn ActivationLog) {
    let (mine, theirs) = (activation("a", "a/work", 1, 0), activation("b", "a/work", 2, 0));
    log.append(mine.clone());
    log.append(theirs.clone());
    for _ in 0..2 {
        let a = namespace_name("a");
        assert!(log.get(&a, theirs.id).await.unwrap().is_none());
        assert_eq!(ids(&log.list(&a, &everything(), ALL, false).await.unwrap()), [mine.id]);
        assert_eq!(log.count(&namespace_name("c"), &everything()).await.unwrap(), 0);
        log.flush().await.unwrap();
    }
}

/// The log counts what it does.
pub async fn what_was_done_is_counted(log: &dyn ActivationLog) {
    log.flush().await.unwrap();
    for at in 0..10 {
        log.append(activation("guest", "guest/work", at, 1));
    }
    log.flush().await.unwrap();
    let stats = log.stats();
    assert_eq!(
        (stats.appended, stats.pending, stats.shed_logs, stats.shed_records, stats.expired),
        (10, 0, 0, 0, 0)
    );
}

/// While records are appended from several sides, a reader sees each exactly once, and never fewer than before.
pub async fn reads_and_appends_go_together(log: &dyn ActivationLog) {
    let guest = namespace_name("guest");
    let writers = join_all((0..4_u64).map(|writer| async move {
        for at in 0..250 {
            log.append(activation("guest", "guest/work", at * 4 + writer, 1));
            if at % 16 == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        }
    }));
    let reader = async {
        let mut before = 0;
        while before < 1000 {
            let listed = log.list(&guest, &everything(), ALL, false).await.unwrap();
            assert!(listed.len() >= before, "{} after {before}", listed.len());
            assert!(listed.is_sorted_by_key(|record| std::cmp::Reverse((record.start, record.id))));
            before = log.count(&guest, &everything()).await.unwrap();
            assert!(before >= listed.len());
        }
        before
    };
    let (count, _) = tokio::join!(reader, writers);
    assert_eq!(count, 1000);
}
