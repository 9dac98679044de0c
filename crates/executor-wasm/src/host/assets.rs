//! A function that comes as an archive: one module or component, and files that it may read.

use std::{
    fs::{self, File, Permissions},
    io::{self, Cursor, Read},
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
};

use bytes::Bytes;
use flint_executor::zip_lists_at_most;
use flint_model::ByteSize;
use zip::ZipArchive;

/// Where a guest sees its files, and the folder of the archive that they come from.
pub const ASSETS: &str = "/assets";
const FOLDER: &str = "assets";
/// The longest name of an entry, and of a folder or file in it, which is Linux's.
const LONGEST_NAME: usize = 1024;
const LONGEST_PART: usize = 255;
/// The module's usual name in an archive, for when there are several.
const USUAL: &str = "function.wasm";

/// Bounds on an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackageBounds {
    /// The module's size.
    pub module: ByteSize,
    /// The size of all assets, unpacked.
    pub assets: ByteSize,
    /// Entries.
    pub entries: usize,
}

impl Default for PackageBounds {
    fn default() -> Self {
        Self { module: ByteSize::mib(64), assets: ByteSize::mib(256), entries: 10_000 }
    }
}

/// What an archive contains.
#[derive(Debug)]
pub struct UnpackedPackage {
    /// The module or component.
    pub module: Bytes,
    /// How many files were unpacked.
    pub assets: usize,
}

/// Why an archive is refused.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// It is not what it should be.
    #[error("{0}")]
    Archive(String),
    /// The host failed.
    #[error("writing {path}: {cause}", path = path.display())]
    Host {
        /// What was being written.
        path: PathBuf,
        /// Why it was not.
        cause: io::Error,
    },
}

fn bad(text: impl Into<String>) -> PackageError {
    PackageError::Archive(text.into())
}

/// Reads the module out of a zip archive and unpacks its `assets/` into `folder`, which must be there and empty. Only plain files
/// and folders are made, never links; nothing outside `folder`. Everything else in the archive is left alone. Blocking.
pub fn unpack(code: &[u8], folder: &Path, bounds: &PackageBounds) -> Result<UnpackedPackage, PackageError> {
    let damaged = |error: zip::result::ZipError| {
        bad(format!("the code is not a zip archive that can be read: {error}"))
    };
    if !zip_lists_at_most(code, bounds.entries) {
        return Err(bad(format!(
            "the archive has more than the {} entries allowed, with those of archives that are stored in it as they are",
            bounds.entries
        )));
    }
    let mut archive = ZipArchive::new(Cursor::new(code)).map_err(damaged)?;
    let (mut modules, mut left, mut assets) = (Vec::new(), bounds.assets.as_u64(), 0);
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(damaged)?;
        let name = entry.name().to_owned();
        let Some(path) = entry.enclosed_name() else {
            return Err(bad(format!("the archive's entry '{name}' leads out of it")));
        };
        if entry.is_dir() || entry.is_symlink() {
            continue;
        }
        if path.starts_with(FOLDER) {
            fits(&name)?;
            let inner: PathBuf =
                path.components().skip(1).filter(|part| matches!(part, Component::Normal(_))).collect();
            left -= write(&mut entry, &folder.join(inner), left, &name, bounds)?;
            assets += 1;
        } else if path.components().count() == 1
            && path.extension().is_some_and(|extension| extension == "wasm")
        {
            modules.push((index, name));
        }
    }
    let chosen = match modules.as_slice() {
        [] => {
            return Err(bad(
                "the archive has no .wasm file at its top: put the module there, and its files into assets/",
            ));
        }
        [(index, _)] => *index,
        several => match several.iter().find(|(_, name)| name == USUAL) {
            Some((index, _)) => *index,
            None => {
                let names: Vec<&str> = several.iter().map(|(_, name)| name.as_str()).collect();
                return Err(bad(format!(
                    "the archive has several modules ({}): name the one to run {USUAL}",
                    names.join(", ")
                )));
            }
        },
    };
    let mut module = Vec::new();
    let most = bounds.module.as_u64();
    let entry = archive.by_index(chosen).map_err(damaged)?;
    let read = entry.take(most + 1).read_to_end(&mut module);
    read.map_err(|error| bad(format!("the archive is damaged: {error}")))?;
    match module.len() as u64 > most {
        true => Err(bad(format!("the module in the archive has more than the {} allowed", bounds.module))),
        false => Ok(UnpackedPackage { module: module.into(), assets }),
    }
}

/// Its name, and each part of it, can be a file's.
fn fits(name: &str) -> Result<(), PackageError> {
    if name.len() <= LONGEST_NAME && name.split('/').all(|part| part.len() <= LONGEST_PART) {
        return Ok(());
    }
    let shown: String = name.chars().take(40).collect();
    Err(bad(format!(
        "the archive's entry '{shown}…' has too long a name: {LONGEST_NAME} bytes are allowed, and {LONGEST_PART} for each folder and file in it"
    )))
}

/// Writes one file, of at most `left` bytes, and says how many it has.
fn write(
    entry: &mut impl Read,
    path: &Path,
    left: u64,
    name: &str,
    bounds: &PackageBounds,
) -> Result<u64, PackageError> {
    // A path that is a file and a folder at once, or there before, is the archive's fault.
    let host = |cause: io::Error| match cause.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => {
            bad(format!("the archive's entry '{name}' is there twice"))
        }
        _ => PackageError::Host { path: path.to_owned(), cause },
    };
    if let Some(parent) = path.parent() {
        readable_folder(parent).map_err(host)?;
    }
    let mut file = File::create_new(path).map_err(host)?;
    file.set_permissions(Permissions::from_mode(0o644)).map_err(host)?;
    let mut entry = entry.take(left + 1);
    let mut buffer = vec![0; 64 << 10];
    let mut size = 0;
    loop {
        let read = entry
            .read(&mut buffer)
            .map_err(|error| bad(format!("the archive is damaged at '{name}': {error}")))?;
        if read == 0 {
            return Ok(size);
        }
        size += read as u64;
        if size > left {
            return Err(bad(format!(
                "the archive's assets unpack to more than the {} allowed",
                bounds.assets
            )));
        }
        io::Write::write_all(&mut file, &buffer[..read]).map_err(host)?;
    }
}

/// Makes a folder with those above it, whatever the umask is: initialisers read assets as a user of their own.
fn readable_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        readable_folder(parent)?;
    }
    fs::create_dir(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::write::{SimpleFileOptions, ZipWriter};

    use super::*;

    fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in files {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(content).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn unpacked(code: &[u8], bounds: PackageBounds) -> Result<(UnpackedPackage, tempfile::TempDir), String> {
        let folder = tempfile::tempdir().unwrap();
        let package = unpack(code, folder.path(), &bounds).map_err(|error| error.to_string())?;
        Ok((package, folder))
    }

    #[test]
    fn the_module_is_read_and_its_assets_are_unpacked() {
        let code = zipped(&[
            ("a.wasm", b"\0asm"),
            ("assets/x/y.txt", b"hi"),
            ("assets/a.wasm", b"no"),
            ("README", b""),
        ]);
        let (package, folder) = unpacked(&code, PackageBounds::default()).unwrap();
        assert_eq!((&package.module[..], package.assets), (&b"\0asm"[..], 2));
        assert_eq!(fs::read(folder.path().join("x/y.txt")).unwrap(), b"hi");
        assert!(!folder.path().join("README").exists());
        let (package, _folder) =
            unpacked(&zipped(&[("a.wasm", b"a"), (USUAL, b"f")]), PackageBounds::default()).unwrap();
        assert_eq!(&package.module[..], b"f");
    }

    #[test]
    fn hostile_archives_are_refused_with_the_reason() {
        let small = PackageBounds { module: ByteSize::bytes(4), assets: ByteSize::bytes(4), entries: 3 };
        let refuse = |code: &[u8], why: &str| {
            let error = unpacked(code, small).unwrap_err();
            assert!(error.contains(why), "{error}");
        };
        refuse(b"PK\x03\x04", "not a zip archive");
        refuse(&zipped(&[("assets/x", b"")]), "no .wasm file");
        refuse(&zipped(&[("a.wasm", b""), ("b.wasm", b"")]), "several modules (a.wasm, b.wasm)");
        refuse(&zipped(&[("../a.wasm", b"")]), "leads out");
        refuse(&zipped(&[("/etc/x", b"")]), "leads out");
        refuse(&zipped(&[("a.wasm", b"12345")]), "more than the 4 B allowed");
        refuse(
            &zipped(&[("assets/a", b"123"), ("assets/b", b"12"), ("a.wasm", b"")]),
            "unpack to more than the 4 B",
        );
        refuse(
            &zipped(&[("assets/a", b""), ("assets/a/b", b""), ("a.wasm", b"")]),
            "'assets/a/b' is there twice",
        );
        let (long, deep) =
            (format!("assets/{}", "x".repeat(300)), format!("assets/{}y", "x/".repeat(30_000)));
        for name in [&long, &deep] {
            refuse(&zipped(&[(name, b""), ("a.wasm", b"")]), "too long a name");
        }
        refuse(&zipped(&[("a", b""), ("b", b""), ("c", b""), ("d", b"")]), "more than the 3 entries");
    }
}
