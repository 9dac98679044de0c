//! Code that comes as an archive: its module, and its assets on disk under the code's digest.

use std::{
    collections::HashSet,
    fs::{self, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use flint_executor::{FunctionSource, PrepareError, Progress};
use flint_model::{ByteSize, Digest};

use crate::{
    host::{self, PackageBounds, PackageError, UnpackedPackage},
    workshop::Workshop,
};

/// What a zip archive begins with.
const ZIP: &[u8] = b"PK\x03\x04";
const GZIP: &[u8] = b"\x1f\x8b";
/// Folders that are being filled; what a crash leaves of them goes at the next start.
const HALF: &str = ".building-";

/// The folder of unpacked assets.
pub(crate) struct Packages {
    folder: PathBuf,
    bounds: PackageBounds,
}

/// Code as it came, without what it came in.
#[derive(Debug)]
pub(crate) struct Package {
    /// The module or component.
    pub(crate) module: Bytes,
    /// Where its assets are, if it has some.
    pub(crate) assets: Option<PathBuf>,
}

impl Packages {
    /// Opens the folder, and clears away what is half done.
    pub(crate) fn open(folder: PathBuf, largest_module: ByteSize) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(HALF) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        let bounds = PackageBounds { module: largest_module, ..PackageBounds::default() };
        Ok(Self { folder, bounds })
    }

    /// The module, out of its archive where it is in one.
    pub(crate) async fn module(
        &self,
        source: &FunctionSource,
        workshop: &Workshop,
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
        let (folder, digest, bounds) = (self.folder.clone(), source.function.code.digest, self.bounds);
        let turn = match workshop {
            Workshop::Sandboxes(house) => {
                Some(house.unpacking(&source.function.path.namespace, progress).await?)
            }
            Workshop::Here => None,
        };
        let unpacking = tokio::task::spawn_blocking(move || {
            // It goes on when whoever waits for it goes away, and so does its turn.
            let _turn = turn;
            unpack(&code, &folder, digest, &bounds)
        });
        let failed =
            |detail: String| PrepareError::Failed { operation: "unpacking the code".to_owned(), detail };
        match unpacking.await {
            Ok(Ok(package)) => Ok(package),
            Ok(Err(PackageError::Archive(why))) => Err(PrepareError::Code(why)),
            Ok(Err(error @ PackageError::Host { .. })) => Err(failed(error.to_string())),
            Err(died) => Err(failed(died.to_string())),
        }
    }

    /// Removes the assets of other code than `keep`.
    pub(crate) fn collect(&self, keep: &HashSet<Digest>) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let kept = name.parse().is_ok_and(|digest| keep.contains(&digest));
            if !kept && !name.starts_with(HALF) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }
}

fn unpack(
    code: &[u8],
    folder: &Path,
    digest: Digest,
    bounds: &PackageBounds,
) -> Result<Package, PackageError> {
    let host = |path: &Path| {
        let path = path.to_owned();
        move |cause| PackageError::Host { path, cause }
    };
    let whole = folder.join(digest.to_string());
    // Of several that unpack the same code at the same time each fills a folder of its own.
    let half = folder.join(format!("{HALF}{}", flint_model::ActivationId::generate()));
    let made = fs::create_dir(&half).and_then(|()| fs::set_permissions(&half, Permissions::from_mode(0o755)));
    made.map_err(host(&half))?;
    let unpacked = host::unpack(code, &half, bounds);
    let UnpackedPackage { module, assets } = match unpacked {
        Ok(package) => package,
        Err(error) => {
            let _ = fs::remove_dir_all(&half); // or at the next start
            return Err(error);
        }
    };
    let placed =
        if assets > 0 && !whole.exists() { fs::rename(&half, &whole) } else { fs::remove_dir_all(&half) };
    match placed {
        // Somebody else was quicker, with the same content.
        Err(_) if assets > 0 && whole.exists() => {
            let _ = fs::remove_dir_all(&half);
        }
        other => other.map_err(host(&whole))?,
    }
    Ok(Package { module, assets: (assets > 0).then_some(whole) })
}
