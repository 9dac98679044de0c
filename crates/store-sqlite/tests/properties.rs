//! Queries of the activation log against a plain list.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::cmp::Reverse;

use flint_model::{Activation, ActivationId, Timestamp};
use flint_store::{
    ActivationQuery, Page,
    conformance::sample::{activation, namespace_name},
};
use flint_store_sqlite::{SqliteStore, StoreConfig, SyncMode};
use proptest::prelude::*;

const NAMES: [&str; 4] = ["a", "b", "p/a", "p/b"];

#[derive(Clone, Debug)]
enum Step {
    Append {
        namespace: bool,
        name: usize,
        start: u64,
    },
    /// Ids are not always in order of time.
    AppendWithId {
        id: u128,
        start: u64,
    },
    Flush,
    Reopen,
}

#[derive(Clone, Debug)]
struct Question {
    name: Option<usize>,
    since: Option<u64>,
    upto: Option<u64>,
    page: Page,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        30 => (any::<bool>(), 0..4_usize, 0..50_u64).prop_map(|(namespace, name, start)| Step::Append { namespace, name, start }),
        8 => (any::<u128>(), 0..50_u64).prop_map(|(id, start)| Step::AppendWithId { id, start }),
        2 => Just(Step::Flush),
        1 => Just(Step::Reopen),
    ]
}

fn question() -> impl Strategy<Value = Question> {
    let time = || proptest::option::of(0..55_u64);
    let page = (0..120_usize, 0..40_usize).prop_map(|(skip, limit)| Page { skip, limit });
    (proptest::option::of(0..4_usize), time(), time(), page).prop_map(|(name, since, upto, page)| Question {
        name,
        since,
        upto,
        page,
    })
}

fn open(dir: &std::path::Path) -> SqliteStore {
    SqliteStore::open(StoreConfig { sync: SyncMode::ProcessOnly, ..common::config(dir, 3 << 10) }).unwrap()
}

async fn check(steps: Vec<Step>, questions: Vec<Question>) {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let mut model: Vec<Activation> = Vec::new();
    for step in steps {
        let record = match step {
            Step::Append { namespace, name, start } => activation(
                if namespace { "guest" } else { "other" },
                &format!("guest/{}", NAMES[name]),
                start,
                1,
            ),
            Step::AppendWithId { id, start } => {
                Activation { id: ActivationId::from_u128(id), ..activation("guest", "guest/a", start, 0) }
            }
            Step::Flush => {
                store.activations().flush().await.unwrap();
                continue;
            }
            Step::Reopen => {
                store.close().await.unwrap();
                store = open(dir.path());
                continue;
            }
        };
        model.push(record.clone());
        store.activations().append(record);
    }
    model.retain(|record| record.namespace.as_str() == "guest");
    model.sort_by_key(|record| Reverse((record.start, record.id)));
    let (log, guest) = (store.activations(), namespace_name("guest"));
    for Question { name, since, upto, page } in questions {
        let query = ActivationQuery {
            name: name.map(|name| NAMES[name].to_owned()),
            since: since.map(Timestamp::from_millis),
            upto: upto.map(Timestamp::from_millis),
        };
        let matching: Vec<_> = model
            .iter()
            .filter(|record| query.name.as_ref().is_none_or(|name| record.path.local() == *name))
            .filter(|record| query.since.is_none_or(|since| record.start >= since))
            .filter(|record| query.upto.is_none_or(|upto| record.start <= upto))
            .map(|record| record.id)
            .collect();
        assert_eq!(log.count(&guest, &query).await.unwrap(), matching.len(), "{query:?}");
        let listed = log.list(&guest, &query, page, false).await.unwrap();
        let expected: Vec<_> = matching.iter().skip(page.skip).take(page.limit).copied().collect();
        assert_eq!(listed.iter().map(|record| record.id).collect::<Vec<_>>(), expected, "{query:?} {page:?}");
    }
    for record in model.iter().step_by(7) {
        assert_eq!(log.get(&guest, record.id).await.unwrap().unwrap().start, record.start);
        assert!(log.get(&namespace_name("other"), record.id).await.unwrap().is_none());
    }
    store.close().await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn queries_agree_with_a_plain_list(
        steps in prop::collection::vec(step(), 1..180),
        questions in prop::collection::vec(question(), 12),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(check(steps, questions));
    }
}
