//! Class archives, written by a training run in a sandbox.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use flint_model::{ByteSize, Function};
use flint_sandbox::{Launcher, Mount, SandboxSpec};
use serde_json::{Map, Value};

use super::{FUNCTION_JAR, OPENS, SHIM_JAR, and_send, flags, has_aot, tool, with_gson};
use crate::{
    discover::Runtime,
    prepare::CODE,
    process::{
        command::{ARCHIVE, readonly},
        tool::{Bounds, make},
    },
    shims::create_readable_dir,
};

/// Largest archive of the shim's classes.
const SHIM_ARCHIVE_MAX: ByteSize = ByteSize::mib(256);
/// Where the JVM writes the archive.
const WRITTEN: &str = "/tmp/archive";
const HAND_ON: &str = "cat /tmp/archive >&3";
/// Begins what a training run (`Train.java`) says of code that lacks the function's entry point.
const NO_ENTRY_POINT: &str = "flint: no entry point: ";

fn ending(runtime: &Runtime) -> &'static str {
    if has_aot(runtime) { "aot" } else { "jsa" }
}

fn output_flag(runtime: &Runtime) -> String {
    let flag = if has_aot(runtime) { "-XX:AOTCacheOutput" } else { "-XX:ArchiveClassesAtExit" };
    format!("{flag}={WRITTEN}")
}

/// Writes the archive of the shim's classes in the shim's directory; returns its file name.
pub(super) async fn for_shim(
    runtime: &Runtime,
    launcher: &Launcher,
    folder: &Path,
    within: Duration,
    memory: ByteSize,
) -> Result<String, String> {
    let bounds = Bounds { within, memory, size: SHIM_ARCHIVE_MAX };
    let name = format!("shim.{}", ending(runtime));
    if folder.join(&name).is_file() {
        return Ok(name);
    }
    let argv = argv(runtime, memory, SHIM_JAR, &[]);
    let mounts = vec![readonly(folder.to_owned(), "/runtime/java")];
    let spec = tool("java-training", runtime, and_send(argv, HAND_ON), mounts, memory);
    train(launcher, spec, &folder.join(&name), bounds).await.map(|()| name)
}

/// Writes an archive that includes a function's classes; returns its path inside sandboxes. The training run
/// has the function's memory limit and no network, and calls the function some times with its default
/// arguments.
pub(crate) async fn build(
    runtime: &Runtime,
    launcher: &Launcher,
    function: &Function,
    main: &str,
    shim: &Path,
    artefact: &Path,
    bounds: Bounds,
) -> Result<String, String> {
    let name = format!("function.{}", ending(runtime));
    let place = artefact.join("archive");
    let jar = format!("{CODE}/{FUNCTION_JAR}");
    let mut arguments = Map::new();
    function.parameters.merge_into(&mut arguments);
    let arguments = Value::Object(arguments).to_string();
    let memory = function.limits.memory;
    let argv = argv(runtime, memory, &class_path(), &[&jar, main, &arguments]);
    let mounts: Vec<Mount> =
        vec![readonly(shim.to_owned(), "/runtime/java"), readonly(artefact.join("code"), CODE)];
    let spec = tool("java-training", runtime, and_send(argv, HAND_ON), mounts, memory);
    create_readable_dir(&place).map_err(|error| error.to_string())?;
    train(launcher, spec, &place.join(&name), bounds).await?;
    Ok(format!("{ARCHIVE}/{name}"))
}

/// Why the code has no entry point, if that is the error of a training run.
pub(crate) fn no_entry_point(error: &str) -> Option<&str> {
    error.split_once(NO_ENTRY_POINT)?.1.lines().next()
}

/// Runs the training and renames the archive into place, so that it is there whole or not at all.
async fn train(launcher: &Launcher, spec: SandboxSpec, archive: &Path, bounds: Bounds) -> Result<(), String> {
    let half = archive.with_extension("half");
    let _ = fs::remove_file(&half);
    let trained = make(launcher, spec, &half, bounds).await.map_err(|error| error.to_string());
    let taken = trained.and_then(|()| {
        fs::set_permissions(&half, fs::Permissions::from_mode(0o644))
            .and_then(|()| fs::rename(&half, archive))
            .map_err(|error| error.to_string())
    });
    let _ = fs::remove_file(&half);
    taken
}

/// The class path of a function with its own archive: the JVM accepts the archive only if it is the same as
/// in the training run.
pub(crate) fn class_path() -> String {
    with_gson(format!("{SHIM_JAR}:{CODE}/{FUNCTION_JAR}"))
}

fn argv(runtime: &Runtime, memory: ByteSize, class_path: &str, arguments: &[&str]) -> Vec<String> {
    let mut argv = vec![runtime.inside(&runtime.program).display().to_string()];
    argv.extend(flags(memory));
    argv.extend(OPENS.map(str::to_owned));
    argv.extend([output_flag(runtime), "-cp".into(), class_path.into(), "flint.Train".into()]);
    argv.extend(arguments.iter().map(|&argument| argument.to_owned()));
    argv
}
