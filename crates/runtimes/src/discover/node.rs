//! Finds Node.js.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{
    Family, Runtime,
    search::{self, Search},
};

/// The command-line flags and threads that the shim needs, as the shim's own file declares them.
pub(crate) static FLAGS: LazyLock<Flags> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../../runtimes/nodejs/flags.json")).unwrap_or_default()
});

#[derive(Default, Deserialize)]
pub(crate) struct Flags {
    /// Flags of a runtime that is to become a snapshot.
    pub(crate) zygote: Vec<String>,
    /// Number of the runtime's own threads besides the main one, all asleep when it is frozen.
    pub(crate) threads: u32,
}

const OLDEST: u32 = 18;

/// Whether this release recognises an ES module by its syntax. The shim has the same rule (`lib/load.js`).
pub(crate) fn detects_modules(version: &[u32]) -> bool {
    let [major, minor] = [0, 1].map(|at| version.get(at).copied().unwrap_or_default());
    major > 22 || (major == 22 && minor >= 7) || (major == 20 && minor >= 19)
}

pub(super) fn find(search: &Search) -> Vec<Runtime> {
    let programs = search.programs(|name| name == "node" || name == "nodejs");
    search.ask_all(Family::Node, search::with_siblings(programs, "node"), look)
}

fn look(search: &Search, program: &std::path::Path) -> Option<Runtime> {
    // A version manager's wrapper reports the path of the real executable.
    let answer =
        search.ask(Family::Node, program, &["-p", "process.versions.node + '\\n' + process.execPath"])?;
    let (version, program) = answer.split_once('\n')?;
    let version = search::version(version);
    let major = *version.first().filter(|major| **major >= OLDEST)?;
    let program = std::path::PathBuf::from(program);
    Some(Runtime {
        family: Family::Node,
        line: major.to_string(),
        version,
        // Node.js is a single executable, linked against libraries in /usr/lib only.
        mounts: search::mount(&program, &format!("/opt/nodejs{major}/node")).into_iter().collect(),
        program,
        compiler: None,
        arguments: Vec::new(),
        libraries: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_that_need_to_be_told_what_is_a_module() {
        let tell = [[18, 20], [20, 18], [21, 7], [22, 6]];
        let know = [[20, 19], [22, 7], [22, 15], [23, 0], [24, 21]];
        assert!(
            tell.iter().all(|version| !detects_modules(version))
                && know.iter().all(|version| detects_modules(version))
        );
    }
}
