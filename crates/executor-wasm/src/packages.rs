//! Code that comes as an archive: extracts the module, and keeps its assets on disk under the code's digest.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bytes::Bytes;
use flint_executor::{FunctionSource, PrepareError, Progress};
use flint_model::{ByteSize, Digest, NamespaceName};
use flint_runtimes::{Charge, Unpacking, disk_usage};

use crate::{
    host::{Disk, PackageArchive, PackageBounds, PackageError},
    workshop::Workshop,
};

/// The signature of a zip archive.
const ZIP: &[u8] = b"PK\x03\x04";
const GZIP: &[u8] = b"\x1f\x8b";
/// Prefix of directories that are being filled or removed. After a crash they are removed at the next start.
const HALF: &str = ".building-";

/// A namespace, and the digest of its package.
type Key = (NamespaceName, Digest);

/// The directory of unpacked assets.
pub(crate) struct Packages {
    folder: PathBuf,
    bounds: PackageBounds,
    workshop: Workshop,
    /// Whether the directory exists and has been cleaned up after a crash.
    is_tidy: Mutex<bool>,
    book: Mutex<Book>,
}

/// The packages in use and the namespaces' charges.
#[derive(Default)]
struct Book {
    held: Vec<Weak<Assets>>,
    /// The charge for each package of a namespace. A directory is charged in full to everyone who has
    /// deployed it.
    charged: HashMap<Key, Charge>,
    /// Whether the functions deployed before the server started have been counted.
    counted: bool,
}

/// Unpacked assets, protected from collection while this is held.
#[derive(Debug)]
pub(crate) struct Assets {
    /// Their directory.
    pub(crate) folder: PathBuf,
    key: Key,
}

/// Code out of its archive.
#[derive(Debug)]
pub(crate) struct Package {
    /// The module or component.
    pub(crate) module: Bytes,
    /// Its assets, if it has any.
    pub(crate) assets: Option<Arc<Assets>>,
}

/// Permission to unpack an archive, and the charge for it.
struct Writing {
    turn: Unpacking,
    charge: Charge,
}

/// Without a house the disk is not shared, so nothing is limited.
impl Disk for Option<Writing> {
    fn take(&self, bytes: u64) -> Result<(), PrepareError> {
        self.as_ref().map_or(Ok(()), |writing| writing.charge.take(bytes))
    }

    fn go_on(&self) -> Result<(), PrepareError> {
        self.as_ref().map_or(Ok(()), |writing| writing.turn.go_on())
    }
}

impl Packages {
    /// Touches the directory only when it is needed.
    pub(crate) fn new(folder: PathBuf, largest_module: ByteSize, workshop: Workshop) -> Self {
        let bounds = PackageBounds { module: largest_module, ..PackageBounds::default() };
        Self { folder, bounds, workshop, is_tidy: Mutex::default(), book: Mutex::default() }
    }

    /// Makes the directory and removes unfinished work. Does nothing the second time.
    pub(crate) fn tidy(&self) -> io::Result<()> {
        let mut is_tidy = self.is_tidy.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_tidy {
            return Ok(());
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(HALF) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        *is_tidy = true;
        Ok(())
    }

    /// The module, extracted if it is in an archive.
    pub(crate) async fn module(
        self: &Arc<Self>,
        source: &FunctionSource,
        progress: Progress<'_>,
    ) -> Result<Package, PrepareError> {
        let code = source.code.clone();
        if code.starts_with(GZIP) {
            return Err(PrepareError::Code(
                "the code is a gzip archive: pack the module and its assets/ as a zip archive".to_owned(),
            ));
        }
        if !code.starts_with(ZIP) {
            return Ok(Package { module: code, assets: None });
        }
        let key = (source.function.path.namespace.clone(), source.function.code.digest);
        let writing = match &self.workshop {
            Workshop::Sandboxes(house) => {
                let address = address(&key);
                if !self.book().charged.contains_key(&key) {
                    house.recall(&key.0, &address)?;
                }
                let turn = house.unpacking(&key.0, progress).await?;
                Some(Writing { turn, charge: house.charge(&key.0, &address) })
            }
            Workshop::Here => None,
        };
        let packages = Arc::clone(self);
        // Unpacking goes on when its caller has gone, so it keeps its turn.
        let unpacking = tokio::task::spawn_blocking(move || packages.unpack(&code, key, writing));
        let failed =
            |detail: String| PrepareError::Failed { operation: "unpacking the code".to_owned(), detail };
        match unpacking.await {
            Ok(Ok(package)) => Ok(package),
            Ok(Err(PackageError::Archive(why))) => Err(PrepareError::Code(why)),
            Ok(Err(PackageError::Disk(error))) => Err(error),
            Ok(Err(error @ PackageError::Host { .. })) => Err(failed(error.to_string())),
            Err(died) => Err(failed(died.to_string())),
        }
    }

    fn unpack(&self, code: &[u8], key: Key, writing: Option<Writing>) -> Result<Package, PackageError> {
        self.tidy().map_err(host(&self.folder))?;
        let mut archive = PackageArchive::open(code, self.bounds)?;
        let module = archive.module()?;
        if !archive.has_assets() {
            return Ok(Package { module, assets: None });
        }
        // Marked as in use before they are looked for, so that a collection does not remove what is found.
        let assets = self.hold(key);
        match assets.folder.is_dir() {
            true => self.charge(&assets, &writing)?,
            false => self.fill(&assets, &mut archive, &writing)?,
        }
        if let Some(Writing { charge, .. }) = writing {
            // If the package is charged already, the new charge is released.
            self.book().charged.entry(assets.key.clone()).or_insert(charge);
        }
        Ok(Package { module, assets: Some(assets) })
    }

    fn hold(&self, key: Key) -> Arc<Assets> {
        let assets = Arc::new(Assets { folder: self.folder.join(key.1.to_string()), key });
        let mut book = self.book();
        book.held.retain(|held| held.strong_count() > 0);
        book.held.push(Arc::downgrade(&assets));
        assets
    }

    /// Charges a namespace for existing assets that it has not been charged for, because it deploys them for
    /// the first time or since the server started.
    fn charge(&self, assets: &Assets, writing: &Option<Writing>) -> Result<(), PackageError> {
        let Some(Writing { charge, .. }) = writing else { return Ok(()) };
        if self.book().charged.contains_key(&assets.key) {
            return Ok(());
        }
        let size = disk_usage::of_folder(&assets.folder).map_err(host(&assets.folder))?.as_u64();
        // Before the first count it is unknown which functions were deployed earlier, and those run whatever
        // the quota is today.
        let counted = self.book().counted;
        match counted {
            true => charge.take(size)?,
            false => charge.add(size),
        }
        Ok(())
    }

    fn fill(
        &self,
        assets: &Assets,
        archive: &mut PackageArchive<'_>,
        disk: &dyn Disk,
    ) -> Result<(), PackageError> {
        let whole = &assets.folder;
        // Concurrent deploys of the same code each fill a directory of their own.
        let half = self.half();
        let made = fs::create_dir(&half)
            .and_then(|()| fs::set_permissions(&half, Permissions::from_mode(0o755)))
            .map_err(host(&half));
        let unpacked = made.and_then(|()| archive.unpack(&half, disk));
        let placed = unpacked.and_then(|()| match place(&half, whole) {
            // Another deploy was faster, with the same content.
            Err(_) if whole.is_dir() => fs::remove_dir_all(&half).map_err(host(&half)),
            other => other.map_err(host(whole)),
        });
        if placed.is_err() {
            let _ = fs::remove_dir_all(&half); // or at the next start
        }
        placed
    }

    fn half(&self) -> PathBuf {
        self.folder.join(format!("{HALF}{}", flint_model::ActivationId::generate()))
    }

    /// Removes the assets of all code that is neither in `keep` nor in use. Namespaces are charged for the
    /// remaining ones from now on. Blocking.
    pub(crate) fn collect(&self, keep: &HashSet<Key>) -> io::Result<()> {
        let removed = match self.folder.is_dir() {
            true => self.tidy().and_then(|()| self.remove_all_but(keep)),
            // No assets were ever unpacked.
            false => Ok(()),
        };
        // The quota is released once the files are gone.
        self.count(keep);
        removed
    }

    fn remove_all_but(&self, keep: &HashSet<Key>) -> io::Result<()> {
        let kept: HashSet<Digest> = keep.iter().map(|(_, digest)| *digest).collect();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let digest: Option<Digest> = name.parse().ok();
            if name.starts_with(HALF) || digest.is_some_and(|digest| kept.contains(&digest)) {
                continue;
            }
            // Renamed first, so that assets are there whole or not at all: a caller that marks them as in use
            // from now on does not find them.
            let dying = self.half();
            {
                let book = self.book();
                if digest.is_some_and(|digest| book.holds().any(|(_, held)| held == digest)) {
                    continue;
                }
                fs::rename(entry.path(), &dying)?;
            }
            fs::remove_dir_all(dying)?;
        }
        Ok(())
    }

    /// Charges each namespace for its assets in `keep`; drops charges for those neither kept nor in use.
    fn count(&self, keep: &HashSet<Key>) {
        let Workshop::Sandboxes(house) = &self.workshop else { return };
        for key in keep {
            let folder = self.folder.join(key.1.to_string());
            if self.book().charged.contains_key(key) || !folder.is_dir() {
                continue;
            }
            match disk_usage::of_folder(&folder) {
                Ok(size) => {
                    let charge = house.charge(&key.0, &address(key));
                    charge.add(size.as_u64());
                    self.book().charged.entry(key.clone()).or_insert(charge);
                }
                Err(error) => {
                    tracing::warn!(folder = %folder.display(), %error, "assets cannot be measured, and are not counted")
                }
            }
        }
        let mut book = self.book();
        let held: HashSet<Key> = book.holds().collect();
        book.charged.retain(|key, _| keep.contains(key) || held.contains(key));
        book.counted = true;
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// The packages in use.
    fn holds(&self) -> impl Iterator<Item = Key> {
        self.held.iter().filter_map(|held| Some(held.upgrade()?.key.clone()))
    }
}

/// Gives a filled directory its name. What is under that name is never looked at again, so its content has to
/// be on disk before: thousands of files, for which one sync of the file system is quicker than one of each. A
/// name that a power cut takes costs unpacking once more.
fn place(half: &Path, whole: &Path) -> io::Result<()> {
    rustix::fs::syncfs(File::open(half)?)?;
    fs::rename(half, whole)
}

/// The name by which the house knows it.
fn address((_, digest): &Key) -> String {
    format!("assets-{digest}")
}

fn host(path: &Path) -> impl FnOnce(io::Error) -> PackageError + use<> {
    let path = path.to_owned();
    move |cause| PackageError::Host { path, cause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_placed_whole_and_only_once() {
        let folder = tempfile::tempdir().unwrap();
        let [half, whole] = ["half", "whole"].map(|name| folder.path().join(name));
        assert!(place(&half, &whole).is_err(), "there is nothing to make durable");
        for attempt in [true, false] {
            fs::create_dir(&half).unwrap();
            fs::write(half.join("asset"), "content").unwrap();
            assert_eq!(place(&half, &whole).is_ok(), attempt);
            assert_eq!(fs::read(whole.join("asset")).unwrap(), b"content");
        }
    }
}
