//! Zygotes that user code tampers with: by native means, which the shim cannot see through.

mod support;

use std::time::{Duration, Instant};

use serde_json::json;
use support::{House, handler};

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
