//! Runs the instances: a Flint server, or a container runtime.

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use anyhow::Context as _;
use flint_lab::{HttpClient, HttpRequest, ProcessTree, TreeMemory, memory_of};
use serde_json::json;

use super::{Language, group::Group};
use crate::bench::{
    caller::post_to,
    interpreter,
    prepared::Prepared,
    server::{Server, metric},
    suite::{Baseline, Belongings},
    wasm::waiting_component,
};

/// An arm.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `--start`, `--reuse`, and whether it was called before its snapshot.
    Flint(&'static str, &'static str, bool),
    /// One instance for all calls.
    Concurrent,
    /// A WebAssembly component that waits.
    Wasm,
    /// A script of scripts/baselines.
    Baseline(&'static str),
}

pub(super) const SPAWN: &str = "spawn-warm";
pub(super) const CONTAINER: &str = "openwhisk";
pub(super) const CLONE: &str = "fork-never";

/// While all instances are in a call, their reuse makes no difference: one arm covers both.
pub(super) const WAYS: [Way; 7] = [
    Way { name: CONTAINER, kind: Kind::Baseline("openwhisk") },
    Way { name: "gvisor", kind: Kind::Baseline("gvisor") },
    Way { name: SPAWN, kind: Kind::Flint("spawn", "warm", false) },
    Way { name: "spawn-concurrent", kind: Kind::Concurrent },
    Way { name: "fork-never-unwarmed", kind: Kind::Flint("fork", "never", false) },
    Way { name: CLONE, kind: Kind::Flint("fork", "never", true) },
    Way { name: "wasm", kind: Kind::Wasm },
];

impl Way {
    pub(super) fn is_wasm(&self) -> bool {
        self.kind == Kind::Wasm
    }

    /// Whether the server runs the function in this way.
    fn is_made(&self, function: &str, prepared: &Prepared) -> anyhow::Result<()> {
        let (start, reuse, warmed_up) = match self.kind {
            Kind::Flint(start, reuse, warmed_up) => (start, reuse, warmed_up),
            Kind::Concurrent => ("spawn", "warm", false),
            Kind::Wasm | Kind::Baseline(_) => return Ok(()),
        };
        prepared.is_run_as(function, start, reuse)?;
        if warmed_up { prepared.is_warmed_up(function) } else { Ok(()) }
    }
}

/// The server, stopped on drop.
pub(super) enum Place {
    Flint { server: Server, before: Vec<u32>, own: TreeMemory, path: String, concurrent: bool },
    Container { baseline: Baseline },
}

impl Place {
    pub(super) async fn open(
        way: &Way,
        language: Language,
        group: &Group,
        scratch: &Path,
    ) -> anyhow::Result<Self> {
        let (function, kind, code) = language;
        let file = scratch.join(if kind == "python" { "wait.py" } else { "wait.js" });
        fs::write(&file, code).context("writing the function")?;
        if let Kind::Baseline(script) = way.kind {
            let keep_alive = Duration::from_secs(600);
            let baseline = Baseline::of_file(script, false, &file, keep_alive, Some(group.folder()))?;
            return Ok(Self::Container { baseline });
        }
        let settings = [
            ("FLINT_POOL__MEMORY", "1024GB"),
            ("FLINT_POOL__PREWARM", "0"),
            ("FLINT_SNAPSHOT__STANDBYS", "0"),
            ("FLINT_LIMITS__MAX_CONCURRENCY", "100000"),
        ];
        let server = Server::start_in(scratch, &settings, Some(group.folder())).await?;
        let before = ProcessTree::new(server.pid()).pids();
        let event = scratch.join("event.json");
        fs::write(&event, r#"{"ms":1}"#).context("writing the warm-up event")?;
        let event = event.display().to_string();
        let kind = if kind == "python" { interpreter::python()?.kind } else { kind.to_owned() };
        let common = ["--memory", "256", "--timeout", "300s"];
        let mut options: Vec<&str> = common.into();
        let mut path = format!("{function}/invoke");
        let mut module = file;
        match way.kind {
            Kind::Flint(start, reuse, warmed_up) => {
                options.extend(["--kind", &kind, "--start", start, "--reuse", reuse]);
                if start == "fork" {
                    options.extend(["--warmup", if warmed_up { &event } else { "none" }]);
                }
            }
            Kind::Concurrent => {
                options.extend([
                    "--kind",
                    &kind,
                    "--start",
                    "spawn",
                    "--reuse",
                    "warm",
                    "--concurrency",
                    "100000",
                ]);
            }
            Kind::Wasm | Kind::Baseline(_) => {
                module = scratch.join("pause.wasm");
                fs::write(&module, waiting_component()?).context("writing the component")?;
                path = format!("{function}/invoke/pause");
            }
        }
        way.is_made(function, &Prepared::of(&server.deployed(&module, function, &options)?))?;
        let own = memory_of(server.pid());
        Ok(Self::Flint { before, own, path, concurrent: way.kind == Kind::Concurrent, server })
    }

    /// The version of the container runtime, if known.
    pub(super) fn versions(&self) -> Vec<(String, String)> {
        match self {
            Self::Flint { .. } => Vec::new(),
            Self::Container { baseline } => baseline.versions(),
        }
    }

    pub(super) fn pid(&self) -> u32 {
        match self {
            Self::Flint { server, .. } => server.pid(),
            Self::Container { baseline } => baseline.pid(),
        }
    }

    pub(super) fn address(&self) -> SocketAddr {
        match self {
            Self::Flint { server, .. } => server.address,
            Self::Container { baseline } => baseline.address,
        }
    }

    /// A call of that duration.
    pub(super) fn request(&self, hold: Duration) -> HttpRequest {
        let params = json!({ "ms": hold.as_millis() as u64 });
        match self {
            Self::Container { baseline } => baseline.request(0, &params),
            Self::Flint { server, path, .. } => {
                post_to(server.address, path, "application/json", params.to_string().as_bytes())
            }
        }
    }

    /// Calls that have their instance.
    pub(super) async fn busy(&self) -> anyhow::Result<usize> {
        match self {
            Self::Flint { server, concurrent: false, .. } => {
                Ok(metric(server.address, r#"flint_instances{state="busy"}"#).await? as usize)
            }
            Self::Flint { server, .. } => {
                let of = async |name: &str| metric(server.address, name).await;
                let starting = of(r#"flint_instances{state="starting"}"#).await?;
                let (all, waiting) = (of("flint_calls_in_flight").await?, of("flint_calls_waiting").await?);
                Ok(if starting > 0.0 { 0 } else { (all - waiting).max(0.0) as usize })
            }
            Self::Container { baseline } => {
                let request = HttpRequest::new("GET", "/", baseline.address, &[], b"", 200);
                let answer = HttpClient::connect(baseline.address).await?.exchange(&request).await?;
                let said = String::from_utf8_lossy(&answer.body);
                said.trim().parse().with_context(|| format!("the baseline says '{said}'"))
            }
        }
    }

    /// Everything that belongs to the function; of instances inside a server, its growth.
    pub(super) fn belongings(&self) -> Belongings {
        match self {
            Self::Container { baseline } => baseline.belongings(),
            Self::Flint { server, before, own, .. } => {
                let tree = ProcessTree::new(server.pid());
                let apart = before.iter().copied().collect();
                Belongings { tree, apart, inside: Some((server.pid(), *own)) }
            }
        }
    }

    pub(super) fn memory(&self) -> TreeMemory {
        self.belongings().memory().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_is_run_in_another_way_is_not_this_arms() {
        let refused = |way: &str, start: &str, warmup_calls: u64| {
            let strategy = json!({ "start": start, "reuse": if way == CLONE { "never" } else { "warm" } });
            let snapshot = json!({ "warmup_calls": warmup_calls });
            let said = Prepared::of(&json!({ "prepared": { "strategy": strategy, "snapshot": snapshot } }));
            let way = WAYS.iter().find(|one| one.name == way).unwrap();
            way.is_made("f", &said).err().map(|why| why.to_string())
        };
        assert_eq!(refused(CLONE, "fork", 9), None);
        assert_eq!(refused(SPAWN, "spawn", 0), None);
        assert_eq!(refused("wasm", "instantiate", 0), None);
        let other = refused(CLONE, "spawn", 0).unwrap();
        assert_eq!(other, "f is not run as fork/never but as spawn/never");
        assert_eq!(refused(CLONE, "fork", 0).unwrap(), "the snapshot of f was not warmed up");
    }
}
