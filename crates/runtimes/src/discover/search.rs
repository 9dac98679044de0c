//! Looking for programs, and asking them what they are.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use flint_sandbox::Mount;

use super::Runtime;

/// What every sandbox sees of the host's programs and libraries.
const SEEN_ANYWAY: [&str; 9] = [
    "/usr/bin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/share",
    "/bin",
    "/lib",
    "/lib64",
];

/// Programs on PATH whose name `wanted` accepts, in the order of PATH; each file once.
pub(super) fn on_path(wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let folders: Vec<PathBuf> =
        env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    let mut programs = Vec::new();
    for folder in folders.iter().filter(|folder| folder.is_absolute()) {
        let mut names: Vec<_> =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.file_name()).collect();
        names.sort();
        programs.extend(
            names.iter().filter(|name| name.to_str().is_some_and(&wanted)).map(|name| folder.join(name)),
        );
    }
    unique(programs)
}

/// Version managers keep versions side by side (`…/versions/3.11.7/bin/python3`): those of all the folders next to the one that `program` is
/// in, or that a manager's `shims` folder stands for.
fn siblings(program: &Path, name: &str) -> Vec<PathBuf> {
    let versions = match program.parent().and_then(Path::file_name).and_then(std::ffi::OsStr::to_str) {
        Some("shims") => program.parent().map(|shims| shims.with_file_name("versions")),
        Some("bin") => program
            .ancestors()
            .nth(3)
            .filter(|above| above.iter().any(|part| part == "versions"))
            .map(Path::to_owned),
        _ => None,
    };
    let entries = versions.into_iter().flat_map(fs::read_dir).flatten().flatten();
    unique(entries.map(|entry| entry.path().join("bin").join(name)).filter(|path| path.exists()).collect())
}

/// With the other versions that a version manager has. Its stand-ins are left out: they are slow, and lead to one of those.
pub(super) fn with_siblings(programs: Vec<PathBuf>, name: &str) -> Vec<PathBuf> {
    let found: Vec<(PathBuf, Vec<PathBuf>)> =
        programs.into_iter().map(|program| (program.clone(), siblings(&program, name))).collect();
    let is_stand_in = |program: &Path, beside: &[PathBuf]| {
        !beside.is_empty()
            && program.parent().and_then(Path::file_name).is_some_and(|folder| folder == "shims")
    };
    let own =
        found.iter().filter(|(program, beside)| !is_stand_in(program, beside)).map(|(program, _)| program);
    unique(own.chain(found.iter().flat_map(|(_, beside)| beside)).cloned().collect())
}

/// Looks at all of them at once: each is a program that has to start.
pub(super) fn ask_all(programs: Vec<PathBuf>, look: fn(&Path) -> Option<Runtime>) -> Vec<Runtime> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = programs.iter().map(|program| scope.spawn(move || look(program))).collect();
        asked.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
    })
}

fn unique(programs: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut known = BTreeSet::new();
    programs
        .into_iter()
        .filter(|path| known.insert(fs::canonicalize(path).unwrap_or_else(|_| path.clone())))
        .collect()
}

/// What a program prints on stdout; `None` when it fails.
pub(super) fn ask(program: &Path, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// `3.11.7` as numbers; what follows the numbers (`-ea`, `+1`, `rc1`) is left out.
pub(super) fn version(text: &str) -> Vec<u32> {
    let numbers =
        text.split('.').map(|part| part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    numbers.map_while(|number| number.parse().ok()).collect()
}

/// What makes `path` visible in a sandbox; nothing when it is visible anyway. What belongs to the system stays where it is. Anything else, in
/// somebody's home directory for example, is seen at `place`: a function learns nothing of where the host keeps it.
pub(super) fn mount(path: &Path, place: &str) -> Option<Mount> {
    if SEEN_ANYWAY.iter().any(|seen| path.starts_with(seen)) {
        return None;
    }
    let is_systems = ["/usr", "/opt"].iter().any(|system| path.starts_with(system));
    let target = if is_systems { path.to_str()?.to_owned() } else { place.to_owned() };
    Some(Mount { source: path.to_owned(), target, readonly: true })
}

/// What makes `path` visible where the host has it, for interpreters that find their own files by absolute paths; `None` where it would have to
/// be seen at another place, because it is in somebody's home directory.
pub(super) fn stays(path: &Path) -> Option<Vec<Mount>> {
    match mount(path, "") {
        None => Some(Vec::new()),
        Some(mount) => (Path::new(&mount.target) == path).then(|| vec![mount]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        assert_eq!(version("3.11.7"), [3, 11, 7]);
        assert_eq!(version("21-ea"), [21]);
        assert_eq!(version("17.0.15+6"), [17, 0, 15]);
        assert_eq!(version(""), Vec::<u32>::new());
    }

    #[test]
    fn other_versions_of_a_manager_are_found() {
        let root = tempfile::tempdir().unwrap();
        for version in ["3.9.1", "3.12.0"] {
            let bin = root.path().join("versions").join(version).join("bin");
            fs::create_dir_all(&bin).unwrap();
            fs::write(bin.join("python3"), version).unwrap();
        }
        for start in ["shims/python3", "versions/3.9.1/bin/python3"] {
            assert_eq!(siblings(&root.path().join(start), "python3").len(), 2, "{start}");
        }
        assert_eq!(siblings(Path::new("/nowhere/bin/python3"), "python3").len(), 0);
    }

    #[test]
    fn only_what_a_sandbox_does_not_see_is_mounted() {
        let seen_at = |path: &str| mount(Path::new(path), "/opt/node20").map(|mount| mount.target);
        assert_eq!(seen_at("/usr/bin/node"), None);
        assert_eq!(seen_at("/opt/x"), Some("/opt/x".to_owned()));
        assert_eq!(seen_at("/home/me/versions/20/bin/node"), Some("/opt/node20".to_owned()));
        assert_eq!(stays(Path::new("/usr/bin/php8.2")), Some(vec![]));
        assert_eq!(stays(Path::new("/opt/php/bin/php")).unwrap()[0].target, "/opt/php/bin/php");
        assert_eq!(stays(Path::new("/home/me/bin/php")), None);
    }
}
