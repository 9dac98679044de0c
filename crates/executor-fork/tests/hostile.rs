//! Zygotes that user code tampers with: by native means, which the shim cannot see through.

mod support;

use std::time::{Duration, Instant};

use flint_executor_fork::ForkConfig;
use serde_json::json;
use support::{House, eventually, handler};

/// Seen before the snapshot is there: it is refused, with the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_be_shared_is_found_before_the_snapshot_and_said() {
    let house = House::new().await;
    let hidden = "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.mmap.restype = ctypes.c_void_p\n";
    for (code, reason) in [
        ("assert libc.mmap(None, ctypes.c_size_t(4096), 3, 0x21, -1, ctypes.c_long(0))", "shared"),
        (
            "thread = ctypes.c_ulong()\nassert libc.pthread_create(ctypes.byref(thread), None, libc.sleep, ctypes.c_void_p(600)) == 0",
            "thread",
        ),
        ("assert libc.socket(1, 1, 0) > 0", "socket"),
        (
            "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_DFL)\nif libc.fork() == 0:\n    libc.sleep(600)",
            "child",
        ),
    ] {
        let prepared = house
            .prepare(handler("python:default", &format!("{hidden}{code}\ndef main(params): return {{}}\n")))
            .await;
        let why = prepared.fallback.as_deref().unwrap_or_default();
        assert!(why.contains(reason), "{code}: {why}");
        assert_eq!(house.answer_of(&prepared, "{}").await, json!({}), "it runs as a fresh process: {code}");
    }
    assert_eq!(house.counts().zygotes, 0);
    house.end().await;
}

/// Done when the snapshot is forked: found, made anew, and after the third time it is not frozen any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_tampers_with_forks_is_found_and_ends_as_fresh_processes() {
    for (handlers, action) in [
        // The clone shares memory with whom it gives the mapping to.
        ("None, None, handler", "kept.append(mmap.mmap(-1, 4096))"),
        // A descriptor stays in the zygote and goes to all later clones.
        ("handler, None, None", "kept.append(os.open('/function', os.O_RDONLY))"),
        // A thread that nobody knows of watches the call.
        (
            "None, None, handler",
            "libc.pthread_create(ctypes.byref(thread), None, libc.sleep, ctypes.c_void_p(600))",
        ),
    ] {
        let house = House::new().await;
        let code = format!(
            "import ctypes, mmap, os\nlibc, thread, kept = ctypes.CDLL(None), ctypes.c_ulong(), []\n\
             handler = ctypes.CFUNCTYPE(None)(lambda: {action} and None)\n\
             # Not through os, which the shim guards.\n\
             assert getattr(libc, '__register_atfork')({handlers}, None) == 0\ndef main(params): return {{}}\n"
        );
        let prepared = house.prepare(handler("python:default", &code)).await;
        assert_eq!(prepared.fallback, None, "{action}");
        let deadline = Instant::now() + Duration::from_secs(60);
        // A descriptor may belong to a fork under way: it is believed to stay when it has stayed a while.
        while house.counts().fresh < 2 {
            assert_eq!(house.answer_of(&prepared, "{}").await, json!({}), "{action}");
            assert!(Instant::now() < deadline, "{action}: {:?}", house.counts());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let counts = house.counts();
        assert_eq!((counts.tampered, counts.zygotes), (3, 0), "{action}: {counts:?}");
        assert!(counts.rebuilt <= 2, "{action}: {counts:?}");
        house.end().await;
    }
}

/// What a signal handler forks in the snapshot, long after the fork that set its timer, would run on beside
/// later calls, and without any. The first time, it might be left of a fork that took too long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_runs_code_without_a_call_is_ended_and_made_anew() {
    let house = House::with(ForkConfig { standbys: 0, ..ForkConfig::default() }).await;
    let code = "import ctypes, os\n\
        libc = ctypes.CDLL(None)\n\
        def begin():\n    libc.alarm(1)\n\
        def ring(number):\n    \
            if libc.syscall(57) == 0:\n        while True: pass\n\
        parent, alarm = ctypes.CFUNCTYPE(None)(begin), ctypes.CFUNCTYPE(None, ctypes.c_int)(ring)\n\
        libc.signal(14, alarm)\n\
        assert getattr(libc, '__register_atfork')(None, parent, None, None) == 0\n\
        def main(params): return {}\n";
    let prepared = house.prepare(handler("python:default", code)).await;
    assert_eq!(prepared.fallback, None);
    let first = house.shims();
    assert_eq!(house.answer_of(&prepared, "{}").await, json!({}));
    eventually("it forks", || house.shims().len() == 2).await;
    eventually("what it forked is killed", || house.shims() == first).await;
    assert_eq!(house.answer_of(&prepared, "{}").await, json!({}));
    eventually("it is found out", || house.counts().tampered == 1).await;
    eventually("nothing is left of it", || house.shims().is_empty()).await;
    assert_eq!(house.answer_of(&prepared, "{}").await, json!({}));
    assert_eq!((house.counts().zygotes, house.counts().fresh), (1, 0));
    assert!(!house.shims().contains(&first[0]));
    house.end().await;
}
