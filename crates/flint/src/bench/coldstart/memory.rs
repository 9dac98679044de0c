//! Measures the memory of many live instances, by calls of a function that waits.

use std::{
    collections::HashSet,
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use flint_lab::{Arm as _, ArmReport, HttpAnswer, HttpClient, ProcessTree, TreeMemory, memory_of, parent_of};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::bench::{caller::post, server::metric, shim_link::ShimArm};

pub(in crate::bench) const WAIT_NODE: &str =
    "exports.main = ({ ms }) => new Promise((resolve) => setTimeout(() => resolve({}), ms));\n";
pub(in crate::bench) const WAIT_PYTHON: &str =
    "import time\n\ndef main(params):\n    time.sleep(params['ms'] / 1000)\n    return {}\n";

/// Time limit for the last instance of an earlier measurement to end.
const QUIET_WITHIN: Duration = Duration::from_secs(60);
/// Delay from the last instance being busy until its call waits.
const SETTLE: Duration = Duration::from_millis(300);
/// Memory reserved for the host, per instance of a spawned arm.
const SPAWNED_BYTES: u64 = 80 << 20;

/// The memory of `live` instances.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Held {
    pub(super) live: usize,
    /// All their processes together.
    pub(super) instances: TreeMemory,
    /// The zygote that they were forked from, or why it is unknown; zero if there is none.
    pub(super) zygote: Result<TreeMemory, String>,
}

impl Held {
    /// One instance's share.
    pub(super) fn report(&self, arm: &str, function: &str) -> ArmReport {
        let each = |bytes: u64| Some(bytes / self.live as u64);
        ArmReport {
            arm: arm.to_owned(),
            function: Some(function.to_owned()),
            concurrency: Some(self.live),
            n: Some(self.live as u64),
            rss_bytes: each(self.instances.rss),
            pss_bytes: each(self.instances.pss),
            private_bytes: each(self.instances.private),
            ..ArmReport::default()
        }
    }
}

/// Holds `live` calls of `function`, and measures the processes that were added.
pub(super) async fn held(
    server: SocketAddr,
    pid: u32,
    function: &str,
    live: usize,
    is_fork: bool,
) -> anyhow::Result<Held> {
    if !is_fork {
        let needed = live as u64 * SPAWNED_BYTES;
        ensure!(needed < available_memory() / 2, "{live} spawned instances need more memory than is free");
    }
    call_once(server, function).await?;
    none_left(server).await?;
    let tree = ProcessTree::new(pid);
    let before: HashSet<u32> = tree.pids().into_iter().collect();

    // Long enough for the last one to come up before the first one ends, and for all to be measured.
    let hold = Duration::from_secs(5) + Duration::from_millis(if is_fork { 30 } else { 250 }) * live as u32;
    let body = format!(r#"{{"ms":{}}}"#, hold.as_millis());
    let mut calls = JoinSet::new();
    for _ in 0..live {
        let request = post(server, function, "application/json", body.as_bytes());
        calls.spawn(async move {
            let answer = timeout(3 * hold, HttpClient::connect(server).await?.exchange(&request)).await??;
            is_right(&answer)
        });
    }
    let seen = watch(server, live, hold, tree, &before).await;
    while let Some(call) = calls.join_next().await {
        call.context("a call that waits")??;
    }
    // The next measurement waits for the remaining ones.
    let _ = none_left(server).await;
    seen
}

/// Waits until no instance is left.
async fn none_left(server: SocketAddr) -> anyhow::Result<()> {
    let begin = Instant::now();
    while busy(server).await? > 0 || alive(server).await? > 0 {
        ensure!(begin.elapsed() < QUIET_WITHIN, "instances of earlier calls stay");
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

async fn watch(
    server: SocketAddr,
    live: usize,
    hold: Duration,
    tree: ProcessTree,
    before: &HashSet<u32>,
) -> anyhow::Result<Held> {
    let begin = Instant::now();
    while busy(server).await? < live {
        ensure!(begin.elapsed() < hold, "{live} instances did not live at once within {} s", hold.as_secs());
        sleep(Duration::from_millis(20)).await;
    }
    sleep(SETTLE).await;
    let come: Vec<u32> = tree.pids().into_iter().filter(|pid| !before.contains(pid)).collect();
    let instances: TreeMemory = come.iter().copied().map(memory_of).sum();
    let zygote = zygote(live, &come, before, parent_of, memory_of);
    ensure!(busy(server).await? >= live, "some of {live} instances ended while their memory was read");
    ensure!(instances.rss > 0, "the memory of other users' processes cannot be read: this needs root");
    Ok(Held { live, instances, zygote })
}

/// The memory of the zygote of `come`, the processes of `live` instances; it existed before them. The parent
/// of a spawned process is the launcher, which holds none of its pages.
fn zygote(
    live: usize,
    come: &[u32],
    before: &HashSet<u32>,
    parent: impl Fn(u32) -> Option<u32>,
    memory: impl Fn(u32) -> TreeMemory,
) -> Result<TreeMemory, String> {
    if come.len() != live {
        return Err(format!(
            "{} processes came with {live} instances, so that it is not known what they were forked from",
            come.len()
        ));
    }
    let parents: HashSet<u32> = come.iter().filter_map(|&pid| parent(pid)).collect();
    let found: TreeMemory = parents.into_iter().filter(|pid| before.contains(pid)).map(memory).sum();
    match found.pss {
        0 => Err("the memory of what they were forked from cannot be read".to_owned()),
        _ => Ok(found),
    }
}

async fn call_once(server: SocketAddr, function: &str) -> anyhow::Result<()> {
    let request = post(server, function, "application/json", br#"{"ms":0}"#);
    is_right(&HttpClient::connect(server).await?.exchange(&request).await?)
}

fn is_right(answer: &HttpAnswer) -> anyhow::Result<()> {
    let (status, body) = (answer.status, String::from_utf8_lossy(&answer.body));
    ensure!(status == 200, "status {status} instead of 200: {body}");
    Ok(())
}

async fn busy(server: SocketAddr) -> anyhow::Result<usize> {
    Ok(metric(server, r#"flint_instances{state="busy"}"#).await? as usize)
}

async fn alive(server: SocketAddr) -> anyhow::Result<usize> {
    let idle = metric(server, r#"flint_instances{state="idle"}"#).await?;
    let starting = metric(server, r#"flint_instances{state="starting"}"#).await?;
    Ok((idle + starting) as usize)
}

fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok())
        .map_or(u64::MAX, |kib| kib * 1024)
}

/// The same for unsandboxed processes, each called once.
pub(super) async fn processes(argv: &[String], code: PathBuf, live: usize) -> anyhow::Result<Held> {
    if live as u64 * SPAWNED_BYTES >= available_memory() / 2 {
        bail!("{live} processes need more memory than is free");
    }
    let check = Arc::new(|result: &[u8]| result == b"{}");
    let arm = ShimArm::new(argv.to_vec(), code, Bytes::from_static(br#"{"ms":0}"#), check);
    let mut connections = Vec::new();
    for _ in 0..live {
        let mut connection = arm.connect().await?;
        connection.call().await?;
        connections.push(connection);
    }
    let instances = arm.pids().into_iter().map(memory_of).sum();
    Ok(Held { live, instances, zygote: Ok(TreeMemory::default()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zygote_that_is_not_known_takes_not_nothing() {
        let before = HashSet::from([1, 2]);
        let of = |come: &[u32], parent: Option<u32>| {
            let memory = |pid| TreeMemory { pss: if pid == 2 { 30 } else { 0 }, ..TreeMemory::default() };
            zygote(2, come, &before, |_| parent, memory).map(|found| found.pss)
        };
        assert_eq!(of(&[7, 8], Some(2)), Ok(30));
        let why = of(&[7, 8, 9], Some(2)).unwrap_err();
        assert!(why.starts_with("3 processes came with 2 instances, so"), "{why}");
        for parent in [Some(1), Some(7), None] {
            assert!(of(&[7, 8], parent).unwrap_err().contains("cannot be read"), "{parent:?}");
        }
    }
}
