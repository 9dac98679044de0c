//! Finds CPython.

use std::{
    fs,
    path::{Path, PathBuf},
};

use flint_sandbox::Mount;

use super::{
    Family, Runtime,
    search::{self, Search},
};

const OLDEST: [u32; 2] = [3, 9];

pub(super) fn find(search: &Search) -> Vec<Runtime> {
    let named = |name: &str| {
        name == "python3"
            || name
                .strip_prefix("python3.")
                .is_some_and(|minor| minor.bytes().all(|byte| byte.is_ascii_digit()))
    };
    search.ask_all(Family::Python, search::with_siblings(search.programs(named), "python3"), look)
}

/// Prints the interpreter itself rather than the virtual environment or version manager's wrapper that leads
/// to it. Fails where the standard library is incomplete.
const QUESTION: &str = "import sys, os, json, socket
exe = os.path.realpath(getattr(sys, '_base_executable', None) or sys.executable)
print('.'.join(map(str, sys.version_info[:3])), exe, sys.base_prefix, sys.implementation.name, sep='\\n')";

fn look(search: &Search, program: &Path) -> Option<Runtime> {
    if !imports_may_be_run(search, program) {
        return None;
    }
    let answer = search.ask(Family::Python, program, &["-I", "-c", QUESTION])?;
    let [version, program, prefix, "cpython"] = answer.lines().collect::<Vec<_>>()[..] else { return None };
    let version = search::version(version);
    let line = version.get(..2).filter(|line| **line >= OLDEST[..])?;
    // The executable's path has its links resolved, so those of the prefix must be resolved too.
    let (program, prefix) = (PathBuf::from(program), fs::canonicalize(prefix).ok()?);
    let needed = if prefix == Path::new("/usr") {
        // The system's Python, which every sandbox sees.
        Vec::new()
    } else if prefix == Path::new("/usr/local") {
        // In /usr/local, mount only what belongs to Python.
        let name = format!("python{}.{}", line[0], line[1]);
        let library = prefix.join("lib").join(&name);
        let shared = prefix.join("lib").join(format!("lib{name}.so.1.0"));
        [program.clone(), library, shared].into_iter().filter(|path| path.exists()).collect()
    } else {
        vec![prefix.clone()]
    };
    let place = format!("/opt/python{}.{}", line[0], line[1]);
    let mounts: Vec<Mount> = needed.iter().filter_map(|path| search::mount(path, &place)).collect();
    // An interpreter linked to libpython looks for it where it was installed (RPATH).
    let moved = mounts.iter().any(|mount| Path::new(&mount.target) != mount.source);
    let libraries = Some(prefix.join("lib")).filter(|folder| moved && has_libpython(folder));
    Some(Runtime {
        family: Family::Python,
        line: format!("{}.{}", line[0], line[1]),
        mounts,
        version,
        program,
        compiler: None,
        arguments: Vec::new(),
        libraries,
    })
}

/// Whether the modules that an interpreter imports at start-up, below its installation, may be run.
fn imports_may_be_run(search: &Search, program: &Path) -> bool {
    let home = fs::canonicalize(program).ok().and_then(|real| Some(real.ancestors().nth(2)?.to_owned()));
    let libraries = home.map(|home| home.join("lib")).into_iter().flat_map(fs::read_dir).flatten().flatten();
    let named = libraries.filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"));
    let places =
        named.flat_map(|entry| ["", "site-packages", "dist-packages"].map(|name| entry.path().join(name)));
    places.filter(|place| place.is_dir()).all(|place| search.trusts(Family::Python, &place))
}

fn has_libpython(folder: &Path) -> bool {
    let mut names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    // A static build leaves an archive (`.a`) there, which does not count.
    names.any(|name| name.to_str().is_some_and(|name| name.starts_with("libpython") && name.contains(".so")))
}
