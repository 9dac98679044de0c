//! What only Java needs: the shim is compiled once a JDK, sources are compiled at deploy, and archives of loaded classes (AppCDS; from JDK 25 on an
//! AOT cache) make starts quick.

mod archive;
mod compile;
mod jar;
mod shim;

pub(crate) use archive::{build as build_archive, class_path};
pub(crate) use compile::compile;
pub(crate) use jar::main_class;
pub(crate) use shim::JavaShims;

use std::path::Path;

use flint_model::ByteSize;
use flint_sandbox::{Mount, SandboxSpec};

use crate::{discover::Runtime, process::command::environment};

/// Where sandboxes see the shim.
pub(crate) const SHIM_JAR: &str = "/runtime/java/flint-runtime.jar";
/// A Java function's code, when it is one jar.
pub(crate) const FUNCTION_JAR: &str = "function.jar";
/// The host's Gson, which every sandbox sees: OpenWhisk's runtime brings it, so its functions do not. The shim knows the place as well.
const GSON: &str = "/usr/share/java/gson.jar";

/// A class path with the host's Gson behind it, where there is one.
fn with_gson(mut class_path: String) -> String {
    if Path::new(GSON).exists() {
        class_path.push(':');
        class_path.push_str(GSON);
    }
    class_path
}

/// Flags that fit one core, a small heap and a short life; see runtimes/README.md.
pub(crate) fn flags(memory: ByteSize) -> Vec<String> {
    // The rest is for the JVM itself: code, metaspace, stacks, and /tmp.
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

/// What lets the shim take over its socket and set environment variables.
pub(crate) const OPENS: [&str; 4] =
    ["--add-opens", "java.base/java.io=ALL-UNNAMED", "--add-opens", "java.base/java.util=ALL-UNNAMED"];

/// JEP 483 and 514: from 25 on, an archive is written in one step and holds more.
pub(crate) fn has_aot(runtime: &Runtime) -> bool {
    runtime.major() >= 25
}

/// The flags that make the JVM start from an archive.
pub(crate) fn archive_flags(runtime: &Runtime, path: &str) -> Vec<String> {
    if has_aot(runtime) {
        vec![format!("-XX:AOTCache={path}")]
    } else {
        vec!["-Xshare:auto".into(), format!("-XX:SharedArchiveFile={path}")]
    }
}

/// What a tool writes before it hands on what it has made, beside its own memory.
const SCRATCH: ByteSize = ByteSize::mib(256);

/// Where the compiler leaves classes.
const CLASSES: &str = "/tmp/classes";

/// What `javac` is always told: to start quickly, and to run nothing of what it compiles.
const TOOL_FLAGS: [&str; 6] =
    ["-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1", "-proc:none", "-encoding", "UTF-8", "-nowarn"];

/// What makes a jar of its classes, for [`tool`].
fn packing(compiler: &Path) -> String {
    let jar = compiler.with_file_name("jar");
    format!(
        "'{}' -J-XX:+UseSerialGC -J-XX:TieredStopAtLevel=1 --create --no-compress --no-manifest -C {CLASSES} . >&3",
        jar.display()
    )
}

/// A sandbox for a Java tool, without network. It runs `argv`, and then `behind` in a shell, which hands on what was made to descriptor 3.
fn tool(
    id: &str,
    runtime: &Runtime,
    argv: Vec<String>,
    behind: &str,
    mounts: Vec<Mount>,
    memory: ByteSize,
) -> SandboxSpec {
    let mut script = vec!["/bin/sh".to_owned(), "-c".to_owned(), format!("\"$0\" \"$@\" 3>&- && {behind}")];
    script.extend(argv);
    let mut spec = SandboxSpec::new(id, script);
    spec.env = environment(Some(runtime));
    spec.mounts = runtime.mounts.clone();
    spec.mounts.extend(mounts);
    spec.tmp_bytes = SCRATCH.as_u64();
    spec.limits.memory_bytes = memory.as_u64() + SCRATCH.as_u64();
    spec.limits.processes = 256;
    spec.limits.cpu_millis = 4000;
    spec
}
