//! Build tools whose products the server receives: how much of them, and what becomes of the file.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{path::PathBuf, time::Duration};

use flint_model::ByteSize;
use flint_runtimes::process::tool::{Bounds, ToolError, make};
use flint_sandbox::SandboxSpec;
use support::House;

const MOST: ByteSize = ByteSize::kib(300);

/// A house, and a place for products.
struct Workshop {
    house: House,
    product: PathBuf,
}

impl Workshop {
    async fn open() -> Self {
        let house = House::new().await;
        let product = house.folder.path().join("product");
        Self { house, product }
    }

    /// Runs a shell script as the tool; returns its product.
    async fn run_within(&self, within: Duration, script: &str) -> Result<Vec<u8>, ToolError> {
        let spec = SandboxSpec::new("tool", ["/bin/sh", "-c", script].map(str::to_owned).into());
        let bounds = Bounds { within, memory: ByteSize::mib(64), size: MOST };
        make(&self.house.launcher, spec, &self.product, bounds).await?;
        let made = std::fs::read(&self.product).unwrap();
        std::fs::remove_file(&self.product).unwrap();
        Ok(made)
    }

    async fn run(&self, script: &str) -> Result<Vec<u8>, ToolError> {
        self.run_within(Duration::from_secs(120), script).await
    }

    /// The error of a tool that must fail, and must leave nothing.
    async fn fail(&self, script: &str) -> ToolError {
        let error = self.run(script).await.unwrap_err();
        assert!(!self.product.exists(), "{script} left a file: {error}");
        error
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_product_arrives_whole_up_to_its_bound() {
    let shop = Workshop::open().await;
    let made = shop.run("seq 1 40000 | head -c 200001 >&3").await.unwrap();
    let sent: String = (1..=40000).map(|n| format!("{n}\n")).collect();
    assert!(made == sent.as_bytes()[..200_001], "{} bytes", made.len());
    let full = format!("head -c {} /dev/zero >&3", MOST.as_u64());
    assert_eq!(shop.run(&full).await.unwrap().len() as u64, MOST.as_u64());
    shop.house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_sends_too_much_is_ended() {
    let shop = Workshop::open().await;
    for script in [
        &format!("head -c {} /dev/zero >&3", MOST.as_u64() + 1),
        // Without an end of its own.
        "while :; do cat /dev/zero >&3; done",
        "cat /dev/zero >&3 & sleep 1000",
        // An intermediate file.
        "trap '' XFSZ; head -c 400000 /dev/zero >/tmp/x && cat /tmp/x >&3",
    ] {
        let error = shop.fail(script).await;
        assert!(matches!(error, ToolError::TooMuch(MOST)), "{script}: {error}");
        assert_eq!(error.to_string(), "it makes more than 300 KB");
    }
    shop.house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_ends_without_its_product_leaves_no_file() {
    let shop = Workshop::open().await;
    for script in ["true", "exec 3>&-; sleep 0.1"] {
        let error = shop.fail(script).await;
        assert!(matches!(&error, ToolError::NotRun(why) if why == "it made nothing"), "{script}: {error}");
    }
    let half = shop.fail("echo half >&3; echo broken >&2; exit 3").await;
    assert!(matches!(&half, ToolError::Failed { said, .. } if said == "broken"), "{half}");
    let killed = shop.fail("echo half >&3; kill -9 $$").await;
    assert!(matches!(killed, ToolError::Failed { .. }), "{killed}");
    let late = shop.run_within(Duration::from_millis(500), "echo half >&3; sleep 1000").await.unwrap_err();
    assert!(matches!(late, ToolError::TooLong(_)) && !shop.product.exists(), "{late}");
    // Whoever gives up leaves nothing either.
    let given_up = tokio::time::timeout(Duration::from_millis(500), shop.run("echo half >&3; sleep 1000"));
    assert!(given_up.await.is_err() && !shop.product.exists());
    shop.house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_holds_the_pipe_ends_with_its_tool() {
    let shop = Workshop::open().await;
    let made = shop.run("(setsid sleep 1000 &) ; echo whole >&3").await.unwrap();
    assert_eq!(made, b"whole\n");
    shop.house.end().await;
}

/// A descriptor of a file on the host's disk could reserve any amount of it, whatever the limits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_holds_no_file_of_the_hosts_disk() {
    let shop = Workshop::open().await;
    let made = shop.run("for fd in /proc/$$/fd/*; do readlink $fd; done >&3; true").await.unwrap();
    let held = String::from_utf8(made).unwrap();
    assert!(held.lines().count() >= 4, "{held}");
    assert!(held.lines().all(|held| held == "/dev/null" || held.starts_with("pipe:")), "{held}");
    let reserve = r#"
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
done = libc.fallocate(3, 1, ctypes.c_long(0), ctypes.c_long(1 << 30))
open(3, "w").write(f"{done} {errno.errorcode.get(ctypes.get_errno())}")
"#;
    let made = shop.run(&format!("exec /usr/bin/python3 -c '{reserve}'")).await.unwrap();
    assert_eq!(String::from_utf8(made).unwrap(), "-1 ESPIPE");
    shop.house.end().await;
}
