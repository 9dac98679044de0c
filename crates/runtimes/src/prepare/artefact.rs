//! What a function is on disk once it is prepared: a folder under its content's address.

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

/// Changes when the layout of artefacts does.
const LAYOUT: &str = "1";
const RECORD: &str = "artefact.json";
/// Folders being built; whatever is left of them after a crash goes at the next start.
const HALF: &str = ".building-";

/// What is written beside the code.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// What was done, for people.
    pub steps: Vec<String>,
    /// Where the code begins, inside the sandbox.
    pub code: String,
    /// The file that an interpreter is started with, where the function is a program of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// The entry point, when the build found out what the function does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main: Option<String>,
    /// The runtime, where the code decides between several that the kind allows: `python:3.11`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Kind>,
    /// The Java archive of loaded classes, inside the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
    /// What it takes of the disk. Records of earlier versions do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<ByteSize>,
}

/// A prepared function.
#[derive(Debug)]
pub struct Artefact {
    /// Its content's address.
    pub address: String,
    /// Where it is on the host.
    pub folder: PathBuf,
    /// What runs it.
    pub engine: Engine,
    /// What was found out about it.
    pub record: Record,
}

impl Artefact {
    /// What sandboxes see as `/function`.
    pub fn code_folder(&self) -> PathBuf {
        self.folder.join("code")
    }
}

/// The artefacts' folder.
#[derive(Debug)]
pub(crate) struct Shelf {
    root: PathBuf,
}

impl Shelf {
    /// Opens it, creates it when missing, and clears away what a crash left half-built.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        // Sandboxes see single artefacts; nobody else on the host has business here.
        fs::set_permissions(root, Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(root)?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(HALF) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(Self { root: root.to_owned() })
    }

    /// Everything that the artefact depends on, hashed.
    pub(crate) fn address(function: &Function, engine: &Engine, shims: &Shims) -> String {
        let (runtime, built) = match engine {
            Engine::Language(runtime) => {
                (runtime.identity(), matches!(runtime.family, Family::Java | Family::Go))
            }
            Engine::Native => ("native".to_owned(), false),
        };
        // Java's archive of classes contains the shim and depends on how it is called; a Go program contains its launcher.
        let shim = if built { shims.digest() } else { "" };
        // Java is called by the shim or by itself, and Go brings a launcher or not, as the contract asks.
        let contract = function.contract.to_string();
        let format = format!("{:?}", function.code.format);
        let main = function.main.as_deref().unwrap_or_default();
        let digest = function.code.digest.to_string();
        let text = [LAYOUT, &digest, &format, function.kind.as_str(), main, &runtime, shim, &contract];
        blake3::hash(text.join("\n").as_bytes()).to_hex()[..32].to_owned()
    }

    /// The artefact when it is there, whole and readable, and so is the runtime that it was made for.
    pub(crate) fn find(&self, address: &str, engine: &Engine, runtimes: &Runtimes) -> Option<Artefact> {
        let folder = self.root.join(address);
        let record: Record = serde_json::from_slice(&fs::read(folder.join(RECORD)).ok()?).ok()?;
        let engine = match &record.runtime {
            Some(kind) => runtimes.resolve(kind).ok()?,
            None => engine.clone(),
        };
        Some(Artefact { address: address.to_owned(), folder, engine, record })
    }

    /// What the artefact takes of the disk. It is measured, and written down, where its record does not say it.
    pub(crate) fn size(&self, address: &str) -> io::Result<ByteSize> {
        let folder = self.root.join(address);
        let mut record: Record = serde_json::from_slice(&fs::read(folder.join(RECORD))?)?;
        if let Some(size) = record.size {
            return Ok(size);
        }
        let size = disk_usage::of_folder(&folder)?;
        record.size = Some(size);
        let half = folder.join(format!("{RECORD}.{:x}", rand_suffix()));
        let written = fs::write(&half, serde_json::to_vec_pretty(&record)?);
        if written.and_then(|()| fs::rename(&half, folder.join(RECORD))).is_err() {
            // It is measured again the next time.
            let _ = fs::remove_file(&half);
        }
        Ok(size)
    }

    /// Measures the artefacts whose records do not say what they take.
    pub(crate) fn measure(&self) {
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if !name.starts_with(HALF) {
                // One that cannot be measured is left to whoever needs its size.
                let _ = self.size(&name);
            }
        }
    }

    /// A folder to build in, with an empty `code` in it. It is removed unless it is published, and given back then.
    pub(crate) fn begin(&self, claim: Arc<Claim>) -> io::Result<HalfBuilt> {
        // Not the function's name, which may be as long as a file's.
        let folder = self.root.join(format!("{HALF}{:x}", rand_suffix()));
        fs::create_dir(&folder)?;
        let half = HalfBuilt { folder, claim };
        for path in [half.folder.clone(), half.code()] {
            fs::create_dir_all(&path)?;
            fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        }
        Ok(half)
    }

    /// Writes the record, gives the folder its name, and charges its namespace for it.
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
            // Half of one, or one for a runtime that is gone.
            fs::remove_dir_all(&folder)?;
        }
        publish(&half.folder, &folder)?;
        half.claim.settle();
        Ok(Artefact { address, folder, engine, record })
    }

    /// Removes the artefacts for whose address `leave` is given, which is kept until nobody can find that one.
    pub(crate) fn collect<L>(&self, leave: impl Fn(&str) -> Option<L>) -> io::Result<usize> {
        let mut removed = 0;
        for entry in fs::read_dir(&self.root)?.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with(HALF) {
                continue;
            }
            let Some(leave) = leave(&name) else { continue };
            // Out of the way first: an artefact is there whole or not at all.
            let dying = self.root.join(format!("{HALF}{name}-removed"));
            fs::rename(entry.path(), &dying)?;
            drop(leave);
            fs::remove_dir_all(&dying)?;
            removed += 1;
        }
        Ok(removed)
    }
}

/// Unique among this process's builds, and not the same after a restart.
fn rand_suffix() -> u128 {
    flint_model::ActivationId::generate().as_u128()
}

/// A folder being built.
pub struct HalfBuilt {
    folder: PathBuf,
    /// What it takes, given back after the folder is gone unless it was published.
    claim: Arc<Claim>,
}

impl HalfBuilt {
    /// What sandboxes will see as `/function`.
    pub(crate) fn code(&self) -> PathBuf {
        self.folder.join("code")
    }

    /// All of it.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Measures it now that it is whole.
    pub(super) fn measure(&self) -> Result<ByteSize, PrepareError> {
        let size =
            disk_usage::of_folder(&self.folder).map_err(|error| failed("measuring the code", &error))?;
        // Its record will be there too.
        let size = ByteSize::bytes(size.as_u64() + BLOCK);
        self.claim.resize(size)?;
        Ok(size)
    }
}

impl Drop for HalfBuilt {
    fn drop(&mut self) {
        // After publishing it has another name.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Kept alive by [`flint_executor::Prepared`], so that a collection leaves it alone.
pub type SharedArtefact = Arc<Artefact>;
