//! What only Go needs: functions are compiled at deploy, each in a sandbox without network, over a cache of the compiled standard library that
//! nothing of a user's has ever written to.

mod cache;
mod compile;

pub(crate) use cache::GoCaches;
pub(crate) use compile::{Build, compile};

use flint_model::ByteSize;
use flint_sandbox::{Mount, SandboxSpec};

use crate::{discover::Runtime, process::command::environment};

/// Objects of packages that are not in the cache, and what the linker writes.
const SCRATCH: ByteSize = ByteSize::mib(384);

/// A sandbox for `go`, without network: what a function needs is in its archive, in `vendor/`.
fn tool(
    id: &str,
    runtime: &Runtime,
    arguments: &[&str],
    cwd: &str,
    cache: &str,
    memory: ByteSize,
) -> SandboxSpec {
    let program = runtime.inside(&runtime.program).display().to_string();
    let argv = std::iter::once(program.as_str()).chain(arguments.iter().copied()).map(str::to_owned);
    let mut spec = SandboxSpec::new(id, argv.collect());
    spec.env = environment(Some(runtime));
    let own = [
        ("GOCACHE", cache),
        ("GOPATH", "/tmp/go"),
        ("GOENV", "off"),
        ("GOPROXY", "off"),
        ("GOTOOLCHAIN", "local"),
        ("GOTELEMETRY", "off"),
        ("GO111MODULE", "on"),
        ("GOWORK", "off"),
        // A program without a C library of its own runs in any sandbox.
        ("CGO_ENABLED", "0"),
        // As many compilers as it may have cores, on hosts with many more: each takes memory.
        ("GOMAXPROCS", "4"),
        ("GOFLAGS", "-p=4"),
    ];
    spec.env.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
    spec.mounts = runtime.mounts.clone();
    spec.cwd = cwd.to_owned();
    spec.tmp_bytes = SCRATCH.as_u64();
    spec.limits.memory_bytes = (memory.as_u64()).max(SCRATCH.as_u64() * 2);
    spec.limits.processes = 256;
    spec.limits.cpu_millis = 4000;
    spec
}

/// How a program is linked: without the symbols that only debuggers read, and the same wherever it is built.
const BUILD: [&str; 5] = ["build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o"];

/// A folder that a tool, whatever user it runs as, writes to.
fn writable(source: std::path::PathBuf, target: &str) -> Mount {
    Mount { source, target: target.to_owned(), readonly: false }
}
