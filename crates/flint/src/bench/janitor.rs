//! Cleans up after a benchmark that was killed.
//!
//! A separate process, `flint __bench-janitor ROOT`, waits until the benchmark is gone: the pipe between them
//! closes however that happens. It then executes the remaining notes, such as stopping a baseline that a
//! script has started as a daemon, and removes ROOT, which contains all scratch directories.

use std::{
    env, fs, io,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::PermissionsExt as _,
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

use super::density::remove_group;
use crate::output::tell;

const ARGUMENT: &str = "__bench-janitor";
/// The folder of the notes, within the root.
const NOTES: &str = "notes";
/// The launcher of a killed server may still be removing sandboxes from its data directory.
const REMOVED_WITHIN: Duration = Duration::from_secs(30);

static ROOT: OnceLock<PathBuf> = OnceLock::new();
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The janitor of this process; dropping it waits until everything is removed.
pub(super) struct Janitor(Child);

impl Janitor {
    /// Creates the root of the scratch directories, and starts the janitor.
    pub(super) fn start() -> anyhow::Result<Self> {
        let root =
            tempfile::Builder::new().prefix("flint").tempdir().context("making a scratch directory")?.keep();
        // A back end may run as another user, who needs access to its folder.
        fs::set_permissions(&root, fs::Permissions::from_mode(0o711))
            .and_then(|()| fs::create_dir(root.join(NOTES)))
            .context("opening the scratch directory")?;
        let process = Command::new("/proc/self/exe")
            .arg(ARGUMENT)
            .arg(&root)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Ctrl-C is for the benchmark, not for the janitor.
            .process_group(0)
            .spawn()
            .context("starting who clears up")?;
        ensure!(ROOT.set(root).is_ok(), "a process has one run");
        Ok(Self(process))
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A scratch directory, removed after the run, however it ends.
pub(super) fn scratch() -> anyhow::Result<TempDir> {
    let parent = ROOT.get().cloned().unwrap_or_else(env::temp_dir);
    tempfile::tempdir_in(parent).context("making a scratch directory")
}

/// A note of a clean-up in case the run does not get to it; dropping it withdraws the note.
pub(super) struct Note(Option<PathBuf>);

impl Note {
    /// Notes a script to be run with a folder, before what it stops is started.
    pub(super) fn to_run(script: &Path, folder: &Path) -> anyhow::Result<Self> {
        Self::write(&[b"run", script.as_os_str().as_bytes(), folder.as_os_str().as_bytes()])
    }

    /// Notes a cgroup whose processes are to be killed and which is to be removed.
    pub(super) fn to_remove_group(folder: &Path) -> anyhow::Result<Self> {
        Self::write(&[b"group", folder.as_os_str().as_bytes()])
    }

    fn write(words: &[&[u8]]) -> anyhow::Result<Self> {
        let Some(root) = ROOT.get() else { return Ok(Self(None)) };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = root.join(NOTES).join(format!("{number:08}"));
        let beside = path.with_extension("part");
        fs::write(&beside, words.join(&0))
            .and_then(|()| fs::rename(&beside, &path))
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(Self(Some(path)))
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

/// Acts as the janitor if this process was started as one; otherwise does nothing. To be called in `main`
/// before any thread exists.
pub(crate) fn entry() {
    let mut arguments = env::args_os().skip(1);
    if arguments.next().is_none_or(|argument| argument != ARGUMENT) {
        return;
    }
    let Some(root) = arguments.next() else {
        tell!("{ARGUMENT} is how flint bench starts who clears up after it; it is of no use by hand");
        process::exit(2);
    };
    // Nothing is ever written: this returns when the other end is closed.
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    process::exit(i32::from(!clear_up(Path::new(&root), REMOVED_WITHIN)));
}

/// Executes the notes in `root`, the latest first, and removes it, unless something that may still use it
/// could not be stopped.
fn clear_up(root: &Path, within: Duration) -> bool {
    let notes = fs::read_dir(root.join(NOTES)).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut notes: Vec<_> = notes.filter(|path| path.extension().is_none()).collect();
    notes.sort_unstable();
    let undone = notes.iter().rev().filter(|note| !carry_out(note)).count();
    if undone > 0 {
        tell!("flint bench: then remove {}", root.display());
        return false;
    }
    let begin = Instant::now();
    loop {
        match fs::remove_dir_all(root) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !root.exists() => return true,
            Err(error) if begin.elapsed() > within => {
                tell!("flint bench: {} stays: {error}", root.display());
                return false;
            }
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn carry_out(note: &Path) -> bool {
    let text = fs::read(note).unwrap_or_default();
    let words: Vec<_> = text.split(|byte| *byte == 0).collect();
    let path = |word: &[u8]| PathBuf::from(std::ffi::OsString::from_vec(word.to_vec()));
    match words.as_slice() {
        [b"run", script, folder] => {
            let (script, folder) = (path(script), path(folder));
            // Without a folder, it never started or has stopped by itself.
            let done = !folder.exists()
                || Command::new(&script)
                    .arg(&folder)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .status()
                    .is_ok_and(|status| status.success());
            if !done {
                tell!("flint bench: {} {} failed: end it by hand", script.display(), folder.display());
            }
            done
        }
        [b"group", folder] => {
            remove_group(&path(folder));
            true
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with notes of a script that fails for a folder with that name.
    fn root(folders: &[&str]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        let script = root.path().join("stop.sh");
        fs::write(
            &script,
            "#!/bin/sh\necho $1 >> ${0%/*}/../$(basename ${0%/*}).said\ncase $1 in *bad) exit 1;; esac\n",
        )
        .unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(root.path().join(NOTES)).unwrap();
        for (number, name) in folders.iter().enumerate() {
            let folder = root.path().join(name);
            fs::create_dir(&folder).unwrap();
            let words = [b"run".as_slice(), script.as_os_str().as_bytes(), folder.as_os_str().as_bytes()];
            fs::write(root.path().join(NOTES).join(format!("{number:08}")), words.join(&0)).unwrap();
        }
        root
    }

    fn said(root: &Path) -> Vec<String> {
        let said = root.with_extension("said");
        let text = fs::read_to_string(&said).unwrap();
        fs::remove_file(said).unwrap();
        text.lines().map(|line| line.rsplit('/').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn what_was_begun_last_is_ended_first_and_nothing_stays() {
        let root = root(&["network", "database", "ended"]);
        fs::remove_dir(root.path().join("ended")).unwrap();
        // Torn by a kill: what it was about was not started.
        fs::write(root.path().join(NOTES).join("00000009.part"), b"run\0/bin/fal").unwrap();
        let path = root.keep();
        assert!(clear_up(&path, Duration::ZERO));
        assert!(!path.exists());
        assert_eq!(said(&path), ["database", "network"]);
    }

    #[test]
    fn what_something_may_still_use_is_not_removed() {
        let root = root(&["first", "bad"]);
        assert!(!clear_up(root.path(), Duration::ZERO));
        assert!(root.path().join("bad").exists());
        assert_eq!(said(root.path()), ["bad", "first"]);
    }
}
