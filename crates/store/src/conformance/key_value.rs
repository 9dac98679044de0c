//! What every [`KeyValue`] does.

use flint_model::{ByteSize, Timestamp};
use futures_util::future::join_all;

use super::sample::{namespace, namespace_name};
use crate::{BucketPath, Change, KeyValue, KeyValueError, KeyValueQuota, KeyValueUsage, Page, StoreError};

const PLENTY: KeyValueQuota = KeyValueQuota { keys: 1_000_000, bytes: ByteSize::mib(100) };
const ALL: Page = Page { skip: 0, limit: usize::MAX };

fn bucket(namespace: &str, bucket: &str) -> BucketPath {
    let as_of = Timestamp::now();
    BucketPath { namespace: namespace_name(namespace), as_of, bucket: bucket.to_owned() }
}

fn set(key: &str, value: &[u8]) -> Change {
    Change { key: key.to_owned(), value: Some(value.to_owned()) }
}

fn remove(key: &str) -> Change {
    Change { key: key.to_owned(), value: None }
}

async fn read(values: &dyn KeyValue, at: &BucketPath, key: &str) -> Option<Vec<u8>> {
    values.read(at, vec![key.to_owned()]).await.unwrap().pop().unwrap()
}

/// Values come back as they were written, empty ones and odd keys too; the last write counts.
pub async fn values_come_back_by_key(values: &dyn KeyValue) {
    let at = bucket("a", "");
    let odd = "käse/\u{1f9c0} '\"%_";
    let all: Vec<u8> = (0..=255).collect();
    let changes = vec![set("x", b"1"), set(odd, &all), set("empty", b""), set("x", b"2"), remove("nothing")];
    values.write(&at, changes, PLENTY).await.unwrap();
    let keys = ["x", "missing", odd, "empty", "x"].map(str::to_owned).to_vec();
    let found = values.read(&at, keys).await.unwrap();
    assert_eq!(found, [Some(b"2".to_vec()), None, Some(all), Some(vec![]), Some(b"2".to_vec())]);
    values.write(&at, vec![remove("x"), remove("x")], PLENTY).await.unwrap();
    assert_eq!(read(values, &at, "x").await, None);
    assert_eq!(values.read(&at, vec![]).await.unwrap(), Vec::<Option<Vec<u8>>>::new());
}

/// A bucket has nothing of another one, and none of another namespace.
pub async fn buckets_and_namespaces_are_apart(values: &dyn KeyValue) {
    let all = [bucket("a", "one"), bucket("a", "two"), bucket("b", "one")];
    for (number, at) in all.iter().enumerate() {
        values.write(at, vec![set("k", &[number as u8])], PLENTY).await.unwrap();
    }
    values.write(&all[0], vec![set("more", b"")], PLENTY).await.unwrap();
    for (number, at) in all.iter().enumerate() {
        assert_eq!(read(values, at, "k").await, Some(vec![number as u8]));
    }
    assert_eq!(values.keys(&all[1], ALL).await.unwrap(), ["k"]);
    assert_eq!(values.keys(&bucket("b", "two"), ALL).await.unwrap(), Vec::<String>::new());
}

/// A function that is older than its namespace is of one that had the name before: nothing is done for it.
pub async fn a_later_namespace_of_the_name_is_another(values: &dyn KeyValue) {
    let own = BucketPath { as_of: namespace("a").created, ..bucket("a", "b") };
    values.write(&own, vec![set("k", b"1")], PLENTY).await.unwrap();
    let earlier = BucketPath { as_of: Timestamp::from_millis(own.as_of.as_millis() - 1), ..own.clone() };
    let written = values.write(&earlier, vec![set("k", b"2")], PLENTY).await;
    let sum = values.increment(&earlier, "k", 1, PLENTY).await.map(|_| ());
    let read_of = values.read(&earlier, vec!["k".to_owned()]).await.map(|_| ()).map_err(KeyValueError::from);
    let keys = values.keys(&earlier, ALL).await.map(|_| ()).map_err(KeyValueError::from);
    for refused in [written, sum, read_of, keys] {
        assert!(matches!(refused, Err(KeyValueError::Store(StoreError::NoNamespace(_)))), "{refused:?}");
    }
    assert_eq!(read(values, &own, "k").await, Some(b"1".to_vec()));
}

/// Keys are listed in order, page by page.
pub async fn keys_are_listed_in_order_and_paged(values: &dyn KeyValue) {
    let at = bucket("a", "b");
    let changes = (0..25).rev().map(|number| set(&format!("k{number:02}"), b"")).collect();
    values.write(&at, changes, PLENTY).await.unwrap();
    let mut listed = Vec::new();
    loop {
        let page = values.keys(&at, Page { skip: listed.len(), limit: 10 }).await.unwrap();
        assert!(page.len() <= 10);
        if page.is_empty() {
            break;
        }
        listed.extend(page);
    }
    assert_eq!(listed, (0..25).map(|number| format!("k{number:02}")).collect::<Vec<_>>());
}

/// What a namespace keeps is counted exactly, and bounded: a write that is too much changes nothing at all.
pub async fn a_quota_holds_and_is_counted_exactly(values: &dyn KeyValue) {
    let (at, other) = (bucket("a", "one"), bucket("a", "two"));
    let usage = async || values.usage(&at.namespace).await.unwrap();
    assert_eq!(usage().await, KeyValueUsage::default());
    let quota = KeyValueQuota { keys: 3, bytes: ByteSize::bytes(20) };
    values.write(&at, vec![set("aa", b"123"), set("bb", b"12345")], quota).await.unwrap();
    values.write(&other, vec![set("c", b"1")], quota).await.unwrap();
    assert_eq!(usage().await, KeyValueUsage { keys: 3, bytes: 14 });
    let refused = values.write(&at, vec![set("aa", b""), set("d", b"")], quota).await.unwrap_err();
    assert!(matches!(refused, KeyValueError::Quota { usage, .. } if usage.keys == 4), "{refused}");
    assert_eq!(read(values, &at, "aa").await, Some(b"123".to_vec()), "none of the changes was made");
    let refused = values.write(&at, vec![set("aa", &[b'x'; 10])], quota).await.unwrap_err();
    assert!(matches!(refused, KeyValueError::Quota { usage, .. } if usage.bytes == 21), "{refused}");
    values.write(&at, vec![set("aa", &[b'x'; 9])], quota).await.unwrap();
    assert_eq!(usage().await, KeyValueUsage { keys: 3, bytes: 20 });
    // The quota was lowered since: what makes things smaller is still taken.
    let lower = KeyValueQuota { keys: 1, bytes: ByteSize::bytes(1) };
    values.write(&at, vec![set("aa", b"1")], lower).await.unwrap();
    values.write(&at, vec![remove("aa"), remove("bb")], lower).await.unwrap();
    assert_eq!(usage().await, KeyValueUsage { keys: 1, bytes: 2 });
    assert!(values.increment(&at, "n", 1, lower).await.is_err());
    assert_eq!(read(values, &at, "n").await, None);
}

/// Counting loses nothing, and what is no number stays as it is.
pub async fn counters_count_every_increment(values: &dyn KeyValue) {
    let at = bucket("a", "counters");
    let sums = join_all((0..20).map(|_| values.increment(&at, "n", 3, PLENTY))).await;
    let mut sums: Vec<u64> = sums.into_iter().map(Result::unwrap).collect();
    sums.sort_unstable();
    assert_eq!(sums, (1..=20).map(|number| number * 3).collect::<Vec<_>>());
    assert_eq!(read(values, &at, "n").await, Some(b"60".to_vec()));
    assert_eq!(values.increment(&at, "n", 0, PLENTY).await.unwrap(), 60);
    values
        .write(&at, vec![set("text", b"x"), set("most", u64::MAX.to_string().as_bytes())], PLENTY)
        .await
        .unwrap();
    for key in ["text", "most"] {
        let refused = values.increment(&at, key, 1, PLENTY).await.unwrap_err();
        assert!(matches!(refused, KeyValueError::NoCounter { .. }), "{refused}");
    }
    assert_eq!(read(values, &at, "text").await, Some(b"x".to_vec()));
    assert_eq!(values.usage(&at.namespace).await.unwrap().keys, 3);
}

/// Counts up, and writes two values at once, until the process is killed; `say` is told each sum that is acknowledged.
pub(super) async fn count_until_killed(values: &dyn KeyValue, name: &str, say: impl Fn(u64)) {
    let at = bucket("guest", name);
    loop {
        let sum = values.increment(&at, "sum", 1, PLENTY).await.unwrap();
        let both = ["one", "two"].map(|key| set(key, sum.to_string().as_bytes()));
        values.write(&at, both.to_vec(), PLENTY).await.unwrap();
        say(sum);
    }
}

/// What [`count_until_killed`] has left: the last sum that was said, or the next one, and both values or neither.
pub(super) async fn check_after_kill(values: &dyn KeyValue, name: &str, said: u64) {
    let at = bucket("guest", name);
    let number = async |key| {
        let value = read(values, &at, key).await.unwrap();
        String::from_utf8(value).unwrap().parse::<u64>().unwrap()
    };
    let [sum, one, two] = [number("sum").await, number("one").await, number("two").await];
    assert!((said..=said + 1).contains(&sum), "{name} was {said} and is {sum}");
    assert!(one == two && (said..=sum).contains(&one), "{name} was {said} and is {one} and {two}");
    // The quota's count was written by the same commit.
    let mut there = KeyValueUsage::default();
    for one in values.keys(&at, ALL).await.unwrap() {
        there.keys += 1;
        there.bytes += (one.len() + read(values, &at, &one).await.unwrap().len()) as u64;
    }
    assert_eq!(there.keys, 3);
    let usage = values.usage(&at.namespace).await.unwrap();
    assert!(usage.keys >= there.keys && usage.bytes >= there.bytes, "{usage:?} {there:?}");
}
