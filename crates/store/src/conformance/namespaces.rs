//! A namespace that is gone takes everything along, also what was on its way to it.

use flint_model::Attempt;
use flint_model::{ActivationId, Entity, Timestamp};

use super::{
    Driver, Opened,
    apis::api,
    sample::{LONG, call, everybody, function, namespace, namespace_name, package, rule, sequence, trigger},
};
use crate::{BucketPath, Change, Expected, KeyValueError, KeyValueQuota, Lease, QueuedCall, StoreError};

fn is_nobodys<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::NoNamespace(name)) if name == "gone")
}

fn one_of_each() -> [Entity; 5] {
    [
        function("gone/f", 1).into(),
        sequence("gone/s", &["gone/f"], 1).into(),
        package("gone/p", 1).into(),
        trigger("gone/t", 1).into(),
        rule("gone/r", "gone/t", "gone/f", 1).into(),
    ]
}

/// Whatever comes too late, or for a namespace that never was, is refused by that name.
pub async fn nothing_is_written_for_one_that_is_not_there(driver: &dyn Driver) {
    let opened = driver.open().await;
    let Opened { catalog, queue, apis, values, .. } = &opened;
    let gone = namespace_name("gone");
    let quota = KeyValueQuota { keys: 9, bytes: flint_model::ByteSize::kib(1) };
    let bucket = BucketPath { namespace: gone.clone(), as_of: Timestamp::now(), bucket: "b".into() };
    for existed in [false, true] {
        let mut revision = 1;
        if existed {
            catalog.put_namespace(&namespace("gone")).await.unwrap();
            revision = catalog.put_function(&function("gone/f", 1), Expected::Absent).await.unwrap();
            values.increment(&bucket, "n", 1, quota).await.unwrap();
            assert!(catalog.delete_namespace(&gone).await.unwrap());
        }
        for expected in [Expected::Absent, Expected::Revision(revision)] {
            for entity in one_of_each() {
                assert!(is_nobodys(catalog.put_entity(&entity, expected).await));
            }
            assert!(is_nobodys(catalog.put_function(&function("gone/f", 2), expected).await));
            assert!(is_nobodys(apis.put_api(&api("gone", "/b"), expected).await));
        }
        assert!(is_nobodys(queue.enqueue(call("gone", 1, 3), "a", LONG).await));
        assert!(is_nobodys(queue.enqueue_due(call("gone", 1, 3)).await));
        // All or none.
        let several = vec![call("guest", 1, 3), call("gone", 1, 3)];
        assert!(is_nobodys(queue.enqueue_all(several.clone(), Some(("a", LONG))).await));
        assert!(is_nobodys(queue.enqueue_all(several, None).await));
        let written =
            values.write(&bucket, vec![Change { key: "k".into(), value: Some(vec![1]) }], quota).await;
        assert!(matches!(written, Err(KeyValueError::Store(StoreError::NoNamespace(_)))));
        assert!(matches!(
            values.increment(&bucket, "n", 1, quota).await,
            Err(KeyValueError::Store(StoreError::NoNamespace(_)))
        ));
        assert_eq!(queue.depth(None).await.unwrap(), 0);
        assert!(catalog.all_functions().await.unwrap().is_empty());
        assert_eq!(values.read(&bucket, vec!["n".into()]).await.unwrap(), [None]);
    }
    opened.close.await;
}

/// Calls in every state, and compositions at a step, of a namespace that is deleted: its successor gets none, and none goes on.
pub async fn one_that_is_created_again_has_nothing_of_its_predecessor(driver: &dyn Driver) {
    let opened = driver.open().await;
    let Opened { catalog, queue, compositions, .. } = &opened;
    let gone = namespace_name("gone");
    catalog.put_namespace(&namespace("gone")).await.unwrap();
    let accepted = |attempts: u32| call("gone", 1, attempts);
    let [held, begun, later, composed, exhausted, due]: [QueuedCall; 6] = [3, 3, 3, 3, 1, 3].map(accepted);
    for call in [&held, &begun, &later, &composed, &exhausted] {
        queue.enqueue(call.clone(), "a", LONG).await.unwrap();
    }
    for call in [&begun, &later, &composed, &exhausted] {
        assert!(queue.begin(Lease::first(call.activation)).await.unwrap());
    }
    let failed = || Attempt::new(Timestamp::from_millis(7), "failed".to_owned());
    let step = ActivationId::generate();
    for call in [&later, &exhausted] {
        let lease = Lease::first(call.activation);
        assert!(queue.retry(lease, failed(), std::time::Duration::ZERO, false).await.unwrap());
    }
    compositions.reach(Lease::first(composed.activation), step, "step".into()).await.unwrap();
    queue.enqueue_due(due.clone()).await.unwrap();
    let neighbour = call("guest", 1, 3);
    queue.enqueue_due(neighbour.clone()).await.unwrap();

    assert!(catalog.delete_namespace(&gone).await.unwrap());
    let again = flint_model::Namespace { created: Timestamp::now(), ..namespace("gone") };
    catalog.put_namespace(&again).await.unwrap();

    assert_eq!((queue.depth(Some(&gone)).await.unwrap(), queue.depth(None).await.unwrap()), (0, 1));
    assert_eq!(queue.waiting_again(Some(&gone)).await.unwrap().calls, 0);
    for call in [&held, &begun, &later, &composed, &exhausted, &due] {
        let lease = Lease::first(call.activation);
        assert!(!queue.begin(lease).await.unwrap(), "what a server holds does not begin");
        // Whatever its holder still does brings nothing back.
        assert!(!queue.give_back(lease, std::time::Duration::ZERO).await.unwrap());
        assert!(!queue.retry(lease, failed(), std::time::Duration::ZERO, false).await.unwrap());
        assert_eq!(queue.extend(&[lease], LONG).await.unwrap(), 0);
        assert!(matches!(compositions.reach(lease, step, "next".into()).await, Err(StoreError::Conflict)));
        assert!(!compositions.begin(lease, step).await.unwrap());
        assert_eq!(compositions.take_up(lease).await.unwrap(), None);
    }
    queue.release_all_except("b").await.unwrap();
    assert!(queue.take_exhausted(10).await.unwrap().is_empty());
    let leased: Vec<ActivationId> = queue
        .lease("b", 10, LONG, everybody())
        .await
        .unwrap()
        .iter()
        .map(|leased| leased.call.activation)
        .collect();
    assert_eq!(leased, [neighbour.activation]);
    // An activation that is accepted again, as if there had never been the other.
    queue.enqueue(held.clone(), "b", LONG).await.unwrap();
    assert!(queue.begin(Lease::first(held.activation)).await.unwrap());
    assert_eq!(queue.depth(Some(&gone)).await.unwrap(), 1);
    opened.close.await;
}
