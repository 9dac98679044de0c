//! What scheduler and invoker add to a warm call, measured with an executor that does nothing.
//!
//! `cargo run --release -p flint-scheduler --example dispatch_cost`
//!
//! Each arm runs calls one after the other in as many tasks as it has clients; the time includes making the job, which is measured
//! by itself, too. With more clients than instances, calls wait in the queue and are handed their instance by the call before.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use flint_executor::{
    Call, CallEnd, Capability, Executor, FunctionSource, Instance, Invoked, PrepareError, Prepared,
    PrewarmedMemory, Progress, Reply, ReplyHead, RuntimeKind, StartContext, StartFailure, Started,
};
use flint_invoker::{
    Invoker, InvokerConfig, PoolConfig,
    testing::{SimBlobs, function, job},
};
use flint_model::{ByteSize, Contract, Function, InstanceId, Strategy};
use flint_scheduler::{Outcome, Scheduler, SchedulerConfig};
use tokio::runtime::Builder;

const CALLS: u32 = 400_000;

struct Nothing;

struct NoInstance(InstanceId);

#[async_trait]
impl Executor for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }

    fn handles(&self, _: &Strategy, _: Contract) -> bool {
        true
    }

    fn capabilities(&self) -> Vec<Capability> {
        Vec::new()
    }

    fn kinds(&self) -> Vec<RuntimeKind> {
        Vec::new()
    }

    async fn prepare(&self, source: FunctionSource, _: Progress<'_>) -> Result<Arc<Prepared>, PrepareError> {
        Ok(Arc::new(Prepared::plain(source.function, Vec::new(), Duration::ZERO, Box::new(()))))
    }

    async fn start(&self, _: &Arc<Prepared>, context: StartContext) -> Result<Started, StartFailure> {
        Ok(Started {
            instance: Arc::new(NoInstance(context.id)),
            started: Duration::from_millis(1),
            restored: None,
            initialised: Duration::from_millis(1),
            logs: Vec::new(),
        })
    }

    async fn prewarmed_memory(&self) -> PrewarmedMemory {
        PrewarmedMemory::default()
    }

    async fn collect(&self, _: &[Arc<Function>]) {}

    async fn shutdown(&self) {}
}

#[async_trait]
impl Instance for NoInstance {
    fn id(&self) -> InstanceId {
        self.0
    }

    async fn invoke(&self, _: Call) -> Invoked {
        // Lets others run, as a real call does.
        tokio::task::yield_now().await;
        let reply = Reply { head: ReplyHead::Json, body: Bytes::from_static(b"{}") };
        Invoked::Done { result: Ok(reply), end: CallEnd { reusable: true, ..CallEnd::default() } }
    }

    async fn memory(&self) -> Option<ByteSize> {
        None
    }

    async fn pause(&self) {}

    async fn resume(&self) {}

    async fn ended(&self) {
        std::future::pending().await
    }

    async fn stop(&self) {}
}

/// Nanoseconds a call, wall clock.
async fn arm(scheduler: &Arc<Scheduler>, clients: u32, functions: u32) -> u128 {
    let functions: Vec<_> = (0..functions).map(|n| Arc::new(function(&format!("guest/f{n}")))).collect();
    for f in &functions {
        scheduler.run(job(f)).await;
    }
    let began = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let (scheduler, functions) = (Arc::clone(scheduler), functions.clone());
            tokio::spawn(async move {
                for n in 0..CALLS / clients {
                    let f = &functions[((n * clients + client) as usize) % functions.len()];
                    let ran = scheduler.run(job(f)).await;
                    assert!(matches!(ran.outcome, Outcome::Ended { result: Ok(_), .. }), "{ran:?}");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a client has an end");
    }
    began.elapsed().as_nanos() / u128::from(CALLS)
}

fn main() {
    let mut medians = Vec::new();
    for threads in [1, 2] {
        let runtime =
            Builder::new_multi_thread().worker_threads(threads).enable_time().build().expect("a runtime");
        runtime.block_on(async {
            // The main task is no worker: what is measured runs in spawned tasks.
            let pool = PoolConfig { memory: Some(ByteSize::mib(16_384)), ..PoolConfig::default() };
            let invoker = Invoker::new(InvokerConfig { pool }, vec![Arc::new(Nothing)], Arc::new(SimBlobs));
            let scheduler = Scheduler::new(SchedulerConfig::default(), invoker);
            let job_only = {
                let f = Arc::new(function("guest/f"));
                let began = Instant::now();
                for _ in 0..CALLS {
                    std::hint::black_box(job(&f));
                }
                began.elapsed().as_nanos() / u128::from(CALLS)
            };
            for (clients, functions) in [(1, 1), (2, 1), (2, 2), (32, 1), (32, 32), (32, 100)] {
                let mut runs = Vec::new();
                for _ in 0..5 {
                    runs.push(arm(&scheduler, clients, functions).await);
                }
                runs.sort_unstable();
                medians.push(runs[2]);
                println!(
                    "threads {threads}  clients {clients:>2}  functions {functions:>3}: {:>5} ns a call (median of 5; \
                     {job_only} ns of it make the job)",
                    runs[2]
                );
            }
            scheduler.drain(Duration::from_secs(5)).await;
        });
    }
    medians.sort_unstable();
    let us = |at: usize| medians[at] as f64 / 1e3;
    println!("S19: least {:.2} µs, most {:.2} µs; of the medians above", us(0), us(medians.len() - 1));
}
