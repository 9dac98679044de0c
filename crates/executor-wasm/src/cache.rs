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
};

use flint_model::ByteSize;
use serde::{Deserialize, Serialize};
use wasmtime::{Engine, Module, component::Component};

use crate::contracts::Compiled;

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

    /// Loads an entry that is undamaged and fits the engine.
    pub(crate) fn load(&self, engine: &Engine, key: &str, shape: Shape) -> Option<Compiled> {
        let refused = |error| tracing::info!(key, %error, "compiled Wasm code is of another engine; compiling it again");
        self.read(engine, key, shape)?.map_err(refused).ok()
    }

    /// Like [`Self::load`]; an undamaged entry that the engine refuses is an error.
    #[allow(unsafe_code)]
    pub(crate) fn read(
        &self,
        engine: &Engine,
        key: &str,
        shape: Shape,
    ) -> Option<wasmtime::Result<Compiled>> {
        let path = self.path(key, COMPILED);
        let bytes = fs::read(&path).ok()?;
        let sum = fs::read_to_string(self.path(key, CHECKSUM)).ok()?;
        if blake3::hash(&bytes).to_hex().as_str() != sum.trim() {
            tracing::warn!(path = %path.display(), "compiled Wasm code is damaged; compiling it again");
            return None;
        }
        // SAFETY: the file is the unmodified output of this engine: it is in a directory that only this user
        // can write to, under a name derived from the engine's settings, and its checksum has just been
        // compared. Files are never written to under their final name, and removing one does not affect its
        // mapping.
        Some(unsafe {
            match shape {
                Shape::Module => Module::deserialize_file(engine, &path).map(Compiled::Module),
                Shape::Component => Component::deserialize_file(engine, &path).map(Compiled::Component),
            }
        })
    }

    /// The size of an entry's machine code.
    pub(crate) fn size(&self, key: &str) -> Option<ByteSize> {
        fs::metadata(self.path(key, COMPILED)).ok().map(|meta| ByteSize::bytes(meta.len()))
    }

    /// Writes an entry atomically: no reader ever sees a partial one.
    pub(crate) fn store(&self, key: &str, compiled: &[u8]) -> io::Result<()> {
        self.write(key, COMPILED, compiled)?;
        self.write(key, CHECKSUM, blake3::hash(compiled).to_hex().as_bytes())
    }

    fn write(&self, key: &str, extension: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(key, extension);
        let half = path.with_extension(format!("{extension}.{}", uniquely()));
        let mut file = fs::File::create_new(&half)?;
        let written =
            file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&half, &path));
        if written.is_err() {
            let _ = fs::remove_file(&half);
        }
        written
    }

    /// Removes the entries whose key is not in `keep` or whose engine is neither this one's nor `beside`'s.
    pub(crate) fn collect(&self, keep: &HashSet<String>, beside: Option<&Self>) -> io::Result<usize> {
        let kept = |name: &str| {
            let stem = name.split('.').next().unwrap_or_default();
            let Some((key, engine)) = stem.rsplit_once('-') else { return false };
            let current = engine == self.engine || beside.is_some_and(|beside| engine == beside.engine);
            current && keep.contains(key)
        };
        let mut removed = 0;
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let file = entry.file_type()?.is_file(); // not the folder of assets
            if file && !kept(&entry.file_name().to_string_lossy()) {
                fs::remove_file(entry.path())?;
                removed += 1;
            }
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
