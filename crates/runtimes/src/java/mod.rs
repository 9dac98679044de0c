//! Java: the shim is compiled once per JDK, sources are compiled at deploy, and class archives (AppCDS; from
//! JDK 25 on an AOT cache) make starts fast.

mod archive;
mod compile;
mod compiler;
mod jar;
mod shim;

pub(crate) use archive::{build as build_archive, class_path, no_entry_point};
pub(crate) use compile::compile;
pub(crate) use compiler::{JavaCompilers, Jdk};
pub(crate) use jar::main_class;
pub(crate) use shim::JavaShims;

use std::path::Path;

use flint_model::ByteSize;
use flint_sandbox::{Mount, SandboxSpec};

use crate::{discover::Runtime, process::command::environment};

/// Reads any bytes as a jar and as a source, as a deploy does; for fuzz targets.
#[cfg(feature = "fuzzing")]
pub fn fuzz_java(code: &[u8]) {
    for asked in [None, Some("some.Class#method")] {
        let _ = main_class(code, asked);
    }
    if let Ok(source) = std::str::from_utf8(code)
        && let Some(class) = compile::main_type(source)
    {
        assert!(!class.contains('/'), "a source of this name would be written elsewhere: {class}");
    }
}

/// The shim's path inside sandboxes.
pub(crate) const SHIM_JAR: &str = "/runtime/java/flint-runtime.jar";
/// The name of a Java function's code if it is a single jar.
pub(crate) const FUNCTION_JAR: &str = "function.jar";
/// The host's Gson, which every sandbox sees. OpenWhisk's runtime provides it, so functions do not bring it.
/// The shim knows this path too.
const GSON: &str = "/usr/share/java/gson.jar";

/// Appends the host's Gson to a class path, if there is one.
fn with_gson(mut class_path: String) -> String {
    if Path::new(GSON).exists() {
        class_path.push(':');
        class_path.push_str(GSON);
    }
    class_path
}

/// Flags for one core, a small heap and a short life; see runtimes/README.md.
pub(crate) fn flags(memory: ByteSize) -> Vec<String> {
    // The rest is for the JVM's own memory (code cache, metaspace, stacks) and /tmp.
    let heap = (memory.as_mib() * 5 / 8).max(32);
    let mut flags: Vec<String> = [
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Djdk.reflect.useNativeAccessorOnly=true",
        "-Xlog:disable",
        "-Xlog:all=error:stderr",
    ]
    .map(str::to_owned)
    .into();
    flags.push(format!("-Xmx{heap}m"));
    flags
}

/// Opens the packages that the shim needs by reflection, to take over its socket and to set environment
/// variables.
pub(crate) const OPENS: [&str; 4] =
    ["--add-opens", "java.base/java.io=ALL-UNNAMED", "--add-opens", "java.base/java.util=ALL-UNNAMED"];

/// JEP 483 and 514: from JDK 25 on the archive is an AOT cache, written in one step, with more in it.
pub(crate) fn has_aot(runtime: &Runtime) -> bool {
    runtime.major() >= 25
}

/// The flags that start the JVM from an archive.
pub(crate) fn archive_flags(runtime: &Runtime, path: &str) -> Vec<String> {
    if has_aot(runtime) {
        vec![format!("-XX:AOTCache={path}")]
    } else {
        vec!["-Xshare:auto".into(), format!("-XX:SharedArchiveFile={path}")]
    }
}

/// Space for what a tool writes to /tmp, beyond its own memory.
const SCRATCH: ByteSize = ByteSize::mib(256);

/// The command that runs `argv`, then `behind` in a shell, which sends the product to descriptor 3.
fn and_send(argv: Vec<String>, behind: &str) -> Vec<String> {
    let mut script = vec!["/bin/sh".to_owned(), "-c".to_owned(), format!("\"$0\" \"$@\" 3>&- && {behind}")];
    script.extend(argv);
    script
}

/// A sandbox for a Java tool, without network.
fn tool(
    id: &str,
    runtime: &Runtime,
    command: Vec<String>,
    mounts: Vec<Mount>,
    memory: ByteSize,
) -> SandboxSpec {
    let mut spec = SandboxSpec::new(id, command);
    spec.env = environment(Some(runtime));
    spec.mounts = runtime.mounts.clone();
    spec.mounts.extend(mounts);
    spec.tmp_bytes = SCRATCH.as_u64();
    spec.limits.memory_bytes = memory.as_u64() + SCRATCH.as_u64();
    spec.limits.processes = 256;
    spec.limits.cpu_millis = 4000;
    spec
}
