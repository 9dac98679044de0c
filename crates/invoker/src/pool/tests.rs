//! Tests of reservation and eviction.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use flint_executor::{Call, Instance, Invoked};
use flint_model::{ByteSize, InstanceId, KeepWarm, Start, Timestamp};
use tokio::time::Instant;

use super::{NESTED_LEVELS, Pool, Shortage};
use crate::{InstanceKey, PoolConfig, StartReport, entry::Entry, testing};

struct NoInstance(InstanceId);

#[async_trait]
impl Instance for NoInstance {
    fn id(&self) -> InstanceId {
        self.0
    }

    async fn invoke(&self, _: Call) -> Invoked {
        unreachable!("the pool makes no calls")
    }

    async fn memory(&self) -> Option<ByteSize> {
        None
    }

    async fn pause(&self) {}

    async fn resume(&self) {}

    async fn ended(&self) {}

    async fn stop(&self) {}
}

/// A pool in which every instance is charged 64 MB.
struct Table {
    pool: Pool,
    now: Instant,
    stopped: Vec<&'static str>,
    there: Vec<(InstanceId, &'static str)>,
}

impl Table {
    fn new(instances: u64) -> Self {
        let pool = Pool::new(ByteSize::mib(64 * instances).as_u64(), &PoolConfig::default());
        Self { pool, now: Instant::now(), stopped: Vec::new(), there: Vec::new() }
    }

    fn key(path: &str) -> Arc<InstanceKey> {
        testing::key(&testing::function(path))
    }

    /// Starts a busy instance, later than everything before.
    fn start(&mut self, path: &'static str) -> Result<InstanceId, Shortage> {
        self.now += Duration::from_secs(1);
        let mut function = testing::function(path);
        if path.ends_with("/forked") {
            function.strategy.start = Start::Fork;
        }
        let (function, key) = (Arc::new(function), Self::key(path));
        let mut reserved = self.pool.reserve(&key, &function.limits, 0, self.now).1;
        while let Err(Shortage::Stopping { .. }) = reserved {
            self.bury();
            reserved = self.pool.reserve(&key, &function.limits, 0, self.now).1;
        }
        let id = reserved?;
        let report = StartReport {
            began: self.now,
            began_at: Timestamp::from_millis(0),
            started: Duration::ZERO,
            restored: None,
            initialised: Duration::ZERO,
            logs: Vec::new(),
        };
        let strategy = function.strategy;
        let entry = Entry::new(key, function, strategy, Arc::new(NoInstance(id)), report, id);
        self.pool.started(&Arc::new(entry), self.now);
        self.there.push((id, path));
        Ok(id)
    }

    /// Starts an instance and makes it idle.
    fn idle(&mut self, path: &'static str) -> InstanceId {
        let id = self.start(path).expect("room");
        self.pool.give_back(id, true, self.now);
        id
    }

    /// Removes the instances being stopped.
    fn bury(&mut self) {
        let pool = &mut self.pool;
        self.there.retain(|(id, path)| {
            let dying = matches!(pool.records.get(id).map(|record| &record.phase), Some(super::Phase::Dying));
            if dying {
                pool.gone(*id);
                self.stopped.push(path);
            }
            !dying
        });
    }

    /// The instances evicted since this was last asked.
    fn gone(&mut self) -> Vec<&'static str> {
        self.bury();
        std::mem::take(&mut self.stopped)
    }
}

#[test]
fn the_namespace_with_most_gives_first_and_of_it_the_longest_idle() {
    let mut table = Table::new(6);
    for path in ["b/old", "a/1", "a/2", "a/3", "a/4", "b/new"] {
        table.idle(path);
    }
    table.start("c/f").unwrap();
    assert_eq!(table.gone(), ["a/1"]);
    table.start("c/g").unwrap();
    assert_eq!(table.gone(), ["a/2"], "a still has as much as c will have");
    table.start("c/h").unwrap_err();
    assert_eq!(table.gone(), [""; 0], "two each: c would have more than the others");
    table.now += Duration::from_secs(60);
    table.start("c/h").unwrap();
    assert_eq!(
        table.gone(),
        ["b/old"],
        "nobody has used it for a minute; b and a have as much, and the names decide"
    );
}

#[test]
fn what_a_namespaces_snapshots_use_is_its_own() {
    let mut table = Table::new(8);
    table.idle("a/clone");
    table.idle("b/old");
    table.idle("b/new");
    let of_a = [("a".parse().unwrap(), ByteSize::mib(64 * 4).as_u64())].into();
    table.pool.measured_prewarmed(ByteSize::mib(64 * 5), of_a, ByteSize::bytes(0), 0);
    table.start("c/f").unwrap();
    assert_eq!(
        table.gone(),
        ["a/clone"],
        "one instance and four times as much in snapshots are more than two"
    );
    let ([a, c], f) = (["a/clone", "c/f"].map(Table::key), testing::function("c/f"));
    assert!(table.pool.may_displace(&a, &c, &f.limits), "c would have less than a's snapshots");
    assert!(!table.pool.may_displace(&c, &a, &f.limits));
}

#[test]
fn a_namespace_may_always_exchange_its_own() {
    let mut table = Table::new(3);
    table.idle("a/1");
    table.idle("a/2");
    table.idle("b/1");
    table.start("a/3").unwrap();
    assert_eq!(table.gone(), ["a/1"]);
}

#[test]
fn nothing_is_stopped_when_that_would_not_be_enough() {
    let mut table = Table::new(3);
    table.start("a/busy").unwrap();
    table.start("a/busy").unwrap();
    let idle = table.idle("b/idle");
    table.pool.measured(idle, ByteSize::mib(10));
    table.pool.measured(idle, ByteSize::mib(63));
    assert!(matches!(table.start("a/more"), Err(Shortage::Memory { .. })));
    assert_eq!(table.gone(), [""; 0]);
}

#[test]
fn an_instance_is_given_up_only_for_someone_with_less_and_only_when_memory_is_short() {
    let mut table = Table::new(4);
    for _ in 0..3 {
        table.start("a/f").unwrap();
    }
    let (limits, key) = (testing::function("b/f").limits, Table::key);
    assert!(!table.pool.may_displace(&key("a/f"), &key("b/f"), &limits), "there is room");
    table.start("b/f").unwrap();
    assert!(table.pool.may_displace(&key("a/f"), &key("b/f"), &limits), "3 and 1 become 2 and 2");
    assert!(!table.pool.may_displace(&key("b/f"), &key("a/f"), &limits));
    assert!(
        table.pool.may_displace(&key("a/f"), &key("a/other"), &limits),
        "within a namespace, functions share"
    );
}

#[test]
fn what_is_being_stopped_is_waited_for_when_it_still_needs_its_memory() {
    let mut table = Table::new(2);
    table.idle("a/1");
    table.idle("a/2");
    let (key, limits) = (Table::key("a/3"), testing::function("a/3").limits);
    for evicted in [1, 0] {
        let reserved = table.pool.reserve(&key, &limits, 0, table.now);
        assert_eq!(reserved, (evicted, Err(Shortage::Stopping { instances: 1 })));
    }
    assert_eq!(table.gone(), ["a/1"]);
    table.start("a/3").unwrap();
    assert_eq!(table.gone(), [""; 0], "one was enough");
}

#[test]
fn a_start_is_charged_what_the_function_was_seen_to_need() {
    let mut table = Table::new(10);
    let id = table.start("a/f").unwrap();
    assert_eq!(table.pool.live, ByteSize::mib(64).as_u64());
    table.pool.measured(id, ByteSize::mib(100));
    table.pool.measured(id, ByteSize::mib(80));
    assert_eq!(table.pool.live, ByteSize::mib(80).as_u64());
    table.start("a/f").unwrap();
    assert_eq!(table.pool.live, ByteSize::mib(180).as_u64(), "its peak");
    table.pool.close();
    table.gone();
    assert_eq!((table.pool.live, table.pool.dying), (0, 0));
    assert_eq!(table.pool.charge_of_namespace(&Table::key("a/f").namespace), 0);
}

#[test]
fn clones_are_let_go_sooner_than_what_took_long_to_start() {
    let mut table = Table::new(4);
    table.idle("a/spawned");
    table.idle("a/forked");
    let (keep, forked) = (Duration::from_secs(600), Duration::from_secs(30));
    table.now += forked;
    assert_eq!(table.pool.expire(keep, forked, table.now), 1);
    assert_eq!(table.gone(), ["a/forked"]);
    table.now += keep;
    assert_eq!(table.pool.expire(keep, forked, table.now), 1);
}

#[test]
fn as_many_as_a_namespace_keeps_warm_stay_for_as_long_as_it_says() {
    let mut table = Table::new(8);
    let (keep, forked) = (Duration::from_secs(600), Duration::from_secs(30));
    let kept = KeepWarm { count: 2, timeout: Duration::from_secs(3600) };
    table.pool.keep_warm(&Table::key("a/f").namespace, Some(kept));
    // All at once, so that none serves the next one's call.
    let all: Vec<_> = (0..4).map(|_| table.start("a/f").unwrap()).collect();
    table.start("a/busy").unwrap();
    for id in all {
        table.now += Duration::from_secs(1);
        table.pool.give_back(id, true, table.now);
    }
    table.idle("b/f");
    table.now += keep;
    assert_eq!(table.pool.expire(keep, forked, table.now), 3, "two of four, and the other namespace's");
    assert_eq!(table.gone().len(), 3);
    assert_eq!(table.pool.expire(keep, forked, table.now), 0);
    table.now += kept.timeout;
    assert_eq!(table.pool.expire(keep, forked, table.now), 2, "their time is over");
    table.gone();
    table.idle("a/f");
    table.pool.keep_warm(&Table::key("a/f").namespace, None);
    table.now += keep;
    assert_eq!(table.pool.expire(keep, forked, table.now), 1);
}

#[test]
fn one_that_is_gone_without_having_been_stopped_hides_no_other() {
    let mut table = Table::new(2);
    let [there, lost] = ["a/f"; 2].map(|path| table.idle(path));
    // By a keeper that dies with its executor.
    table.pool.gone(lost);
    assert!(table.pool.take(&Table::key("a/f"), 0).is_some_and(|entry| entry.id == there));
}

#[test]
fn what_is_waited_for_goes_beyond_the_budget_level_by_level() {
    let mut table = Table::new(2);
    table.pool.nested_memory = ByteSize::mib(64 * u64::from(NESTED_LEVELS)).as_u64();
    table.start("a/waits").unwrap();
    table.start("a/waits").unwrap();
    let (key, limits) = (Table::key("a/called"), testing::function("a/called").limits);
    let now = table.now;
    let mut reserve = |nested| table.pool.reserve(&key, &limits, nested, now).1;
    assert!(matches!(reserve(0), Err(Shortage::Memory { .. })));
    let first = reserve(1).unwrap();
    assert!(matches!(reserve(1), Err(Shortage::Memory { .. })), "its level is full");
    let second = reserve(2).unwrap();
    assert!(matches!(reserve(2), Err(Shortage::Memory { .. })));
    for _ in 2..NESTED_LEVELS {
        reserve(u32::MAX).unwrap();
    }
    assert!(matches!(reserve(u32::MAX), Err(Shortage::Memory { .. })), "there is an end");
    let pool = &mut table.pool;
    assert!(!pool.may_serve(first, 0) && pool.may_serve(first, 1) && pool.may_serve(first, 9));
    assert!(!pool.may_serve(second, 1) && pool.may_serve(second, 2));
    let (ids, others): (Vec<_>, _) = pool.records.keys().copied().partition(|id| *id > second);
    assert_eq!(others.len(), 4);
    ids.into_iter().chain([first]).for_each(|id| pool.not_started(id));
    assert!(!pool.may_serve(second, 1), "it is beyond the budget all the same");
    let waits = others.into_iter().find(|id| *id < first).unwrap();
    pool.ended(waits);
    pool.give_back(waits, false, now);
    assert!(pool.may_serve(second, 0), "within the budget, an instance is as good as any");
}

#[test]
fn an_instance_that_was_called_since_it_was_found_quiet_is_not_paused() {
    let grace = Duration::from_secs(10);
    let mut table = Table::new(6);
    let [called, busy, stopped, idle] =
        ["a/called", "a/busy", "a/stopped", "a/idle"].map(|path| table.idle(path));
    let now = table.now + grace;
    assert_eq!(table.pool.quiet(grace, now), [called, busy, stopped, idle], "the longest idle first");
    for path in ["a/called", "a/busy"] {
        assert!(table.pool.take(&Table::key(path), 0).is_some());
    }
    table.pool.give_back(called, true, now);
    table.pool.ended(stopped);
    let mut begins = |id| table.pool.begin_pause(id, grace, now).is_some();
    assert_eq!([called, busy, stopped, idle].map(&mut begins), [false, false, false, true]);
    assert!(!begins(idle), "it is being paused already");
    assert_eq!(table.pool.quiet(grace, now), []);
}
