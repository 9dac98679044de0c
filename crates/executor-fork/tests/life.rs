//! The life of a zygote: it is killed, let go, made anew, ended.

mod support;

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use flint_executor::{
    BRING_UP, Executor, Fault, FunctionSource, Prepared, PrewarmTarget, StartContext, conformance::marked,
};
use flint_executor_fork::ForkConfig;
use flint_model::ByteSize;
use support::{House, adjusted, context, eventually, handler, warmed};

const COUNTING: &str = "let calls = 0; exports.main = () => ({ calls: calls++ });";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_zygote_is_replaced_and_no_start_fails() {
    let house = House::with(ForkConfig { standbys: 0, ..ForkConfig::default() }).await;
    let prepared = house.prepare(handler("nodejs:default", COUNTING)).await;
    let zygote = house.shims()[0];
    let is_killed = Arc::new(AtomicBool::new(false));
    let load = (0..4).map(|_| {
        let (executor, prepared) = (Arc::clone(&house.executor), Arc::clone(&prepared));
        let is_killed = Arc::clone(&is_killed);
        tokio::spawn(async move {
            let mut since = 0;
            while since < 20 {
                since += u32::from(is_killed.load(Ordering::Relaxed));
                executor.start(&prepared, context()).await.unwrap().instance.stop().await;
            }
        })
    });
    let load: Vec<_> = load.collect();
    eventually("the load is there", || house.counts().forked > 8).await;
    let killed = std::process::Command::new("kill").args(["-KILL", &zygote.to_string()]).status().unwrap();
    assert!(killed.success());
    is_killed.store(true, Ordering::Relaxed);
    for starts in load {
        starts.await.unwrap();
    }
    assert!(!house.shims().contains(&zygote));
    eventually("it is replaced at once, and then by one that had its practice", || {
        house.counts().rebuilt == 2
    })
    .await;
    assert_eq!(house.counts().zygotes, 1);
    assert_eq!(house.answer_of(&prepared, "{}").await["calls"], 0);
    house.end().await;
}

/// Who uploads it has room for the upload only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_code_is_not_in_memory_while_it_is_loaded_and_frozen() {
    let house = House::new().await;
    let (source, mark) = marked(handler("nodejs:default", COUNTING));
    let gone = AtomicBool::new(false);
    let progress = |step: &str| {
        if step == "freezing it" {
            gone.store(Arc::strong_count(&mark) == 1, Ordering::Relaxed);
        }
    };
    let prepared = house.executor.prepare(source, &progress).await.unwrap();
    assert!(gone.into_inner());
    assert_eq!(house.answer_of(&prepared, "{}").await["calls"], 0);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zygote_that_nobody_calls_stands_still_and_serves_the_next_call() {
    let house = House::with(ForkConfig { standbys: 0, ..ForkConfig::default() }).await;
    let python =
        "calls = 0\ndef main(params):\n    global calls\n    calls += 1\n    return {'calls': calls - 1}\n";
    for (kind, code) in [("nodejs:default", COUNTING), ("python:default", python)] {
        let prepared = house.prepare(handler(kind, code)).await;
        let zygote = *house.shims().last().unwrap();
        for _ in 0..2 {
            assert_eq!(house.answer_of(&prepared, "{}").await["calls"], 0);
            eventually("it stands still", || {
                let status = std::fs::read_to_string(format!("/proc/{zygote}/status"));
                status.unwrap().contains("State:\tT")
            })
            .await;
        }
        assert_eq!(house.answer_of(&prepared, "{}").await["calls"], 0);
        assert_eq!(house.counts().zygotes, 1);
    }
    let counts = house.counts();
    assert_eq!((counts.forked, counts.rebuilt, counts.tampered), (6, 0, 0));
    house.end().await;
}

/// The end of a process that alone connects its group with the rest of the session ends the whole group, if a
/// process of it is stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_leaves_its_process_group_ends_neither_its_siblings_nor_the_zygote() {
    let house = House::with(ForkConfig { standbys: 0, ..ForkConfig::default() }).await;
    let code = "import os\nkept = None\n\
        def main(params):\n    \
            if params.get('leave'):\n        \
                reader, writer = os.pipe()\n        \
                child = os.fork()\n        \
                if child == 0:\n            \
                    os.read(reader, 1)\n            \
                    os._exit(0)\n        \
                try: os.setpgid(0, 0)\n        \
                except PermissionError: pass\n        \
                os.write(writer, b'x')\n        \
                os.waitpid(child, 0)\n        \
                os.close(reader)\n        \
                os.close(writer)\n    \
            return {'pid': os.getpid()}\n";
    for opens in ["None", "open(__file__)"] {
        // With a file that is open, clones are made without the native helper.
        let code = code.replace("kept = None", &format!("kept = {opens}"));
        let prepared = house.prepare(handler("python:default", &code)).await;
        assert_eq!(prepared.fallback, None, "{opens}");
        let zygote = *house.shims().last().unwrap();
        let (leaving, sibling) =
            (house.start_prepared(&prepared).await.instance, house.start_prepared(&prepared).await.instance);
        let pid = support::text(sibling.invoke(support::json("{}")).await);
        eventually("the zygote stands still", || {
            let status = std::fs::read_to_string(format!("/proc/{zygote}/status"));
            status.unwrap().contains("State:\tT")
        })
        .await;
        support::text(leaving.invoke(support::json(r#"{"leave": true}"#)).await);
        assert_eq!(support::text(sibling.invoke(support::json("{}")).await), pid, "{opens}");
        for instance in [leaving, sibling] {
            instance.stop().await;
        }
        assert!(house.answer_of(&prepared, "{}").await["pid"].is_u64(), "{opens}");
        assert!(house.shims().contains(&zygote), "{opens}");
    }
    let counts = house.counts();
    assert_eq!((counts.rebuilt, counts.tampered), (0, 0));
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_that_takes_longer_than_its_function_may_is_waited_for() {
    let house = House::with(ForkConfig { standbys: 0, ..ForkConfig::default() }).await;
    let prepared = house.prepare(handler("nodejs:default", COUNTING)).await;
    let zygote = house.shims()[0];
    let tell = |signal: &str| {
        let told = std::process::Command::new("kill").args([signal, &zygote.to_string()]).status().unwrap();
        assert!(told.success());
    };
    tell("-STOP");
    let brief = StartContext { deadline: Instant::now() + Duration::from_millis(200), ..context() };
    let going_on = async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        tell("-CONT");
    };
    let (started, ()) = tokio::join!(house.executor.start(&prepared, brief), going_on);
    started.unwrap_or_else(|failure| panic!("{failure}")).instance.stop().await;
    assert_eq!((house.counts().zygotes, house.counts().rebuilt), (1, 0));
    assert!(house.shims().contains(&zygote));
    house.end().await;
}

/// What was prepared after a restart, and whose start has met its deadline. Where this process stood still until the
/// snapshot was there, the start goes well, and another life tries it again.
async fn started_too_late(
    house: &mut House,
    source: impl Fn() -> FunctionSource,
    deadline: impl Fn() -> Instant,
) -> Arc<Prepared> {
    for _ in 0..10 {
        house.restart(ForkConfig { standbys: 0, ..ForkConfig::default() }).await;
        let prepared = house.prepare(source()).await;
        let brief = StartContext { deadline: deadline(), ..context() };
        match house.executor.start(&prepared, brief).await {
            Ok(started) => started.instance.stop().await,
            Err(failure) => {
                assert_eq!(failure.fault, Fault::Deadline);
                return prepared;
            }
        }
    }
    panic!("no start met its deadline");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_the_time_of_a_call_is_too_short_for_is_made_beside_the_calls() {
    let mut house = House::with(ForkConfig { standbys: 0, ..ForkConfig::default() }).await;
    let slow = "const end = Date.now() + 500; while (Date.now() < end); exports.main = () => ({ ok: 1 });";
    let limit = Duration::from_millis(400);
    let source = |attempt: u32| {
        let code = format!("{slow}// {attempt}");
        adjusted(handler("nodejs:default", &code), |function| function.limits.timeout = limit)
    };
    let mut attempt = 0;
    let mut prepared = house.prepare(source(attempt)).await;
    // A deploy has a second more, which a busy machine may not have.
    while prepared.snapshot.is_none() && attempt < 10 {
        attempt += 1;
        prepared = house.prepare(source(attempt)).await;
    }
    assert!(prepared.snapshot.is_some(), "{:?}", prepared.fallback);
    drop(prepared);
    let prepared = started_too_late(&mut house, || source(attempt), || Instant::now() + limit).await;
    eventually("it is made all the same", || house.counts().zygotes == 1).await;
    assert_eq!(house.answer_of(&prepared, "{}").await["ok"], 1);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_takes_longer_to_freeze_than_a_call_waits_is_made_beside_the_calls() {
    let mut house = House::with(ForkConfig { standbys: 0, ..ForkConfig::default() }).await;
    let slow = "require('flint').beforeSnapshot(() => new Promise((done) => setTimeout(done, 3000))); exports.main = () => ({ ok: 1 });";
    let source = || handler("nodejs:default", slow);
    let prepared = house.prepare(source()).await;
    assert!(prepared.snapshot.is_some(), "{:?}", prepared.fallback);
    drop(prepared);
    let in_a_second = || Instant::now() + Duration::from_secs(1) - BRING_UP;
    let prepared = started_too_late(&mut house, source, in_a_second).await;
    eventually("it is made all the same", || house.counts().zygotes == 1).await;
    assert_eq!(house.answer_of(&prepared, "{}").await["ok"], 1);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_a_call_is_served_by_an_unwarmed_zygote_that_a_warmed_one_replaces() {
    let mut house = House::new().await;
    let source = || warmed(handler("nodejs:default", COUNTING), &["{}"]);
    let prepared = house.prepare(source()).await;
    let report = prepared.snapshot.clone().unwrap();
    assert!(report.warmup_calls > 0 && report.kept, "{report:?}");
    assert!(report.private_bytes.is_some_and(|bytes| bytes > 1 << 20), "{report:?}");
    assert!(report.pss_bytes.is_some_and(|bytes| bytes > 1 << 20), "{report:?}");
    assert!(
        house.answer_of(&prepared, "{}").await["calls"].as_u64() > Some(0),
        "the warm-up's calls are remembered"
    );
    drop(prepared);
    house.restart(ForkConfig::default()).await;
    eventually("nothing is left of the one before", || house.shims().is_empty()).await;
    let prepared = house.prepare(source()).await;
    let mut known = prepared.snapshot.clone().unwrap();
    assert!(known.notes.pop().is_some_and(|note| note.contains("figures of then")), "{known:?}");
    assert_eq!((prepared.took, &known), (Duration::ZERO, &report));
    assert_eq!(house.answer_of(&prepared, "{}").await["calls"], 0);
    eventually("the warmed-up one has taken over", || house.counts().rebuilt == 1).await;
    assert!(house.answer_of(&prepared, "{}").await["calls"].as_u64() > Some(0));
    eventually("the first one is gone", || house.shims().len() == 1 + house.counts().standbys as usize).await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deploy_of_known_code_has_a_warmed_up_zygote_before_its_first_call() {
    let config = || ForkConfig { standbys: 0, ..ForkConfig::default() };
    let mut house = House::with(config()).await;
    let source = || warmed(handler("nodejs:default", COUNTING), &["{}"]);
    let first = house.prepare(source()).await;
    let zygote = house.shims();
    house.executor.anticipate(&first).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(house.shims(), zygote, "it has one");
    drop(first);
    house.restart(config()).await;
    eventually("nothing is left of the one before", || house.shims().is_empty()).await;
    let again = house.prepare(source()).await;
    assert_eq!(house.counts().zygotes, 0, "nobody has said that it was deployed");
    for _ in 0..2 {
        drop(house.executor.anticipate(&again));
    }
    house.executor.anticipate(&again).await;
    assert_eq!(house.counts().zygotes, 1, "it was waited for");
    assert!(house.answer_of(&again, "{}").await["calls"].as_u64() > Some(0), "it is warmed up");
    assert_eq!((house.counts().rebuilt, house.shims().len()), (0, 1), "once");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_comes_while_a_zygote_is_made_for_it_is_served_and_the_warmed_up_one_stays() {
    let config = || ForkConfig { standbys: 0, ..ForkConfig::default() };
    let mut house = House::with(config()).await;
    let source = || warmed(handler("nodejs:default", COUNTING), &["{}"]);
    drop(house.prepare(source()).await);
    house.restart(config()).await;
    let prepared = house.prepare(source()).await;
    drop(house.executor.anticipate(&prepared));
    assert!(house.answer_of(&prepared, "{}").await["calls"].is_u64());
    let late = Instant::now() + Duration::from_secs(60);
    while house.answer_of(&prepared, "{}").await["calls"] == 0 {
        assert!(Instant::now() < late, "no warmed-up one has taken over");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    eventually("no other one is left", || house.shims().len() == 1).await;
    assert!(house.counts().rebuilt <= 1, "{:?}", house.counts());
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_functions_are_warmed_up_in_turn_after_a_restart() {
    let config = || ForkConfig {
        standbys: 0,
        warmup_calls: 2,
        made_at_once: NonZeroUsize::MIN,
        ..ForkConfig::default()
    };
    let mut house = House::with(config()).await;
    let slow = "const end = Date.now() + 300; while (Date.now() < end); return { n:";
    let sources = || {
        let code = |n| format!("exports.main = () => {{ {slow} {n} }}; }};");
        (0..5).map(move |n| warmed(handler("nodejs:default", &code(n)), &["{}"]))
    };
    for source in sources() {
        drop(house.prepare(source).await);
    }
    house.restart(config()).await;
    eventually("nothing is left of those before", || house.shims().is_empty()).await;
    let mut prepared = Vec::new();
    for (n, source) in sources().enumerate() {
        prepared.push(house.prepare(source).await);
        assert_eq!(house.answer_of(&prepared[n], "{}").await["n"], n);
    }
    let mut most = 0;
    eventually("all have taken over", || {
        most = most.max(house.shims().len());
        house.counts().rebuilt == 5
    })
    .await;
    // Each has one that serves; beside them there is one in the making, and those that have just been succeeded end.
    assert!((6..=8).contains(&most), "{most} at once");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_zygote_goes_and_comes_back_with_the_next_call() {
    let idle = Duration::from_millis(300);
    let house = House::with(ForkConfig { idle, ..ForkConfig::default() }).await;
    let prepared = house.prepare(handler("python:default", "def main(params): return {}\n")).await;
    eventually("it is let go, and nothing is left of it", || {
        house.counts().zygotes == 0 && house.shims().is_empty()
    })
    .await;
    let rebuilt = house.counts().rebuilt;
    assert_eq!(house.answer_of(&prepared, "{}").await, serde_json::json!({}));
    // Or more: on a busy machine one may be let go again before it was forked.
    assert!(house.counts().rebuilt > rebuilt);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zygote_that_an_instance_runs_from_is_not_let_go_before_it() {
    let idle = Duration::from_secs(4);
    let house = House::with(ForkConfig { idle, standbys: 0, ..ForkConfig::default() }).await;
    let prepared = house.prepare(handler("python:default", "def main(params): return {}\n")).await;
    let warm = house.start_prepared(&prepared).await.instance;
    let (rebuilt, shims) = (house.counts().rebuilt, house.shims());
    tokio::time::sleep(idle * 3).await;
    house.executor.reclaim(ByteSize::mib(1024), None).await;
    assert_eq!((house.counts().zygotes, house.shims()), (1, shims.clone()), "it lives and counts");
    assert!(house.executor.prewarmed_memory().await.all > ByteSize::mib(5));
    let another = house.start_prepared(&prepared).await.instance;
    assert_eq!(house.shims().len(), shims.len() + 1, "no other zygote is made beside it");
    assert_eq!(house.counts().rebuilt, rebuilt);
    assert_eq!(support::text(warm.invoke(support::json("{}")).await), "{}");
    for instance in [warm, another] {
        instance.stop().await;
    }
    eventually("it goes when the last one has gone", || {
        house.counts().zygotes == 0 && house.shims().is_empty()
    })
    .await;
    assert_eq!(house.executor.prewarmed_memory().await.all, ByteSize::bytes(0));
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zygote_that_lives_on_for_its_clones_counts_and_serves_again_when_its_successor_has_gone() {
    let config = || ForkConfig { idle: Duration::from_secs(6), standbys: 0, ..ForkConfig::default() };
    let mut house = House::with(config()).await;
    let source = || warmed(handler("nodejs:default", COUNTING), &["{}"]);
    drop(house.prepare(source()).await);
    house.restart(config()).await;
    let prepared = house.prepare(source()).await;
    // Of one that was not warmed up, because it waited.
    let warm = house.start_prepared(&prepared).await.instance;
    let first = house.shims()[0];
    let alone = house.executor.prewarmed_memory().await.all;
    eventually("the warmed-up one has taken over", || house.counts().rebuilt == 1).await;
    let both = house.executor.prewarmed_memory().await.all;
    assert!(both.as_u64() > alone.as_u64() + (5 << 20), "{both} of two, {alone} of one");
    eventually("nobody wants a clone of it, and it is let go", || house.shims().len() == 2).await;
    assert!(house.shims().contains(&first) && house.counts().zygotes == 1);
    assert!(house.executor.prewarmed_memory().await.all > ByteSize::mib(5));
    let answer = house.answer_of(&prepared, "{}").await;
    assert_eq!(answer["calls"], 0, "of the first one, which there is");
    eventually("a warmed-up one is made again", || house.counts().rebuilt == 2).await;
    assert!(house.answer_of(&prepared, "{}").await["calls"].as_u64() > Some(0));
    warm.stop().await;
    drop(warm);
    eventually("the first one has gone", || !house.shims().contains(&first)).await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_zygote_a_prewarmed_runtime_serves_until_another_one_is_worth_it() {
    let idle = Duration::from_secs(4);
    let house = House::with(ForkConfig { idle, ..ForkConfig::default() }).await;
    let prepared = house.prepare(handler("nodejs:default", COUNTING)).await;
    eventually("the zygote is let go", || house.counts().zygotes == 0).await;
    let memory = prepared.function.limits.memory;
    let target = PrewarmTarget { kind: "nodejs:default".parse().unwrap(), memory, count: 1 };
    house.stems.keep(&[target], &house.nursery).await;
    let mut fresh = 0;
    while house.counts().rebuilt == 0 {
        let up = async {
            while house.stems.memory().await == ByteSize::bytes(0) {
                tokio::time::sleep(Duration::from_millis(5)).await
            }
        };
        tokio::time::timeout(Duration::from_secs(120), up).await.unwrap();
        let started = house.start_prepared(&prepared).await;
        let answer: serde_json::Value =
            serde_json::from_str(&support::text(started.instance.invoke(support::json("{}")).await)).unwrap();
        assert_eq!(answer["calls"], 0, "nothing of another call is in it");
        started.instance.stop().await;
        if started.restored.is_none() {
            fresh += 1;
            assert_eq!((started.started, house.counts().fresh), (Duration::ZERO, fresh));
        }
        assert!(fresh < 50, "calls that keep coming are worth a snapshot");
    }
    assert!(fresh > 0, "a runtime that was up was not used");
    assert!(house.start_prepared(&prepared).await.restored.is_some());
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_of_zygotes_is_known_and_given_back_when_it_is_short() {
    let house = House::new().await;
    let prepared = house.prepare(handler("nodejs:default", COUNTING)).await;
    assert!(house.executor.prewarmed_memory().await.all > ByteSize::mib(5));
    house.executor.reclaim(ByteSize::bytes(1), None).await;
    assert_eq!(house.counts().zygotes, 0);
    assert_eq!(house.executor.prewarmed_memory().await.all, ByteSize::bytes(0));
    assert_eq!(house.answer_of(&prepared, "{}").await["calls"], 0);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_namespaces_many_snapshots_cost_no_other_one_its_own() {
    let house = House::with(ForkConfig { standbys: 0, ..ForkConfig::default() }).await;
    let names = ["quiet/f", "busy/f", "busy/g", "busy/h"];
    let mut prepared = Vec::new();
    for name in names {
        let source = handler("nodejs:default", &format!("{COUNTING} // {name}"));
        prepared.push(house.prepare(adjusted(source, |f| f.path = name.parse().unwrap())).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for left in [3, 2] {
        house.executor.reclaim(ByteSize::bytes(1), None).await;
        assert_eq!(house.counts().zygotes, left);
    }
    for (of, prepared) in prepared.iter().enumerate() {
        let rebuilt = house.counts().rebuilt;
        house.answer_of(prepared, "{}").await;
        assert_eq!(house.counts().rebuilt > rebuilt, (1..=2).contains(&of), "{}", names[of]);
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_wait_get_the_memory_of_what_was_used_least_recently() {
    let house = House::with(ForkConfig { standbys: 0, ..ForkConfig::default() }).await;
    let mut prepared = Vec::new();
    for n in 0..3 {
        prepared.push(house.prepare(handler("nodejs:default", &format!("{COUNTING} // {n}"))).await);
    }
    for of in [0, 1] {
        tokio::time::sleep(Duration::from_millis(20)).await;
        house.answer_of(&prepared[of], "{}").await;
    }
    let another = "guest/another".parse().unwrap();
    let living = house.start_prepared(&prepared[0]).await.instance;
    house.executor.reclaim(ByteSize::bytes(1), Some(&another)).await;
    assert_eq!(house.counts().zygotes, 2, "one is enough");
    for (of, prepared) in prepared.iter().enumerate() {
        house.answer_of(prepared, "{}").await;
        assert_eq!(house.counts().rebuilt > 0, of == 2, "the one that nobody had called is gone");
    }
    house.executor.reclaim(ByteSize::mib(1024), Some(&prepared[1].function.path)).await;
    assert_eq!(house.counts().zygotes, 3, "all are of the function that waits");
    house.executor.reclaim(ByteSize::mib(1024), Some(&another)).await;
    assert_eq!(house.counts().zygotes, 1, "one has a clone");
    living.stop().await;
    drop(living);
    house.executor.reclaim(ByteSize::mib(1024), Some(&another)).await;
    assert_eq!(house.counts().zygotes, 0);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_leaves_nothing_not_even_what_is_being_made() {
    let mut house = House::new().await;
    let slow = "exports.main = () => { const end = Date.now() + 100; while (Date.now() < end); return {}; };";
    let source = || warmed(handler("nodejs:default", slow), &["{}"]);
    drop(house.prepare(source()).await);
    let mut lives = 0;
    let _prepared = loop {
        house.restart(ForkConfig::default()).await;
        let prepared = house.prepare(source()).await;
        for _ in 0..3 {
            house.answer_of(&prepared, "{}").await;
        }
        if house.counts().rebuilt == 0 {
            break prepared;
        }
        // The machine was too busy for the calls to be quicker than what is made beside them.
        lives += 1;
        assert!(lives < 10, "the warmed-up one is still being made");
    };
    house.executor.shutdown().await;
    eventually("everything has ended", || house.shims().is_empty()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(house.shims(), [0; 0], "nothing is made any more");
    house.end().await;
}
