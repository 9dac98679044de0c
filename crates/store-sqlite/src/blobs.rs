//! Function code as content-addressed files.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;
use flint_model::Digest;
use flint_store::{Blobs, StoreError};

use crate::{
    SyncMode,
    fault::{file_fault, locked},
    files,
    off_thread::off_thread,
};

const WRITING: &str = "writing code";
const READING: &str = "reading code";
const COLLECTING: &str = "removing code";

/// `DIR/ab/cdef…`: 256 directories, so that none grows large.
#[derive(Clone)]
pub(crate) struct FileBlobs(Arc<Inner>);

struct Inner {
    dir: PathBuf,
    sync: SyncMode,
    /// Numbers temporary files.
    temporaries: AtomicU64,
    /// Held while a file is found and its age is reset, and while a file is found old and removed. Contains
    /// the number of reasons not to remove anything now.
    guard: Mutex<usize>,
}

/// A guard against the removal of files.
pub(crate) struct Hold(FileBlobs);

impl Drop for Hold {
    fn drop(&mut self) {
        *locked(&self.0.0.guard) -= 1;
    }
}

impl FileBlobs {
    /// Opens the directory and removes what a crash left half written.
    pub(crate) fn open(dir: PathBuf, sync: SyncMode) -> Result<Self, StoreError> {
        let temporary = dir.join("tmp");
        let opened = (|| {
            files::make_dir(&temporary, sync)?;
            // The directory itself stays: created again by a command run as root, it would be inaccessible to
            // the server's user.
            for left in fs::read_dir(&temporary)? {
                fs::remove_file(left?.path())?;
            }
            for fan in 0..=u8::MAX {
                files::make_dir(&dir.join(format!("{fan:02x}")), SyncMode::ProcessOnly)?;
            }
            // Once for all of them.
            if sync == SyncMode::Durable { files::sync_dir(&dir) } else { Ok(()) }
        })();
        opened.map_err(file_fault("opening the code directory", &dir))?;
        let inner = Inner { dir, sync, temporaries: AtomicU64::new(0), guard: Mutex::new(0) };
        Ok(Self(Arc::new(inner)))
    }

    /// Keeps every file until the guard is dropped.
    pub(crate) fn hold(&self) -> Hold {
        *locked(&self.0.guard) += 1;
        Hold(self.clone())
    }

    /// Every file, with its address.
    pub(crate) fn all(&self) -> io::Result<Vec<(Digest, PathBuf)>> {
        let mut found = Vec::new();
        for fan in fs::read_dir(&self.0.dir)? {
            let fan = fan?;
            if !fan.file_type()?.is_dir() {
                continue;
            }
            for file in fs::read_dir(fan.path())? {
                let file = file?;
                if let Some(digest) = digest_of(&fan.file_name(), &file.file_name()) {
                    found.push((digest, file.path()));
                }
            }
        }
        Ok(found)
    }

    fn put(&self, content: &[u8]) -> Result<Digest, StoreError> {
        let digest = Digest::from_bytes(*blake3::hash(content).as_bytes());
        let path = self.0.path(digest);
        if self.refresh(&path, digest) {
            return Ok(digest);
        }
        let number = self.0.temporaries.fetch_add(1, Ordering::Relaxed);
        let temporary = self.0.dir.join("tmp").join(number.to_string());
        files::write_whole(&temporary, &path, self.0.sync, |file| file.write_all(content))
            .map_err(file_fault(WRITING, &path))?;
        Ok(digest)
    }

    /// Whether the content is stored already and intact; it then counts as just written.
    fn refresh(&self, path: &Path, digest: Digest) -> bool {
        let _guard = locked(&self.0.guard);
        fs::read(path).is_ok_and(|found| blake3::hash(&found).as_bytes() == digest.as_bytes())
            && File::options().write(true).open(path).and_then(|file| file.set_modified(SystemTime::now())).is_ok()
            // Its first writer may not have synced the directory yet.
            && (self.0.sync == SyncMode::ProcessOnly || path.parent().is_some_and(|fan| files::sync_dir(fan).is_ok()))
    }

    fn get(&self, digest: Digest) -> Result<Option<Bytes>, StoreError> {
        let path = self.0.path(digest);
        let content = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(file_fault(READING, &path))?,
        };
        if blake3::hash(&content).as_bytes() != digest.as_bytes() {
            let detail = "its content does not have the hash that is its name".to_owned();
            return Err(StoreError::Damaged { path, detail });
        }
        Ok(Some(content.into()))
    }

    fn collect(&self, mut keep: Vec<Digest>, grace: Duration) -> Result<usize, StoreError> {
        keep.sort_unstable();
        let mut removed = 0;
        for (digest, path) in self.all().map_err(file_fault(COLLECTING, &self.0.dir))? {
            if keep.binary_search(&digest).is_ok() {
                continue;
            }
            let guard = locked(&self.0.guard);
            if *guard > 0 {
                break;
            }
            let age = fs::metadata(&path)
                .and_then(|data| data.modified())
                .map(|at| at.elapsed().unwrap_or_default());
            match age.and_then(|age| if age < grace { Ok(0) } else { fs::remove_file(&path).map(|()| 1) }) {
                Ok(one) => removed += one,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(file_fault(COLLECTING, &path)(error)),
            }
        }
        Ok(removed)
    }
}

impl Inner {
    fn path(&self, digest: Digest) -> PathBuf {
        let text = digest.to_string();
        self.dir.join(&text[..2]).join(&text[2..])
    }
}

/// The digest that a file's path encodes.
fn digest_of(fan: &OsStr, file: &OsStr) -> Option<Digest> {
    format!("{}{}", fan.to_str()?, file.to_str()?).parse().ok()
}

#[async_trait]
impl Blobs for FileBlobs {
    async fn put(&self, content: Bytes) -> Result<Digest, StoreError> {
        let blobs = self.clone();
        off_thread(WRITING, move || Self::put(&blobs, &content)).await
    }

    async fn get(&self, digest: Digest) -> Result<Option<Bytes>, StoreError> {
        let blobs = self.clone();
        off_thread(READING, move || Self::get(&blobs, digest)).await
    }

    async fn collect(&self, keep: &[Digest], grace: Duration) -> Result<usize, StoreError> {
        let (blobs, keep) = (self.clone(), keep.to_vec());
        off_thread(COLLECTING, move || Self::collect(&blobs, keep, grace)).await
    }
}
