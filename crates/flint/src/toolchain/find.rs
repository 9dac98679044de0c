//! Finds build tools.

use std::{
    env,
    fs::Metadata,
    os::unix::fs::MetadataExt,
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

/// World-writable and sticky, like /tmp: anybody can put files there.
const SHARED: u32 = 0o1002;
const OTHERS_WRITE: u32 = 0o002;

/// `below` in a directory and its ancestors, where npm and virtual environments install a project's tools.
/// Ends before the first directory in which another user could have put them.
pub(super) fn upwards(from: &Path, below: &[&str]) -> Vec<PathBuf> {
    let from = from.canonicalize().unwrap_or_else(|_| from.to_owned());
    let user = rustix::process::geteuid().as_raw();
    let is_trusted = |meta: &Metadata| meta.mode() & OTHERS_WRITE == 0 && [0, user].contains(&meta.uid());
    // The user named the project's own directory, and its contents are built anyway; but a file in /tmp does
    // not make /tmp a project.
    let is_project = |meta: &Metadata| meta.mode() & SHARED != SHARED;
    let is_searched = |(above, directory): &(usize, &Path)| {
        directory.metadata().is_ok_and(|meta| if *above == 0 { is_project(&meta) } else { is_trusted(&meta) })
    };
    let searched = from.ancestors().enumerate().take_while(is_searched);
    searched.flat_map(|(_, directory)| below.iter().map(|below| directory.join(below))).collect()
}

/// The project's directory; for a single file, the one that contains it.
pub(super) fn directory_of(path: &Path) -> &Path {
    match path.is_dir() {
        true => path,
        false => match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, chown},
    };

    use super::*;

    #[test]
    fn tools_are_not_looked_for_where_another_user_could_have_put_them() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (shared, own, project) = (base.join("s"), base.join("s/own"), base.join("s/own/project"));
        fs::create_dir_all(&project).unwrap();
        let found = |from: &Path| {
            let found = upwards(from, &["bin"]);
            [&project, &own, &shared, &base].map(|directory| found.contains(&directory.join("bin")))
        };
        let mode = |directory: &Path, mode| {
            fs::set_permissions(directory, Permissions::from_mode(mode)).unwrap();
        };
        for directory in [&shared, &own, &project] {
            mode(directory, 0o755);
        }
        assert_eq!(found(&project), [true; 4]);
        mode(&shared, 0o1777);
        assert_eq!(found(&project), [true, true, false, false]);
        assert_eq!(found(&shared), [false; 4]);
        // Some file systems report this mode for everything: the project is the user's choice.
        mode(&project, 0o777);
        assert_eq!(found(&project), [true, true, false, false]);
        if rustix::process::geteuid().is_root() {
            chown(&own, Some(65534), None).unwrap();
            assert_eq!(found(&project), [true, false, false, false]);
            assert_eq!(found(&own), [false, true, false, false]);
        }
    }
}
