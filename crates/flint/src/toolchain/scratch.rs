//! Where a build keeps what is only for itself.

use std::{
    env,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Duration, SystemTime},
};

use tempfile::TempDir;

const PREFIX: &str = "flint-build-";
/// Held for as long as the build goes on, however it ends.
const LOCK: &str = "lock";
/// A folder without a lock may be about to get one.
const ABOUT_TO: Duration = Duration::from_secs(3600);

/// A build's scratch folder; dropping it removes it.
pub(super) struct Scratch {
    folder: TempDir,
    _lock: File,
}

impl Scratch {
    /// Makes one, and removes those of builds that were killed.
    pub(super) fn new() -> io::Result<Self> {
        Self::within(&env::temp_dir())
    }

    fn within(parent: &Path) -> io::Result<Self> {
        sweep(parent);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock = File::create_new(folder.path().join(LOCK))?;
        lock.try_lock()?;
        Ok(Self { folder, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn sweep(parent: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX))
            && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == own);
        if ours && is_abandoned(&entry.path()) {
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

    #[test]
    fn a_killed_builds_folder_is_removed_by_the_next_and_a_running_ones_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let running = Scratch::within(parent.path()).unwrap();
        let killed = Scratch::within(parent.path()).unwrap().folder.keep();
        fs::write(killed.join("module.wasm"), "half of it").unwrap();
        let beginning = parent.path().join("flint-build-beginning");
        let other = parent.path().join("another-programs");
        for folder in [&beginning, &other] {
            fs::create_dir(folder).unwrap();
        }
        let next = Scratch::within(parent.path()).unwrap();
        assert!(!killed.exists());
        assert!([running.path(), next.path(), &beginning, &other].iter().all(|folder| folder.exists()));
        let gone = running.path().to_owned();
        drop(running);
        assert!(!gone.exists());
    }
}
