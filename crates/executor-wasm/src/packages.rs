//! Code that comes as an archive: its module, and its assets on disk under the code's digest.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, Permissions},
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

/// What a zip archive begins with.
const ZIP: &[u8] = b"PK\x03\x04";
const GZIP: &[u8] = b"\x1f\x8b";
/// Folders that are being filled or removed; what a crash leaves of them goes at the next start.
const HALF: &str = ".building-";

/// Whose package it is, and which.
type Key = (NamespaceName, Digest);

/// The folder of unpacked assets.
pub(crate) struct Packages {
    folder: PathBuf,
    bounds: PackageBounds,
    workshop: Workshop,
    /// Whether the folder is there, without what a crash has left.
    is_tidy: Mutex<bool>,
    book: Mutex<Book>,
}

/// Who has what.
#[derive(Default)]
struct Book {
    held: Vec<Weak<Assets>>,
    /// What a namespace takes of the disk with each of its packages. A folder counts in full for all who have deployed the same.
    charged: HashMap<Key, Charge>,
    /// Whether the functions that earlier lives of the server have left were counted.
    counted: bool,
}

/// Unpacked assets. A collection leaves them alone while somebody has this.
#[derive(Debug)]
pub(crate) struct Assets {
    /// Where they are.
    pub(crate) folder: PathBuf,
    key: Key,
}

/// Code as it came, without what it came in.
#[derive(Debug)]
pub(crate) struct Package {
    /// The module or component.
    pub(crate) module: Bytes,
    /// Its assets, if it has some.
    pub(crate) assets: Option<Arc<Assets>>,
}

/// The right to unpack an archive, and what that takes of the disk.
struct Writing {
    turn: Unpacking,
    charge: Charge,
}

/// Without a house nobody else has the disk.
impl Disk for Option<Writing> {
    fn take(&self, bytes: u64) -> Result<(), PrepareError> {
        self.as_ref().map_or(Ok(()), |writing| writing.charge.take(bytes))
    }

    fn go_on(&self) -> Result<(), PrepareError> {
        self.as_ref().map_or(Ok(()), |writing| writing.turn.go_on())
    }
}

impl Packages {
    /// Nothing is done in the folder before it is needed.
    pub(crate) fn new(folder: PathBuf, largest_module: ByteSize, workshop: Workshop) -> Self {
        let bounds = PackageBounds { module: largest_module, ..PackageBounds::default() };
        Self { folder, bounds, workshop, is_tidy: Mutex::default(), book: Mutex::default() }
    }

    /// Makes the folder, and clears away what is half done. Does nothing the second time.
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

    /// The module, out of its archive where it is in one.
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
        // It goes on when whoever waits for it goes away, and so does its turn.
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
        // Before they are looked for, so that what is found stays.
        let assets = self.hold(key);
        match assets.folder.is_dir() {
            true => self.charge(&assets, &writing)?,
            false => self.fill(&assets, &mut archive, &writing)?,
        }
        if let Some(Writing { charge, .. }) = writing {
            // One that was charged already is given back.
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

    /// Takes what is there already for a namespace that has not deployed it yet, or did so in an earlier life of the server.
    fn charge(&self, assets: &Assets, writing: &Option<Writing>) -> Result<(), PackageError> {
        let Some(Writing { charge, .. }) = writing else { return Ok(()) };
        if self.book().charged.contains_key(&assets.key) {
            return Ok(());
        }
        let size = disk_usage::of_folder(&assets.folder).map_err(host(&assets.folder))?.as_u64();
        // Before the count nobody knows what was deployed long ago, and that runs on whatever the bound is today.
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
        // Of several that unpack the same code at the same time each fills a folder of its own.
        let half = self.half();
        let made = fs::create_dir(&half)
            .and_then(|()| fs::set_permissions(&half, Permissions::from_mode(0o755)))
            .map_err(host(&half));
        let unpacked = made.and_then(|()| archive.unpack(&half, disk));
        let placed = unpacked.and_then(|()| match fs::rename(&half, whole) {
            // Somebody else was quicker, with the same content.
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

    /// Removes the assets of other code than `keep` and what somebody holds; these are what namespaces are charged with from now on. Blocking.
    pub(crate) fn collect(&self, keep: &HashSet<Key>) -> io::Result<()> {
        let removed = match self.folder.is_dir() {
            true => self.tidy().and_then(|()| self.remove_all_but(keep)),
            // Nobody has ever unpacked any.
            false => Ok(()),
        };
        // Given back once it is gone.
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
            // Out of the way first: assets are there whole or not at all. Whoever holds them from now on finds none.
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

    /// Charges each namespace with what is kept for it.
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
    /// What somebody holds at this moment.
    fn holds(&self) -> impl Iterator<Item = Key> {
        self.held.iter().filter_map(|held| Some(held.upgrade()?.key.clone()))
    }
}

/// What the house knows them by.
fn address((_, digest): &Key) -> String {
    format!("assets-{digest}")
}

fn host(path: &Path) -> impl FnOnce(io::Error) -> PackageError + use<> {
    let path = path.to_owned();
    move |cause| PackageError::Host { path, cause }
}
