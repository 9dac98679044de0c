//! Scratch directories of commands.

use std::{
    env,
    fs::{self, File},
    io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
    time::{Duration, SystemTime},
};

use tempfile::TempDir;

/// Locked while the command runs; released however it ends.
const LOCK: &str = "lock";
/// A directory younger than this may not have its lock yet.
const ABOUT_TO: Duration = Duration::from_secs(3600);

/// The purpose of a scratch directory.
#[derive(Clone, Copy)]
pub(crate) struct Purpose {
    /// The prefix of its name.
    pub(crate) prefix: &'static str,
    /// Cleans up after a killed command outside its directory, which may be removed if this returns true.
    pub(crate) clear: fn(&Path) -> bool,
}

/// A scratch directory, accessible to this user only and with an unpredictable name; removed on drop.
pub(crate) struct Scratch {
    folder: TempDir,
    _lock: File,
}

impl Scratch {
    /// Creates one, and removes those of the same purpose whose commands were killed.
    pub(crate) fn new(purpose: Purpose) -> io::Result<Self> {
        Self::within(&env::temp_dir(), purpose)
    }

    fn within(parent: &Path, purpose: Purpose) -> io::Result<Self> {
        sweep(parent, purpose);
        let own = fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(purpose.prefix).permissions(own).tempdir_in(parent)?;
        let lock = File::create_new(folder.path().join(LOCK))?;
        lock.try_lock()?;
        Ok(Self { folder, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn sweep(parent: &Path, purpose: Purpose) {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(purpose.prefix))
            && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == own);
        if ours && is_abandoned(&entry.path()) && (purpose.clear)(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_abandoned(folder: &Path) -> bool {
    match File::open(folder.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_ok(),
        Err(_) => {
            let made =
                fs::metadata(folder).and_then(|found| found.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
            made.elapsed().is_ok_and(|age| age > ABOUT_TO)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILD: Purpose = Purpose { prefix: "flint-build-", clear: |_| true };

    #[test]
    fn a_killed_commands_folder_is_removed_by_the_next_and_a_running_ones_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let running = Scratch::within(parent.path(), BUILD).unwrap();
        let killed = Scratch::within(parent.path(), BUILD).unwrap().folder.keep();
        fs::write(killed.join("module.wasm"), "half of it").unwrap();
        let beginning = parent.path().join("flint-build-beginning");
        let other = parent.path().join("another-programs");
        for folder in [&beginning, &other] {
            fs::create_dir(folder).unwrap();
        }
        let next = Scratch::within(parent.path(), BUILD).unwrap();
        assert!(!killed.exists());
        assert!([running.path(), next.path(), &beginning, &other].iter().all(|folder| folder.exists()));
        let gone = running.path().to_owned();
        drop(running);
        assert!(!gone.exists());
    }

    #[test]
    fn what_cannot_be_cleared_yet_stays_for_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let cleared = |folder: &Path| folder.join("cleared").exists();
        let doctor = Purpose { prefix: "flint-doctor-", clear: cleared };
        let killed = Scratch::within(parent.path(), doctor).unwrap().folder.keep();
        drop(Scratch::within(parent.path(), doctor).unwrap());
        assert!(killed.exists());
        fs::write(killed.join("cleared"), "").unwrap();
        drop(Scratch::within(parent.path(), doctor).unwrap());
        assert!(!killed.exists());
    }

    #[test]
    fn what_somebody_else_has_prepared_is_not_used() {
        let parent = tempfile::tempdir().unwrap();
        // A predictable name, taken by a link to somewhere else.
        let (elsewhere, known) =
            (tempfile::tempdir().unwrap(), format!("{}{}", BUILD.prefix, std::process::id()));
        std::os::unix::fs::symlink(elsewhere.path(), parent.path().join(&known)).unwrap();
        let own = Scratch::within(parent.path(), BUILD).unwrap();
        assert_ne!(own.path().file_name().unwrap().to_str(), Some(&*known));
        let mode = fs::symlink_metadata(own.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(own);
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }
}
