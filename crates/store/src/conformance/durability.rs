//! What is there after a store was closed and opened again.

use bytes::Bytes;
use flint_model::{ByteSize, Entity, Timestamp};

use super::{
    Driver,
    sample::{
        LONG, activation, call, function, key, lease, namespace, namespace_name, package, rule, text_of,
    },
};
use crate::{ActivationQuery, BucketPath, Expected, KeyValueQuota, KeyValueUsage, Lease};

/// Everything that was acknowledged, in all four parts.
pub async fn everything_is_there_after_reopening(driver: &dyn Driver) {
    let guest = namespace_name("guest");
    let (key, accepted, record) =
        (key("guest", 1), call("guest", 1, 3), activation("guest", "guest/a", 1, 3));
    let opened = driver.open().await;
    opened.catalog.put_namespace(&namespace("later")).await.unwrap();
    opened.catalog.put_key(&key).await.unwrap();
    let written = function("guest/a", 1);
    let revision = opened.catalog.put_function(&written, Expected::Absent).await.unwrap();
    let mut bound = Entity::Package(package("guest/p", 1));
    let listening = rule("guest/r", "guest/t", "guest/a", 1);
    bound = bound.clone().with_revision(opened.catalog.put_entity(&bound, Expected::Absent).await.unwrap());
    opened.catalog.put_entity(&listening.clone().into(), Expected::Absent).await.unwrap();
    opened.queue.enqueue(accepted.clone(), "a", LONG).await.unwrap();
    opened.activations.append(record.clone()); // closing writes it
    let blob = opened.blobs.put(Bytes::from_static(b"code")).await.unwrap();
    opened.close.await;

    let opened = driver.open().await;
    assert!(opened.catalog.namespaces().await.unwrap().contains(&namespace("later")));
    assert_eq!(opened.catalog.keys(&guest).await.unwrap(), [key]);
    assert_eq!(opened.catalog.function(&written.path).await.unwrap().unwrap().revision, revision);
    assert_eq!(opened.catalog.entity(&guest, None, bound.name()).await.unwrap().as_ref(), Some(&bound));
    assert_eq!(opened.catalog.rules_of(&listening.trigger).await.unwrap()[0].name, listening.name);
    assert_eq!(opened.queue.depth(Some(&guest)).await.unwrap(), 1);
    assert_eq!(opened.activations.count(&guest, &ActivationQuery::default()).await.unwrap(), 1);
    let found = opened.activations.get(&guest, record.id).await.unwrap().unwrap();
    assert_eq!(text_of(&found), text_of(&record));
    assert_eq!(opened.blobs.get(blob).await.unwrap(), Some(Bytes::from_static(b"code")));
    assert!(opened.catalog.put_function(&written, Expected::Revision(revision)).await.unwrap() > revision);
    assert!(opened.queue.complete(Lease::first(accepted.activation)).await.unwrap());
    opened.close.await;

    let opened = driver.open().await;
    assert_eq!(opened.queue.depth(None).await.unwrap(), 0);
    opened.close.await;
}

/// A call that waits while its servers come and go has all its attempts left.
pub async fn restarts_before_it_begins_do_not_count(driver: &dyn Driver) {
    let waiting = call("guest", 1, 2);
    let opened = driver.open().await;
    opened.queue.enqueue(waiting.clone(), "life 1", LONG).await.unwrap();
    opened.close.await;
    for life in 2..=6 {
        let opened = driver.open().await;
        let owner = format!("life {life}");
        assert_eq!(opened.queue.release_all_except(&owner).await.unwrap(), 1);
        assert!(opened.queue.take_exhausted(10).await.unwrap().is_empty());
        let leased = lease(&*opened.queue, &owner, 10, LONG).await;
        assert_eq!((&leased[0].call, leased[0].attempt, leased[0].earlier.len()), (&waiting, 1, 0));
        opened.close.await;
    }
}

/// A call that takes its server down with it does so `max_attempts` times, and no more.
pub async fn attempts_are_counted_over_restarts(driver: &dyn Driver) {
    let poison = call("guest", 1, 3);
    let opened = driver.open().await;
    opened.queue.enqueue(poison.clone(), "life 1", LONG).await.unwrap();
    assert!(opened.queue.begin(Lease::first(poison.activation)).await.unwrap());
    opened.close.await;
    for life in 2..=3 {
        let opened = driver.open().await;
        let owner = format!("life {life}");
        assert_eq!(opened.queue.release_all_except(&owner).await.unwrap(), 1);
        let leased = lease(&*opened.queue, &owner, 10, LONG).await;
        assert_eq!(leased.len(), 1);
        assert_eq!((leased[0].attempt, leased[0].earlier.len()), (life, life as usize - 1));
        assert!(opened.queue.begin(leased[0].lease).await.unwrap());
        opened.close.await;
    }
    let opened = driver.open().await;
    assert_eq!(opened.queue.release_all_except("life 4").await.unwrap(), 1);
    assert!(lease(&*opened.queue, "life 4", 10, LONG).await.is_empty());
    let exhausted = opened.queue.take_exhausted(10).await.unwrap();
    assert_eq!(exhausted.len(), 1);
    assert_eq!((&exhausted[0].call, exhausted[0].earlier.len()), (&poison, 3));
    opened.close.await;
}

/// Values of functions are there after reopening, and go with their namespace.
pub async fn values_stay_until_their_namespace_goes(driver: &dyn Driver) {
    let quota = KeyValueQuota { keys: 10, bytes: ByteSize::kib(1) };
    let bucket =
        |name| BucketPath { namespace: namespace_name(name), as_of: Timestamp::now(), bucket: "b".into() };
    let buckets = ["guest", "other"].map(bucket);
    let opened = driver.open().await;
    for at in &buckets {
        opened.catalog.put_namespace(&namespace(at.namespace.as_str())).await.unwrap();
        opened.values.increment(at, "n", 7, quota).await.unwrap();
    }
    opened.close.await;

    let opened = driver.open().await;
    assert!(opened.catalog.delete_namespace(&buckets[0].namespace).await.unwrap());
    let [gone, kept] = buckets;
    assert_eq!(opened.values.read(&gone, vec!["n".to_owned()]).await.unwrap(), [None]);
    assert_eq!(opened.values.usage(&gone.namespace).await.unwrap(), KeyValueUsage::default());
    assert_eq!(opened.values.read(&kept, vec!["n".to_owned()]).await.unwrap(), [Some(b"7".to_vec())]);
    assert_eq!(opened.values.usage(&kept.namespace).await.unwrap(), KeyValueUsage { keys: 1, bytes: 2 });
    opened.close.await;
}
