//! Random calls, cancellations, crashes and updates, on one and on several threads: nothing is lost, nobody is answered twice or
//! never, and in the end nothing is left.

mod common;

use std::{sync::Arc, time::Duration};

use common::{Node, is_good, node, pool};
use flint_executor::Fault;
use flint_invoker::{
    PoolConfig,
    testing::{Answer, Script, function, job, never},
};
use flint_model::{ByteSize, Function};
use flint_scheduler::{Job, Outcome, QueueConfig};
use proptest::{collection::vec, prelude::*, sample::select};

const FUNCTIONS: [&str; 6] = ["a/f", "a/g", "b/f", "b/never", "c/broken", "c/dies"];

#[derive(Clone, Debug)]
enum Step {
    /// So many calls of a function.
    Call(usize, usize),
    /// Some of the calls made so far go away.
    Cancel(usize),
    /// A function gets a new revision.
    Update(usize),
    /// A function behaves differently from now on.
    Change(usize, u64, bool),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..FUNCTIONS.len();
    prop_oneof![
        6 => (which.clone(), 1..12_usize).prop_map(|(f, n)| Step::Call(f, n)),
        2 => (1..8_usize).prop_map(Step::Cancel),
        1 => which.clone().prop_map(Step::Update),
        2 => (which, select(vec![50_u64, 900, 20_000, 300_000]), prop::bool::weighted(0.3))
            .prop_map(|(f, us, faulty)| Step::Change(f, us, faulty)),
        4 => select(vec![0_u64, 100, 3_000, 49_999, 50_000, 200_000, 15_000_000]).prop_map(Step::Wait),
    ]
}

fn small_node() -> Node {
    let pool = PoolConfig {
        memory: Some(ByteSize::mib(400)),
        pause_grace: Duration::from_millis(40),
        keep_alive: Duration::from_secs(5),
        stopping: 4,
        prewarm: 1,
        ..pool()
    };
    let node = node(pool, QueueConfig { per_function: 40, total: 80, ..QueueConfig::default() });
    node.sim.script("c/broken", Script { failing_starts: 7, ..Script::default() });
    node.sim
        .script("c/dies", Script { dies_idle_after: Some(Duration::from_millis(30)), ..Script::default() });
    node
}

async fn play(steps: Vec<Step>) {
    let node = small_node();
    let first = |path: &str| Arc::new(if path == "b/never" { never(path) } else { function(path) });
    let mut functions: Vec<Arc<Function>> = FUNCTIONS.iter().map(|path| first(path)).collect();
    let mut calls = Vec::new();
    for step in steps {
        match step {
            // Some of them are calls that others wait for.
            Step::Call(f, n) => calls.extend((0..n).map(|which| {
                let nested = (which % 6) as u32;
                let (scheduler, job) = (Arc::clone(&node.scheduler), Job { nested, ..job(&functions[f]) });
                tokio::spawn(async move {
                    let ran = scheduler.run(job).await;
                    if let Outcome::Streaming { end, .. } = ran.outcome {
                        end.await.expect("a stream has an end");
                    }
                })
            })),
            // From the middle: neither only running nor only waiting ones.
            Step::Cancel(n) => calls.iter().skip(calls.len() / 2).take(n).for_each(|call| call.abort()),
            Step::Update(f) => {
                let mut new = (*functions[f]).clone();
                new.revision += 1;
                node.invoker.forget(&new.path, functions[f].revision, &[]);
                functions[f] = Arc::new(new);
            }
            Step::Change(f, us, faulty) => {
                let fault = Answer::Fault(Fault::Exited { end: None });
                let answer = if faulty {
                    fault
                } else if us == 900 {
                    Answer::Stream(3)
                } else {
                    Answer::Json
                };
                node.sim.script(
                    FUNCTIONS[f],
                    Script { service: Duration::from_micros(us), answer, ..Script::default() },
                );
            }
            Step::Wait(us) => tokio::time::sleep(Duration::from_micros(us)).await,
        }
        let stats = node.invoker.stats();
        // A tenth for what is being stopped, a quarter for calls that others wait for.
        assert!(stats.memory_charged <= ByteSize::mib(540), "{stats:?}");
    }
    for call in calls {
        match call.await {
            Ok(()) => {}
            Err(error) => assert!(error.is_cancelled(), "{error}"),
        }
    }
    let totals = node.scheduler.stats().totals;
    assert_eq!(totals.waited_too_long, 0, "something that could have run was left waiting: {totals:?}");
    // Whatever happened, a healthy function can still be called.
    node.sim.script("d/healthy", Script::default());
    assert!(is_good(&node.call(&first("d/healthy")).await));
    node.ends_clean().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_nothing_is_lost(steps in vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(play(steps));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_do_not_lose_anything_either() {
    let node = Arc::new(small_node());
    for path in FUNCTIONS {
        let script = Script {
            start: Duration::from_micros(300),
            service: Duration::from_micros(20),
            ..Script::default()
        };
        node.sim.script(path, Script { stop: Duration::from_micros(100), ..script });
    }
    let clients: Vec<_> = (0..16_usize)
        .map(|client| {
            let node = Arc::clone(&node);
            tokio::spawn(async move {
                for round in 0..150_usize {
                    let path = FUNCTIONS[(client + round) % 4];
                    let f = Arc::new(if path == "b/never" { never(path) } else { function(path) });
                    let call = node.spawn(&f);
                    if (client * 7 + round) % 5 == 0 {
                        tokio::task::yield_now().await;
                        call.abort();
                        let _ = call.await;
                    } else {
                        let ran = call.await.expect("a call that nobody cancelled has an end");
                        assert!(is_good(&ran), "{ran:?}");
                    }
                }
            })
        })
        .collect();
    for client in clients {
        client.await.expect("a client has an end");
    }
    Arc::into_inner(node).expect("the clients are gone").ends_clean().await;
}
