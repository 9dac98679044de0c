//! Where the tools are.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::package::contents::is_executable;

/// A program in one of `directories`.
pub(super) fn beside(name: &str, directories: &[PathBuf]) -> Option<PathBuf> {
    let is_program = |file: &PathBuf| file.metadata().is_ok_and(|meta| is_executable(&meta));
    directories.iter().map(|directory| directory.join(name)).find(is_program)
}

/// A program in one of `directories`, else on `PATH`.
pub(super) fn program(name: &str, directories: &[PathBuf]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    beside(name, directories).or_else(|| beside(name, &env::split_paths(&path).collect::<Vec<_>>()))
}

/// `below` in a directory and in each one above it: where npm and virtual environments put a project's tools.
pub(super) fn upwards(from: &Path, below: &[&str]) -> Vec<PathBuf> {
    let from = from.canonicalize().unwrap_or_else(|_| from.to_owned());
    from.ancestors().flat_map(|directory| below.iter().map(|below| directory.join(below))).collect()
}

/// The project's directory: that of a single file is the one it lies in.
pub(super) fn directory_of(path: &Path) -> &Path {
    match path.is_dir() {
        true => path,
        false => match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        },
    }
}
