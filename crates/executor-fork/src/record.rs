//! The result of freezing a function, stored beside the prepared code, so that preparing it again needs no
//! new warm-up.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use flint_model::{Function, SnapshotReport};
use flint_runtimes::prepare::artefact::{Artefact, UNFINISHED};
use serde::{Deserialize, Serialize};

/// Most records beside one artefact: each deploy with other parameters adds one.
const KEPT: usize = 16;

/// The result of the first attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Record {
    /// A snapshot was made.
    Frozen(SnapshotReport),
    /// The function cannot be frozen, for this reason.
    Refused(String),
}

impl Record {
    fn file(artefact: &Artefact, function: &Function) -> PathBuf {
        // The same code may have different warm-ups, and may load differently with other parameters and
        // limits.
        let parameters: Vec<_> = function.parameters.environment().collect();
        let asked =
            serde_json::to_vec(&(&function.snapshot, &function.limits, &function.network, parameters));
        let digest = blake3::hash(&asked.unwrap_or_default()).to_hex();
        artefact.folder.join(format!("snapshot-{}.json", &digest[..16]))
    }

    pub(crate) fn read(artefact: &Artefact, function: &Function) -> Option<Self> {
        serde_json::from_slice(&fs::read(Self::file(artefact, function)).ok()?).ok()
    }

    pub(crate) fn write(&self, artefact: &Artefact, function: &Function) -> io::Result<()> {
        let file = Self::file(artefact, function);
        let half = file.with_extension(UNFINISHED);
        fs::write(&half, serde_json::to_vec(self)?)?;
        fs::rename(half, file)?;
        keep_newest(&artefact.folder)
    }
}

/// Removes the oldest records beyond [`KEPT`].
fn keep_newest(folder: &Path) -> io::Result<()> {
    let is_record = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("snapshot-") && name.ends_with(".json")
    };
    let paths = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).filter(is_record);
    let mut records: Vec<_> =
        paths.filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path))).collect();
    records.sort_unstable();
    let too_many = records.len().saturating_sub(KEPT);
    records.into_iter().take(too_many).try_for_each(|(_, path)| fs::remove_file(path))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn of_many_records_the_newest_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<_> = (0..KEPT + 3).map(|n| format!("snapshot-{n}.json")).collect();
        for (age, name) in (0..).zip(&names) {
            let file = fs::File::create(folder.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(60 * age)).unwrap();
        }
        fs::write(folder.path().join("artefact.json"), "{}").unwrap();
        keep_newest(folder.path()).unwrap();
        assert!(names[..KEPT].iter().all(|name| folder.path().join(name).exists()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), KEPT + 1);
    }
}
