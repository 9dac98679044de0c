//! Compiled code on disk, by a key that says what it was compiled from, and the engine it was compiled for.
//!
//! An entry is two files: `<key>-<engine>.cwasm`, which is mapped as it is, and beside it its checksum. One that is missing,
//! damaged or of another engine is as good as none: it is compiled again.

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

/// The folder of compiled code.
pub(crate) struct Cache {
    folder: PathBuf,
    /// What code has to be compiled for.
    engine: String,
}

/// What the bytes of a Wasm file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Shape {
    Module,
    Component,
}

impl Cache {
    /// Nobody but Flint may write to the folder: what is in it is run as it is. Clears away what is half written.
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

    /// What was compiled before, if it is as it was written and of this engine.
    pub(crate) fn load(&self, engine: &Engine, key: &str, shape: Shape) -> Option<Compiled> {
        let refused = |error| tracing::info!(key, %error, "compiled Wasm code is of another engine; compiling it again");
        self.read(engine, key, shape)?.map_err(refused).ok()
    }

    /// The same, with what is in the way of its use where it is as it was written.
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
        // SAFETY: the file is code of this engine's own making, unchanged since: it lies in a folder that only this user can
        // write to, under a name made of the engine's settings, and its checksum was compared just now. Files are never written
        // to after they have their name, and removing one leaves its mapping as it is.
        Some(unsafe {
            match shape {
                Shape::Module => Module::deserialize_file(engine, &path).map(Compiled::Module),
                Shape::Component => Component::deserialize_file(engine, &path).map(Compiled::Component),
            }
        })
    }

    /// How much machine code an entry has.
    pub(crate) fn size(&self, key: &str) -> Option<ByteSize> {
        fs::metadata(self.path(key, COMPILED)).ok().map(|meta| ByteSize::bytes(meta.len()))
    }

    /// Writes an entry so that no reader ever sees half of it.
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

    /// Removes entries of other keys than `keep`, or for another engine than this one's and `beside`'s.
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

/// How much machine code there is in a folder under each key, for whatever engine.
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
        // One that is being removed takes nothing any more.
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

/// The standard library's hashers differ from one release to the next.
struct StableHasher(blake3::Hasher);

impl Hasher for StableHasher {
    fn finish(&self) -> u64 {
        u64::from_le_bytes(self.0.finalize().as_bytes()[..8].try_into().unwrap_or_default())
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}
