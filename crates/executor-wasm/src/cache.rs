//! Compiled code on disk, by a key that says what it was compiled from, and by the engine it was compiled
//! for.
//!
//! An entry is two files: `<key>-<engine>.cwasm`, which is memory-mapped as it is, and its checksum. An entry
//! that is missing, damaged or made for another engine is ignored, and the code is compiled again.

use std::{
    collections::{HashMap, HashSet},
    fs,
    hash::{Hash, Hasher},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use flint_model::ByteSize;
use serde::{Deserialize, Serialize};
use wasmtime::{Engine, Module, component::Component};

use crate::{account::Accounts, contracts::Compiled};

const COMPILED: &str = "cwasm";
const CHECKSUM: &str = "sum";

/// The directory of compiled code.
pub(crate) struct Cache {
    folder: PathBuf,
    /// Identifies the engine and settings that the code is compiled for.
    engine: String,
}

/// The kind of a Wasm file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Shape {
    Module,
    Component,
}

/// Why an undamaged entry was not loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unread {
    /// The host has no memory, mapping or descriptor for it, or cannot read it.
    #[error("{0}")]
    Host(String),
    /// The engine refuses the code.
    #[error("{0:#}")]
    Refused(wasmtime::Error),
}

impl Unread {
    fn of(error: wasmtime::Error) -> Self {
        match error.is::<io::Error>() || error.is::<rustix::io::Errno>() {
            true => Self::Host(format!("{error:#}")),
            false => Self::Refused(error),
        }
    }
}

/// What is read of a file, if there is one.
fn of_file<T>(path: &Path, read: impl FnOnce(&Path) -> io::Result<T>) -> Result<Option<T>, Unread> {
    match read(path) {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Unread::Host(format!("{}: {error}", path.display()))),
    }
}

/// The checksum of a file, which is not read into memory as a whole.
fn checksum(path: &Path) -> io::Result<blake3::Hash> {
    Ok(blake3::Hasher::new().update_reader(fs::File::open(path)?)?.finalize())
}

impl Cache {
    /// Opens the directory and removes unfinished files. Only Flint may write to it, because its files are
    /// executed unchecked.
    pub(crate) fn open(folder: &Path, engine: &Engine) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let half = path.file_stem().is_some_and(|stem| Path::new(stem).extension().is_some());
            if half {
                fs::remove_file(path)?;
            }
        }
        let mut hasher = StableHasher(blake3::Hasher::new());
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let engine = hasher.0.finalize().to_hex()[..16].to_owned();
        Ok(Self { folder: folder.to_owned(), engine })
    }

    /// Whether there is an entry that is undamaged. Reads all of it.
    pub(crate) fn is_whole(&self, key: &str) -> Result<bool, Unread> {
        let path = self.path(key, COMPILED);
        let Some(sum) = of_file(&self.path(key, CHECKSUM), |path| fs::read(path))? else { return Ok(false) };
        let Some(found) = of_file(&path, checksum)? else { return Ok(false) };
        let is_whole = found.to_hex().as_bytes() == sum.trim_ascii();
        if !is_whole {
            tracing::warn!(path = %path.display(), "compiled Wasm code is damaged");
        }
        Ok(is_whole)
    }

    /// Loads an entry, if there is one that is undamaged.
    #[allow(unsafe_code)]
    pub(crate) fn read(&self, engine: &Engine, key: &str, shape: Shape) -> Result<Option<Compiled>, Unread> {
        if !self.is_whole(key)? {
            return Ok(None);
        }
        let path = self.path(key, COMPILED);
        // SAFETY: the file is the unmodified output of this engine: it is in a directory that only this user
        // can write to, under a name derived from the engine's settings, and its checksum has just been
        // compared. Files are never written to under their final name, and removing one does not affect its
        // mapping.
        let loaded = unsafe {
            match shape {
                Shape::Module => Module::deserialize_file(engine, &path).map(Compiled::Module),
                Shape::Component => Component::deserialize_file(engine, &path).map(Compiled::Component),
            }
        };
        loaded.map(Some).map_err(Unread::of)
    }

    /// The size of an entry's machine code.
    pub(crate) fn size(&self, key: &str) -> Option<ByteSize> {
        fs::metadata(self.path(key, COMPILED)).ok().map(|meta| ByteSize::bytes(meta.len()))
    }

    /// Writes an entry, unless another deploy has: no reader ever sees a partial file, and an entry that is whole
    /// stays as it is. What initialisers leave differs from one time to the next, so of two deploys of the same code
    /// the one could end up with the checksum of the other.
    pub(crate) fn store(&self, key: &str, compiled: &[u8]) -> io::Result<()> {
        // The directory is that of all engines.
        static ONE_BY_ONE: Mutex<()> = Mutex::new(());
        let _turn = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_whole(key).unwrap_or(false) {
            return Ok(());
        }
        self.write(key, COMPILED, compiled)?;
        self.write(key, CHECKSUM, blake3::hash(compiled).to_hex().as_bytes())
    }

    /// Gives up an entry that is whole and that the engine refuses: the next one replaces it.
    pub(crate) fn give_up(&self, key: &str) -> io::Result<()> {
        match fs::remove_file(self.path(key, CHECKSUM)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn write(&self, key: &str, extension: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(key, extension);
        let half = half(&path);
        let mut file = fs::File::create_new(&half)?;
        let written =
            file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&half, &path));
        if written.is_err() {
            let _ = fs::remove_file(&half);
        }
        written
    }

    /// Removes the entries whose key is neither in `keep` nor in use, or whose engine is neither this one's nor
    /// `beside`'s.
    pub(crate) fn collect(
        &self,
        keep: &HashSet<String>,
        beside: Option<&Self>,
        accounts: &Accounts,
    ) -> io::Result<usize> {
        let mut removed = 0;
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if !entry.file_type()?.is_file() {
                continue; // the folder of assets
            }
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            let stem = name.split('.').next().unwrap_or_default();
            let is_current =
                |engine: &str| engine == self.engine || beside.is_some_and(|beside| engine == beside.engine);
            let dying = match stem.rsplit_once('-').filter(|(_, engine)| is_current(engine)) {
                Some((key, _)) if keep.contains(key) => continue,
                Some((key, _)) => {
                    // Deploys wait only while it is renamed: removing a large file takes longer.
                    let dying = half(&path);
                    match accounts.unless_held(key, || fs::rename(&path, &dying)) {
                        Some(renamed) => renamed.map(|()| dying)?,
                        None => continue,
                    }
                }
                None => path,
            };
            fs::remove_file(dying)?;
            removed += 1;
        }
        Ok(removed)
    }

    fn path(&self, key: &str, extension: &str) -> PathBuf {
        self.folder.join(format!("{key}-{}.{extension}", self.engine))
    }
}

/// The size of the machine code in a directory by key, for all engines.
pub(crate) fn sizes(folder: &Path) -> io::Result<HashMap<String, u64>> {
    let mut sizes = HashMap::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(sizes),
        found => found?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let stem = name.to_str().and_then(|name| name.strip_suffix(COMPILED)?.strip_suffix('.'));
        let Some((key, _)) = stem.and_then(|stem| stem.rsplit_once('-')) else { continue };
        // An entry that is being removed does not count.
        let Ok(data) = entry.metadata() else { continue };
        *sizes.entry(key.to_owned()).or_default() += data.len();
    }
    Ok(sizes)
}

/// The name of a file that is being written or removed, which nobody looks for. After a crash such files are
/// removed at the next start.
fn half(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", uniquely()));
    name.into()
}

fn uniquely() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed) << 32 | u64::from(std::process::id())
}

/// A hasher that gives the same result in every release, unlike the standard library's.
struct StableHasher(blake3::Hasher);

impl Hasher for StableHasher {
    fn finish(&self) -> u64 {
        u64::from_le_bytes(self.0.finalize().as_bytes()[..8].try_into().unwrap_or_default())
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::error::Context;

    use super::*;

    #[test]
    fn an_entry_that_is_whole_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path(), &Engine::default()).unwrap();
        let stored = |compiled: &[u8]| {
            cache.store("key", compiled).unwrap();
            assert!(cache.is_whole("key").unwrap());
            fs::read(cache.path("key", COMPILED)).unwrap()
        };
        assert_eq!(stored(b"first"), b"first");
        assert_eq!(stored(b"second"), b"first");
        fs::write(cache.path("key", COMPILED), "damaged").unwrap();
        assert_eq!(stored(b"third"), b"third");
        cache.give_up("key").unwrap();
        assert!(!cache.is_whole("key").unwrap() && cache.give_up("key").is_ok());
        assert_eq!(stored(b"fourth"), b"fourth");
    }

    #[test]
    fn what_the_host_lacks_is_told_from_what_the_engine_refuses() {
        let of_the_host = |error: wasmtime::Error| matches!(Unread::of(error), Unread::Host(_));
        let [files, mappings] = [rustix::io::Errno::MFILE, rustix::io::Errno::NOMEM];
        let opening = Err::<(), _>(io::Error::from(files)).context("failed to open file").unwrap_err();
        assert!(of_the_host(opening));
        assert!(of_the_host(mappings.into()));
        assert!(!of_the_host(wasmtime::format_err!(
            "memory index 0 is unsupported in this pooling allocator"
        )));
    }
}
