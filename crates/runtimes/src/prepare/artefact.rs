//! A prepared function on disk: a directory whose name is a digest of everything that it depends on.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use flint_executor::PrepareError;
use flint_model::{ByteSize, Function, Kind};
use serde::{Deserialize, Serialize};

use super::{quota::Claim, tree::failed};
use crate::{
    discover::{Engine, Family, Runtimes},
    disk_usage::{self, BLOCK},
    shims::{Shims, publish},
};

/// Changed whenever the layout of artefacts changes.
const LAYOUT: &str = "1";
const RECORD: &str = "artefact.json";
/// Prefix of directories under construction. After a crash they are removed at the next start.
const HALF: &str = ".building-";
/// The ending of files beside an artefact's code that are renamed once they are written. After a crash they are removed at the next
/// start.
pub const UNFINISHED: &str = "half";

/// The file written beside the code.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// Descriptions of the steps, for people.
    pub steps: Vec<String>,
    /// The path of the code inside the sandbox.
    pub code: String,
    /// The file for the interpreter to start with, if the function is a program of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// The entry point, if the build found it because the function does not name one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main: Option<String>,
    /// The runtime, if the code decides between several that the kind allows: `python:3.11`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Kind>,
    /// The path of the Java class archive inside the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
    /// Its disk usage; missing in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<ByteSize>,
}

/// A prepared function.
#[derive(Debug)]
pub struct Artefact {
    /// The name of its directory.
    pub address: String,
    /// Its directory on the host.
    pub folder: PathBuf,
    /// The program that runs it.
    pub engine: Engine,
    /// What the build recorded.
    pub record: Record,
}

impl Artefact {
    /// The directory that sandboxes see as `/function`.
    pub fn code_folder(&self) -> PathBuf {
        self.folder.join("code")
    }
}

/// The directory of all artefacts.
#[derive(Debug)]
pub(crate) struct Shelf {
    root: PathBuf,
}

impl Shelf {
    /// Opens the directory, creates it when missing, and removes what a crash left unfinished.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        // Sandboxes see single artefacts; no other user of the host may read them.
        fs::set_permissions(root, Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(root)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(HALF) {
                fs::remove_dir_all(entry.path())?;
                continue;
            }
            for beside in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                if beside.path().extension().is_some_and(|ending| ending == UNFINISHED) {
                    let _ = fs::remove_file(beside.path()); // in nobody's way
                }
            }
        }
        Ok(Self { root: root.to_owned() })
    }

    /// A digest of everything that the artefact depends on.
    pub(crate) fn address(function: &Function, engine: &Engine, shims: &Shims) -> String {
        let (runtime, built) = match engine {
            Engine::Language(runtime) => {
                (runtime.identity(), matches!(runtime.family, Family::Java | Family::Go))
            }
            Engine::Native => ("native".to_owned(), false),
        };
        // Java's class archive contains the shim and depends on how it is called; a Go program contains its
        // launcher.
        let shim = if built { shims.digest() } else { "" };
        // The contract decides whether Java is called by the shim and whether Go gets a launcher.
        let contract = function.contract.to_string();
        let format = format!("{:?}", function.code.format);
        let main = function.main.as_deref().unwrap_or_default();
        let digest = function.code.digest.to_string();
        // Java's class archive is written by the function's code, limited to its memory: it is for functions of
        // that memory, and of their owner. Parameters, with which the code is called then, do not count: they
        // leave nothing in it, and upkeep does not read them. Without an archive it is another artefact.
        let trained = match engine {
            Engine::Language(runtime) if runtime.family == Family::Java => {
                let without = if function.snapshot.annotate { "" } else { " without" };
                format!("\n{} {}{without}", function.path.namespace, function.limits.memory.as_u64())
            }
            _ => String::new(),
        };
        let contract = contract + &trained;
        let text = [LAYOUT, &digest, &format, function.kind.as_str(), main, &runtime, shim, &contract];
        blake3::hash(text.join("\n").as_bytes()).to_hex()[..32].to_owned()
    }

    /// The artefact, if it exists with a readable record and the runtime that it was made for still exists.
    pub(crate) fn find(&self, address: &str, engine: &Engine, runtimes: &Runtimes) -> Option<Artefact> {
        let folder = self.root.join(address);
        let record: Record = serde_json::from_slice(&fs::read(folder.join(RECORD)).ok()?).ok()?;
        let engine = match &record.runtime {
            Some(kind) => runtimes.resolve(kind).ok()?,
            None => engine.clone(),
        };
        Some(Artefact { address: address.to_owned(), folder, engine, record })
    }

    /// The artefact's disk usage. If its record lacks it, it is measured and recorded.
    pub(crate) fn size(&self, address: &str) -> io::Result<ByteSize> {
        let folder = self.root.join(address);
        let mut record: Record = serde_json::from_slice(&fs::read(folder.join(RECORD))?)?;
        if let Some(size) = record.size {
            return Ok(size);
        }
        let size = disk_usage::of_folder(&folder)?;
        record.size = Some(size);
        let half = folder.join(format!("{RECORD}.{:x}.{UNFINISHED}", rand_suffix()));
        let written = fs::write(&half, serde_json::to_vec_pretty(&record)?);
        if written.and_then(|()| fs::rename(&half, folder.join(RECORD))).is_err() {
            // It is measured again next time.
            let _ = fs::remove_file(&half);
        }
        Ok(size)
    }

    /// Measures the artefacts whose records lack their size.
    pub(crate) fn measure(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if !name.starts_with(HALF) {
                // A failure is reported when the size is needed.
                let _ = self.size(&name);
            }
        }
    }

    /// A directory to build in, with an empty `code` in it. Unless it is published it is removed, and its
    /// quota released.
    pub(crate) fn begin(&self, claim: Arc<Claim>) -> io::Result<HalfBuilt> {
        // Not named after the function, whose name may be as long as a file name.
        let folder = self.root.join(format!("{HALF}{:x}", rand_suffix()));
        fs::create_dir(&folder)?;
        let half = HalfBuilt { folder, claim };
        for path in [half.folder.clone(), half.code()] {
            fs::create_dir_all(&path)?;
            fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        }
        Ok(half)
    }

    /// Writes the record, gives the directory its final name, and charges its namespace.
    pub(crate) fn publish(
        &self,
        half: HalfBuilt,
        address: String,
        engine: Engine,
        record: Record,
        runtimes: &Runtimes,
    ) -> io::Result<Artefact> {
        let json = serde_json::to_vec_pretty(&record)?;
        fs::write(half.folder.join(RECORD), json)?;
        let folder = self.root.join(&address);
        if folder.exists() && self.find(&address, &engine, runtimes).is_none() {
            // Incomplete, or made for a runtime that has gone.
            fs::remove_dir_all(&folder)?;
        }
        publish(&half.folder, &folder)?;
        half.claim.settle();
        Ok(Artefact { address, folder, engine, record })
    }

    /// Removes the artefacts for which `leave` gives permission, which is held until the artefact cannot be
    /// found any more.
    pub(crate) fn collect<L>(&self, leave: impl Fn(&str) -> Option<L>) -> io::Result<usize> {
        let mut removed = 0;
        for entry in fs::read_dir(&self.root)?.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(HALF) {
                continue;
            }
            let Some(leave) = leave(&name) else { continue };
            // Renamed first, so that an artefact is there whole or not at all.
            let dying = self.root.join(format!("{HALF}{name}-removed"));
            fs::rename(entry.path(), &dying)?;
            drop(leave);
            fs::remove_dir_all(&dying)?;
            removed += 1;
        }
        Ok(removed)
    }
}

/// Unique among this process's builds, and different after a restart.
fn rand_suffix() -> u128 {
    flint_model::ActivationId::generate().as_u128()
}

/// A directory under construction.
pub struct HalfBuilt {
    folder: PathBuf,
    /// Its charge, released after the directory is removed unless it was published.
    claim: Arc<Claim>,
}

impl HalfBuilt {
    /// The directory that sandboxes will see as `/function`.
    pub(crate) fn code(&self) -> PathBuf {
        self.folder.join("code")
    }

    /// The whole directory.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Measures the finished artefact.
    pub(super) fn measure(&self) -> Result<ByteSize, PrepareError> {
        let size =
            disk_usage::of_folder(&self.folder).map_err(|error| failed("measuring the code", &error))?;
        // Its record is still to be written.
        let size = ByteSize::bytes(size.as_u64() + BLOCK);
        self.claim.resize(size)?;
        Ok(size)
    }
}

impl Drop for HalfBuilt {
    fn drop(&mut self) {
        // A published directory has another name by now.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Held by [`flint_executor::Prepared`], which protects the artefact from collection.
pub type SharedArtefact = Arc<Artefact>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_crash_left_unfinished_goes_at_the_next_start() {
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str| root.path().join(name);
        for folder in ["a/code", ".building-b/code"] {
            fs::create_dir_all(place(folder)).unwrap();
        }
        let kept = ["a/artefact.json", "a/snapshot-1.json", "a/code/mine.half", "no artefact"];
        let unfinished = ["a/artefact.json.1.half", "a/snapshot-2.half"];
        for file in kept.iter().chain(&unfinished) {
            fs::write(place(file), "{}").unwrap();
        }
        Shelf::open(root.path()).unwrap();
        assert!(kept.iter().all(|file| place(file).exists()));
        assert!(unfinished.iter().all(|file| !place(file).exists()));
        assert!(!place(".building-b").exists());
    }
}
