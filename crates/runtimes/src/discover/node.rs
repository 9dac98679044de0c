//! Node.js.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{Family, Runtime, search};

/// What the shim says of the process that it runs in.
pub(crate) static FLAGS: LazyLock<Flags> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../../runtimes/nodejs/flags.json")).unwrap_or_default()
});

#[derive(Default, Deserialize)]
pub(crate) struct Flags {
    /// With what a runtime is started that is to become a snapshot.
    pub(crate) zygote: Vec<String>,
    /// The runtime's own threads beside its main one, asleep when it is frozen.
    pub(crate) threads: u32,
}

const OLDEST: u32 = 18;

pub(super) fn find() -> Vec<Runtime> {
    let on_path = search::on_path(|name| name == "node" || name == "nodejs");
    search::ask_all(search::with_siblings(on_path, "node"), look)
}

fn look(program: &std::path::Path) -> Option<Runtime> {
    // A version manager's stand-in says where the real one is.
    let answer = search::ask(program, &["-p", "process.versions.node + '\\n' + process.execPath"])?;
    let (version, program) = answer.split_once('\n')?;
    let version = search::version(version);
    let major = *version.first().filter(|major| **major >= OLDEST)?;
    let program = std::path::PathBuf::from(program);
    Some(Runtime {
        family: Family::Node,
        line: major.to_string(),
        version,
        // The binary is all there is to it: the libraries it links to come from /usr/lib.
        mounts: search::mount(&program, &format!("/opt/nodejs{major}/node")).into_iter().collect(),
        program,
        compiler: None,
        arguments: Vec::new(),
        libraries: None,
    })
}
