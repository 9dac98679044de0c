//! Go: functions are compiled at deploy, each in a sandbox without network, over a cache of the compiled
//! standard library to which no user's build has ever written.

mod cache;
mod compile;

pub(crate) use cache::GoCaches;
pub(crate) use compile::{Build, compile};

use flint_model::ByteSize;
use flint_sandbox::{Mount, SandboxSpec};

use crate::{discover::Runtime, process::command::environment};

/// Space for objects of packages that are not in the cache, and for the linker.
const SCRATCH: ByteSize = ByteSize::mib(384);

/// A sandbox for `go`, without network: dependencies must be in the archive, in `vendor/`.
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
        // Without cgo the program is static and runs in any sandbox.
        ("CGO_ENABLED", "0"),
        // At most as many compilers as the sandbox has cores, since each takes memory.
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

/// Strips symbols that only debuggers read, and makes the build reproducible.
const BUILD: [&str; 5] = ["build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o"];

/// A directory to which a tool can write under any uid.
fn writable(source: std::path::PathBuf, target: &str) -> Mount {
    Mount { source, target: target.to_owned(), readonly: false }
}
