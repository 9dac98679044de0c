//! A node with a simulated executor, in paused time.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::{sync::Arc, time::Duration};

use flint_executor::Executor;
use flint_invoker::{
    Invoker, InvokerConfig, PoolConfig,
    testing::{Sim, SimBlobs, job},
};
use flint_model::{ByteSize, Function};
use flint_scheduler::{Outcome, QueueConfig, Ran, Scheduler, SchedulerConfig};
use tokio::task::JoinHandle;

pub struct Node {
    pub sim: Arc<Sim>,
    pub invoker: Arc<Invoker>,
    pub scheduler: Arc<Scheduler>,
}

/// Two cores, 4 GB, no prewarmed runtimes.
pub fn pool() -> PoolConfig {
    PoolConfig { memory: Some(ByteSize::mib(4096)), prewarm: 0, ..PoolConfig::default() }
}

pub fn node(pool: PoolConfig, queue: QueueConfig) -> Node {
    let sim = Sim::new();
    let executors: Vec<Arc<dyn Executor>> = vec![sim.clone()];
    let invoker = Invoker::new(InvokerConfig { pool }, executors, Arc::new(SimBlobs));
    let scheduler = Scheduler::with_cores(SchedulerConfig { queue }, Arc::clone(&invoker), 2);
    Node { sim, invoker, scheduler }
}

impl Node {
    pub fn new() -> Self {
        node(pool(), QueueConfig::default())
    }

    pub async fn call(&self, function: &Arc<Function>) -> Ran {
        self.scheduler.run(job(function)).await
    }

    pub fn spawn(&self, function: &Arc<Function>) -> JoinHandle<Ran> {
        let (scheduler, job) = (Arc::clone(&self.scheduler), job(function));
        tokio::spawn(async move { scheduler.run(job).await })
    }

    pub fn burst(&self, function: &Arc<Function>, calls: usize) -> Vec<JoinHandle<Ran>> {
        (0..calls).map(|_| self.spawn(function)).collect()
    }

    /// `clients` that call one after the other for as long as `time`; the calls that were answered well.
    pub async fn closed_loop(&self, function: &Arc<Function>, clients: usize, time: Duration) -> usize {
        let until = tokio::time::Instant::now() + time;
        let clients: Vec<_> = (0..clients)
            .map(|_| {
                let (scheduler, function) = (Arc::clone(&self.scheduler), Arc::clone(function));
                tokio::spawn(async move {
                    let mut good = 0;
                    while tokio::time::Instant::now() < until {
                        good += usize::from(is_good(&scheduler.run(job(&function)).await));
                    }
                    good
                })
            })
            .collect();
        let mut all = 0;
        for client in clients {
            all += client.await.unwrap();
        }
        all
    }

    /// Everything that was started is stopped, everything that was charged is given back, and no promise was broken.
    pub async fn ends_clean(self) {
        self.scheduler.drain(Duration::from_secs(600)).await;
        let (pool, queues, seen) = (self.invoker.stats(), self.scheduler.stats(), self.sim.seen());
        assert_eq!(seen.violations, Vec::<String>::new());
        assert_eq!((seen.live_instances(), seen.starting, seen.shut_down), (0, 0, true));
        assert_eq!(pool.instances, Default::default());
        assert_eq!(pool.memory_charged, ByteSize::bytes(0));
        assert_eq!((queues.waiting, queues.running, queues.starting), (0, 0, 0));
    }
}

pub fn is_good(ran: &Ran) -> bool {
    matches!(&ran.outcome, Outcome::Ended { result: Ok(_), .. })
}

pub async fn all(calls: Vec<JoinHandle<Ran>>) -> Vec<Ran> {
    let mut rans = Vec::new();
    for call in calls {
        rans.push(call.await.unwrap());
    }
    rans
}

pub async fn all_good(calls: Vec<JoinHandle<Ran>>) {
    for ran in all(calls).await {
        assert!(is_good(&ran), "{ran:?}");
    }
}

pub fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
