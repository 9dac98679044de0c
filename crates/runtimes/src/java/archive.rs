//! Archives of loaded classes, written by a training run in a sandbox.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use flint_model::{ByteSize, Function};
use flint_sandbox::{Launcher, Mount};
use rustix::fs::{Mode, OFlags};
use serde_json::{Map, Value};

use super::{FUNCTION_JAR, OPENS, OUT, SHIM_JAR, flags, has_aot, tool, with_gson, writable};
use crate::{
    discover::Runtime,
    prepare::CODE,
    process::{
        command::{ARCHIVE, readonly},
        tool,
    },
};

/// Largest archive that is kept.
const ARCHIVE_MAX: u64 = 256 << 20;

fn ending(runtime: &Runtime) -> &'static str {
    if has_aot(runtime) { "aot" } else { "jsa" }
}

fn output_flag(runtime: &Runtime, file: &str) -> String {
    let flag = if has_aot(runtime) { "-XX:AOTCacheOutput" } else { "-XX:ArchiveClassesAtExit" };
    format!("{flag}={OUT}/{file}")
}

/// The archive of the shim's own classes, in the shim's folder; its file name.
pub(super) async fn for_shim(
    runtime: &Runtime,
    launcher: &Launcher,
    folder: &Path,
    within: Duration,
    memory: ByteSize,
) -> Result<String, String> {
    let name = format!("shim.{}", ending(runtime));
    if folder.join(&name).is_file() {
        return Ok(name);
    }
    let out = folder.join("training");
    let trained = async {
        scratch(&out).map_err(|error| error.to_string())?;
        let argv = argv(runtime, &name, memory, SHIM_JAR, &[]);
        let mounts = vec![readonly(folder.to_owned(), "/runtime/java"), writable(out.clone())];
        let spec = tool("java-training", runtime, argv, mounts, memory);
        tool::run(launcher, &spec, within).await.map_err(|error| error.to_string())?;
        take(&out.join(&name), &folder.join(&name)).map_err(|error| error.to_string())
    };
    let trained = trained.await;
    let _ = fs::remove_dir_all(&out);
    trained.map(|()| name)
}

/// An archive with a function's classes as well; its path inside sandboxes. Calls the function some times with its default arguments, in a
/// sandbox without network.
pub(crate) async fn build(
    runtime: &Runtime,
    launcher: &Launcher,
    function: &Function,
    main: &str,
    shim: &Path,
    artefact: &Path,
    within: Duration,
) -> Result<String, String> {
    let name = format!("function.{}", ending(runtime));
    let (out, place) = (artefact.join("training"), artefact.join("archive"));
    let jar = format!("{CODE}/{FUNCTION_JAR}");
    let mut arguments = Map::new();
    function.parameters.merge_into(&mut arguments);
    let arguments = Value::Object(arguments).to_string();
    let memory = function.limits.memory;
    let trained = async {
        scratch(&out).map_err(|error| error.to_string())?;
        let argv = argv(runtime, &name, memory, &class_path(), &[&jar, main, &arguments]);
        let mounts: Vec<Mount> = vec![
            readonly(shim.to_owned(), "/runtime/java"),
            readonly(artefact.join("code"), CODE),
            writable(out.clone()),
        ];
        // The JVM writes the archive beside the function's own memory.
        let room = ByteSize::bytes(memory.as_u64() + ByteSize::mib(256).as_u64());
        let spec = tool("java-training", runtime, argv, mounts, room);
        tool::run(launcher, &spec, within).await.map_err(|error| error.to_string())?;
        fs::create_dir(&place)
            .and_then(|()| fs::set_permissions(&place, fs::Permissions::from_mode(0o755)))
            .and_then(|()| take(&out.join(&name), &place.join(&name)))
            .map_err(|error| error.to_string())
    };
    let trained = trained.await;
    let _ = fs::remove_dir_all(&out);
    trained.map(|()| format!("{ARCHIVE}/{name}"))
}

/// The class path of a function that has its own archive: it must be the same when it is written and when it is used.
pub(crate) fn class_path() -> String {
    with_gson(format!("{SHIM_JAR}:{CODE}/{FUNCTION_JAR}"))
}

fn argv(
    runtime: &Runtime,
    archive: &str,
    memory: ByteSize,
    class_path: &str,
    arguments: &[&str],
) -> Vec<String> {
    let mut argv = vec![runtime.inside(&runtime.program).display().to_string()];
    argv.extend(flags(memory));
    argv.extend(OPENS.map(str::to_owned));
    argv.extend([output_flag(runtime, archive), "-cp".into(), class_path.into(), "flint.Train".into()]);
    argv.extend(arguments.iter().map(|&argument| argument.to_owned()));
    argv
}

fn scratch(folder: &Path) -> io::Result<()> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777))
}

/// Copies what a tool has made, which may be anything: only an ordinary file of a sensible size is taken.
fn take(from: &Path, to: &Path) -> io::Result<()> {
    let source = rustix::fs::open(
        from,
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut source = fs::File::from(source);
    let meta = source.metadata()?;
    if !meta.is_file() || meta.len() > ARCHIVE_MAX {
        return Err(io::Error::other("the training run left something that is not an archive of classes"));
    }
    let half = to.with_extension("half");
    let mut target = fs::File::create(&half)?;
    io::copy(&mut source, &mut target)?;
    target.set_permissions(fs::Permissions::from_mode(0o644))?;
    fs::rename(&half, to)
}
