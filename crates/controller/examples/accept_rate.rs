//! How many asynchronous calls are durably accepted per second, each by one of so many callers at once, while they run.
//!
//! `cargo run --release -p flint-controller --example accept_rate [CALLERS] [DATA_DIR]`

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use flint_controller::{Accepts, Answer, Invocation, Mode, PutCode, PutFunction};
use flint_executor::Body;
use flint_store_sqlite::SyncMode;
use support::{Server, config, eventually};

const SECONDS: u64 = 5;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut arguments = std::env::args().skip(1);
    let callers = arguments.next().map_or(64, |text| text.parse().unwrap());
    let data_dir = arguments.next().map(PathBuf::from);
    runtime.block_on(async { tokio::spawn(measure(callers, data_dir)).await.unwrap() });
}

async fn measure(callers: usize, data_dir: Option<PathBuf>) {
    let scratch = tempfile::tempdir().unwrap();
    let data_dir = data_dir.unwrap_or_else(|| scratch.path().to_owned());
    let mut roomy = config();
    roomy.limits.invocations_per_minute = u32::MAX;
    roomy.limits.concurrent_invocations = u32::MAX;
    let server = Server::start_synced(&data_dir, roomy, SyncMode::Durable).await;
    let caller = server.guest().await;
    let code = PutCode { kind: "nodejs".into(), content: "quick {}".into(), format: None, main: None };
    let put = PutFunction { overwrite: true, code: Some(code), ..PutFunction::default() };
    server.controller.put_function(&caller, "guest/f".parse().unwrap(), put, &|_| {}).await.unwrap();

    let accepted = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let (controller, caller, accepted) =
                (server.controller.clone(), caller.clone(), Arc::clone(&accepted));
            tokio::spawn(async move {
                while began.elapsed() < Duration::from_secs(SECONDS) {
                    let invocation = Invocation {
                        path: "guest/f".parse().unwrap(),
                        body: Body::Full("{\"name\":\"you\"}".into()),
                        head: None,
                        mode: Mode::NonBlocking,
                        accepts: Accepts::Json,
                        transaction: "t".into(),
                        arrived: Instant::now(),
                        api_key: None,
                    };
                    match controller.invoke(&caller, invocation).await.unwrap() {
                        Answer::Accepted(_) => accepted.fetch_add(1, Ordering::Relaxed),
                        other => panic!("{other:?}"),
                    };
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let took = began.elapsed();
    let count = accepted.load(Ordering::Relaxed);
    println!("S22 {callers} callers: accepted {:.0} /s", count as f64 / took.as_secs_f64());
    eventually("the end of all", || async { (server.controller.calls_in_flight() == 0).then_some(()) }).await;
    println!("all {count} run after {:?}", began.elapsed());
    server.stop().await;
}
