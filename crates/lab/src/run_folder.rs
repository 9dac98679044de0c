//! Stores the measurements of a run, so that an interrupted run continues.

use std::{
    fs,
    io::{self, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
};

use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::Value;

/// The identity of a run: two measurements belong together only if it is the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// The experiment.
    pub experiment: String,
    /// The measured commit.
    pub commit: String,
    /// The measured build: one commit has several, with uncommitted changes or other settings.
    #[serde(default)]
    pub program: String,
    /// The host's lasting properties.
    pub host: Value,
    /// Sizes, seeds, numbers of rounds.
    pub settings: Value,
    /// The version of the workloads, if they are not of the commit.
    #[serde(default)]
    pub workloads: Option<String>,
}

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunFolderError {
    /// It holds another run.
    #[error("{} has a run of another {what}: choose another folder, or remove it", folder.display())]
    Other {
        /// Which.
        folder: PathBuf,
        /// What differs: `commit`, `build of the program`, `host`, `settings`, `experiment`, `version of the workloads`.
        what: &'static str,
    },
    /// It has files that do not belong to a run.
    #[error("{} is not empty and not of a benchmark: choose another folder", .0.display())]
    Foreign(PathBuf),
    /// Another process is using it.
    #[error("{} is in use by {by}: wait until that run has ended, or choose another folder", folder.display())]
    InUse {
        /// Which.
        folder: PathBuf,
        /// By whom, as far as that is known.
        by: String,
    },
    /// It cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// A folder with the results of one run, or none, in which case nothing is stored.
#[derive(Debug)]
pub struct RunFolder {
    folder: Option<PathBuf>,
    /// Held during the run.
    _lock: Option<Lock>,
}

/// Keeps a second run out of a folder. The kernel releases it however this process ends.
#[derive(Debug)]
struct Lock {
    _folder: fs::File,
    owner: PathBuf,
}

const IDENTITY: &str = "run.json";
/// The identity while it is being written.
const IDENTITY_PART: &str = "run.part";
const RESULTS: &str = "results";
/// The arms that have failed and why, one per line.
const FAILURES: &str = "failures.jsonl";
/// In the reasons that may be gone by the next start.
const NOT_INSTALLED: &str = "not installed";
/// Names the owner of the lock; without the lock it has no meaning.
const OWNER: &str = "run.pid";

impl RunFolder {
    /// Stores nothing.
    pub const fn none() -> Self {
        Self { folder: None, _lock: None }
    }

    /// The folder of a finished run.
    pub fn at(folder: &Path) -> Self {
        Self { folder: Some(folder.to_owned()), _lock: None }
    }

    /// Opens and locks `folder`, which may be missing, empty, or contain a run with this identity.
    pub fn open(folder: &Path, identity: &Identity) -> Result<Self, RunFolderError> {
        let results = folder.join(RESULTS);
        fs::create_dir_all(folder).map_err(at(folder))?;
        let held = hold(folder)?;
        let path = folder.join(IDENTITY);
        match fs::read(&path) {
            Ok(bytes) => {
                let found: Identity =
                    serde_json::from_slice(&bytes).map_err(|_| RunFolderError::Foreign(folder.to_owned()))?;
                if let Some(what) = difference(&found, identity) {
                    return Err(RunFolderError::Other { folder: folder.to_owned(), what });
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // The remains of a start that was killed or ran out of disk space before there was a run.
                let is_left = |entry: fs::DirEntry| {
                    [IDENTITY_PART, OWNER].iter().any(|name| entry.file_name() == *name)
                };
                if !fs::read_dir(folder).map_err(at(folder))?.flatten().all(is_left) {
                    return Err(RunFolderError::Foreign(folder.to_owned()));
                }
                write(&path, &serde_json::to_vec_pretty(identity).map_err(invalid(&path))?)?;
            }
            Err(error) => return Err(at(&path)(error)),
        }
        fs::create_dir_all(&results).map_err(at(&results))?;
        let owner = folder.join(OWNER);
        fs::write(&owner, std::process::id().to_string()).map_err(at(&owner))?;
        let run = Self { folder: Some(folder.to_owned()), _lock: Some(Lock { _folder: held, owner }) };
        if fs::read_dir(&results).map_err(at(&results))?.next().is_none() {
            run.forgive()?;
        }
        Ok(run)
    }

    /// Forgets failures for want of an installation: without results, there is nothing yet that these arms
    /// would not be interleaved with.
    fn forgive(&self) -> Result<(), RunFolderError> {
        let failures: Vec<(String, String)> = self.lines(FAILURES);
        if !failures.iter().any(|(_, why)| why.contains(NOT_INSTALLED)) {
            return Ok(());
        }
        self.write(FAILURES, b"")?;
        let mut lasting = failures.iter().filter(|(_, why)| !why.contains(NOT_INSTALLED));
        lasting.try_for_each(|failure| self.append(FAILURES, failure))
    }

    /// Removes the identity of a mistaken run without results, so that the folder can be used for another.
    /// Measurements and probes stay.
    pub fn forget(&self) {
        let Some(folder) = &self.folder else { return };
        let is_new =
            |entry: fs::DirEntry| [IDENTITY, OWNER, RESULTS].iter().any(|name| entry.file_name() == *name);
        let nothing_seen = fs::read_dir(folder).is_ok_and(|entries| entries.flatten().all(is_new));
        // Succeeds only if the folder is empty.
        if nothing_seen && fs::remove_dir(folder.join(RESULTS)).is_ok() {
            let _ = fs::remove_file(folder.join(IDENTITY));
        }
    }

    /// The folder.
    pub fn path(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The stored measurement of `key`; unreadable ones count as missing.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        serde_json::from_slice(&fs::read(self.result(key)?).ok()?).ok()
    }

    /// Whether there is a measurement of `key`.
    pub fn has(&self, key: &str) -> bool {
        self.get::<IgnoredAny>(key).is_some()
    }

    /// Stores the measurement of `key`, atomically.
    pub fn put<T: Serialize>(&self, key: &str, result: &T) -> Result<(), RunFolderError> {
        let Some(path) = self.result(key) else { return Ok(()) };
        write(&path, &serde_json::to_vec(result).map_err(invalid(&path))?)
    }

    /// Stores that `arm` has failed.
    pub fn fail(&self, arm: &str, why: &str) -> Result<(), RunFolderError> {
        self.append(FAILURES, &(arm, why))
    }

    /// Why `arm` has failed in this start of the run or in an earlier one. Tried again, it would be measured
    /// alone, and its failure hidden.
    pub fn failed(&self, arm: &str) -> Option<String> {
        let failures: Vec<(String, String)> = self.lines(FAILURES);
        let (_, why) = failures.into_iter().find(|(name, _)| name == arm)?;
        Some(format!("{why} (not tried again: begin anew with another --out)"))
    }

    /// Appends a line to a file beside the results, durably.
    pub fn append<T: Serialize>(&self, name: &str, line: &T) -> Result<(), RunFolderError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let path = folder.join(name);
        let mut text = serde_json::to_vec(line).map_err(invalid(&path))?;
        text.push(b'\n');
        add(&path, &text).map_err(at(&path))
    }

    /// The lines of a file, in order. An unreadable one, such as one torn by a crash, counts as missing.
    pub fn lines<T: DeserializeOwned>(&self, name: &str) -> Vec<T> {
        let bytes = self.folder.as_ref().and_then(|folder| fs::read(folder.join(name)).ok());
        let lines = bytes.as_deref().unwrap_or_default().split(|byte| *byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Writes a file beside the results.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), RunFolderError> {
        match &self.folder {
            Some(folder) => write(&folder.join(name), content),
            None => Ok(()),
        }
    }

    /// A valid file name, unique for each key.
    fn result(&self, key: &str) -> Option<PathBuf> {
        let mut name = String::new();
        for byte in key.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' => name.push(byte.into()),
                _ => name.push_str(&format!("_{byte:02x}")),
            }
        }
        Some(self.folder.as_ref()?.join(RESULTS).join(format!("{name}.json")))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A remaining name has no meaning.
        let _ = fs::remove_file(&self.owner);
    }
}

/// Locks the folder itself, which a refused run leaves unchanged.
fn hold(folder: &Path) -> Result<fs::File, RunFolderError> {
    let held = fs::File::open(folder).map_err(at(folder))?;
    match held.try_lock() {
        Ok(()) => Ok(held),
        Err(fs::TryLockError::Error(error)) => Err(at(folder)(error)),
        Err(fs::TryLockError::WouldBlock) => {
            let by = fs::read_to_string(folder.join(OWNER)).map_or_else(
                |_| "another run".to_owned(),
                |pid| format!("the run of process {}", pid.trim()),
            );
            Err(RunFolderError::InUse { folder: folder.to_owned(), by })
        }
    }
}

fn difference(found: &Identity, wanted: &Identity) -> Option<&'static str> {
    [
        ("experiment", found.experiment == wanted.experiment),
        ("commit", found.commit == wanted.commit),
        ("build of the program", found.program == wanted.program),
        ("host", found.host == wanted.host),
        ("settings", found.settings == wanted.settings),
        ("version of the workloads", found.workloads == wanted.workloads),
    ]
    .into_iter()
    .find_map(|(what, same)| (!same).then_some(what))
}

fn at(path: &Path) -> impl Fn(io::Error) -> RunFolderError + use<> {
    let path = path.to_owned();
    move |error| RunFolderError::Io { path: path.clone(), error }
}

fn invalid(path: &Path) -> impl Fn(serde_json::Error) -> RunFolderError + use<> {
    let io = at(path);
    move |error| io(io::Error::other(error))
}

/// Starts a new line after a torn one, or both would be lost.
fn add(path: &Path, line: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let mut last = [b'\n'];
    if file.metadata()?.len() > 0 {
        file.seek(io::SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    let torn = last != [b'\n'];
    file.write_all(&[if torn { b"\n".as_slice() } else { b"" }, line].concat())?;
    file.sync_data()
}

fn write(path: &Path, content: &[u8]) -> Result<(), RunFolderError> {
    let beside = path.with_extension("part");
    fs::write(&beside, content).map_err(at(&beside))?;
    fs::rename(&beside, path).map_err(at(path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn identity() -> Identity {
        Identity {
            experiment: "x".into(),
            commit: "c".into(),
            program: "p".into(),
            host: json!({ "cores": 2 }),
            settings: json!({ "quick": true }),
            workloads: Some("v".into()),
        }
    }

    #[test]
    fn a_run_goes_on_where_it_was_and_only_that_run() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("run");
        let run = RunFolder::open(&folder, &identity()).unwrap();
        assert_eq!(run.get::<u32>("a/b 1"), None);
        run.put("a/b 1", &7).unwrap();
        run.put("a_b 1", &8).unwrap();
        drop(run);
        let again = RunFolder::open(&folder, &identity()).unwrap();
        assert_eq!((again.get("a/b 1"), again.get("a_b 1")), (Some(7), Some(8)));
        drop(again);
        for (other, what) in [
            (Identity { commit: "d".into(), ..identity() }, "commit"),
            (Identity { program: "q".into(), ..identity() }, "build of the program"),
            (Identity { host: json!({ "cores": 4 }), ..identity() }, "host"),
            (Identity { settings: json!({}), ..identity() }, "settings"),
            (Identity { experiment: "y".into(), ..identity() }, "experiment"),
            (Identity { workloads: Some("w".into()), ..identity() }, "version of the workloads"),
        ] {
            let error = RunFolder::open(&folder, &other).unwrap_err().to_string();
            assert!(error.contains(&format!("a run of another {what}")), "{error}");
        }
    }

    #[test]
    fn a_run_that_was_asked_for_wrongly_leaves_its_folder_to_another() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("run");
        let wrong = Identity { settings: json!({ "arms": ["nosuch"] }), ..identity() };
        let run = RunFolder::open(&folder, &wrong).unwrap();
        run.forget();
        drop(run);
        let run = RunFolder::open(&folder, &identity()).unwrap();
        run.put("k", &1).unwrap();
        run.forget();
        drop(run);
        assert_eq!(RunFolder::open(&folder, &identity()).unwrap().get("k"), Some(1));
        RunFolder::none().forget();
    }

    #[test]
    fn a_second_run_stays_out_and_is_told_whose_the_folder_is() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("run");
        let run = RunFolder::open(&folder, &identity()).unwrap();
        let error = RunFolder::open(&folder, &identity()).unwrap_err().to_string();
        let whose = format!("is in use by the run of process {}:", std::process::id());
        assert!(error.contains(&whose), "{error}");
        drop(run);
        // The state after a run was killed: with the name, without the lock.
        fs::write(folder.join(OWNER), "1").unwrap();
        RunFolder::open(&folder, &identity()).unwrap();
        assert!(!folder.join(OWNER).exists());
    }

    #[test]
    fn a_start_that_was_cut_short_leaves_its_folder_to_the_next() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        // The state after the disk was full.
        fs::write(folder.join(IDENTITY).with_extension("part"), b"{").unwrap();
        fs::write(folder.join(OWNER), "1").unwrap();
        RunFolder::open(folder, &identity()).unwrap();
        RunFolder::open(folder, &identity()).unwrap();
        assert!(!folder.join(IDENTITY_PART).exists());
    }

    #[test]
    fn an_arm_that_has_failed_is_not_tried_again_but_for_what_was_not_installed() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("run");
        let open = || RunFolder::open(&folder, &identity()).unwrap();
        let run = open();
        assert_eq!(run.failed("a"), None);
        run.fail("a", "a wrong answer").unwrap();
        run.fail("b", "it is not installed: install.sh").unwrap();
        let said = "a wrong answer (not tried again: begin anew with another --out)";
        assert!(run.failed("a").as_deref() == Some(said) && run.failed("b").is_some());
        drop(run);
        let run = open();
        assert!(run.failed("a").as_deref() == Some(said) && run.failed("b").is_none());
        run.fail("b", "it is not installed: install.sh").unwrap();
        run.put("c round 1", &1).unwrap();
        drop(run);
        // What is installed by now would be compared with what was measured without it.
        assert!(open().failed("b").is_some());
        RunFolder::none().fail("a", "no").unwrap();
        assert_eq!(RunFolder::none().failed("a"), None);
    }

    #[test]
    fn a_torn_line_is_lost_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("run");
        let run = RunFolder::open(&folder, &identity()).unwrap();
        assert!(run.lines::<u32>("numbers").is_empty());
        run.append("numbers", &10).unwrap();
        run.append("numbers", &11).unwrap();
        let mut text = fs::read(folder.join("numbers")).unwrap();
        text.extend_from_slice(b"{\"to");
        fs::write(folder.join("numbers"), &text).unwrap();
        assert_eq!(run.lines::<u32>("numbers"), [10, 11]);
        drop(run);
        let again = RunFolder::open(&folder, &identity()).unwrap();
        again.append("numbers", &12).unwrap();
        assert_eq!(again.lines::<u32>("numbers"), [10, 11, 12]);
        RunFolder::none().append("numbers", &1).unwrap();
        assert!(RunFolder::none().lines::<u32>("numbers").is_empty());
    }

    #[test]
    fn a_torn_result_is_measured_again_and_foreign_folders_are_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let run = RunFolder::open(&scratch.path().join("run"), &identity()).unwrap();
        run.put("k", &vec![1, 2]).unwrap();
        fs::write(run.result("k").unwrap(), b"[1,").unwrap();
        assert_eq!(run.get::<Vec<u32>>("k"), None);
        fs::write(scratch.path().join("letter.txt"), "dear").unwrap();
        let error = RunFolder::open(scratch.path(), &identity()).unwrap_err();
        assert!(matches!(error, RunFolderError::Foreign(_)), "{error}");
        RunFolder::none().put("k", &1).unwrap();
        assert_eq!(RunFolder::none().get::<u32>("k"), None);
    }
}
