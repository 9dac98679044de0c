//! Reads functions that come as an archive: a module or component, and files that it may read.

mod tree;

use std::{
    io::{self, Read},
    path::{Component, Path, PathBuf},
};

use bytes::Bytes;
use flint_executor::{PrepareError, UntrustedZip, ZipRefused, open_untrusted_zip};
use flint_model::ByteSize;

pub use self::tree::Disk;
use self::tree::Tree;
use crate::cut::cut;

/// Where a guest sees its files, named like their directory in the archive.
pub const ASSETS: &str = "/assets";
const FOLDER: &str = "assets";
/// Longest name of an entry, and of each part of it (Linux's NAME_MAX).
const LONGEST_NAME: usize = 1024;
const LONGEST_PART: usize = 255;
/// The name of the module to run, if an archive has several.
const USUAL: &str = "function.wasm";

/// Limits on an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackageBounds {
    /// Size of the module.
    pub module: ByteSize,
    /// Total size of all assets, unpacked.
    pub assets: ByteSize,
    /// Number of entries, and of the files and directories made from them.
    pub entries: usize,
}

impl Default for PackageBounds {
    fn default() -> Self {
        Self { module: ByteSize::mib(64), assets: ByteSize::mib(256), entries: 10_000 }
    }
}

/// Why an archive is refused.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// It is invalid.
    #[error("{0}")]
    Archive(String),
    /// It would exceed the quota, or the disk is nearly full.
    #[error(transparent)]
    Disk(#[from] PrepareError),
    /// The host failed.
    #[error("writing {path}: {cause}", path = path.display())]
    Host {
        /// What was being written.
        path: PathBuf,
        /// Why it could not be written.
        cause: io::Error,
    },
}

fn bad(text: impl Into<String>) -> PackageError {
    PackageError::Archive(text.into())
}

fn refused(error: impl Into<ZipRefused>) -> PackageError {
    match error.into() {
        error @ ZipRefused::TooManyEntries(_) => bad(error.to_string()),
        ZipRefused::Damaged(error) => bad(format!("the code is not a zip archive that can be read: {error}")),
    }
}

/// A zip archive whose entries have been listed. Everything but its modules and the directory `assets/` is
/// ignored.
pub struct PackageArchive<'a> {
    archive: UntrustedZip<'a>,
    bounds: PackageBounds,
    modules: Vec<(usize, String)>,
    /// The index in the archive and the path below `assets/` of each file.
    assets: Vec<(usize, PathBuf)>,
}

impl<'a> PackageArchive<'a> {
    /// Lists the entries. Blocking, like the other methods.
    pub fn open(code: &'a [u8], bounds: PackageBounds) -> Result<Self, PackageError> {
        let mut archive = open_untrusted_zip(code, bounds.entries).map_err(refused)?;
        let (mut modules, mut assets) = (Vec::new(), Vec::new());
        for index in 0..archive.len() {
            let entry = archive.by_index(index).map_err(refused)?;
            let name = entry.name().to_owned();
            let Some(path) = entry.enclosed_name() else {
                return Err(bad(format!("the archive's entry '{}' leads out of it", cut(name))));
            };
            if entry.is_dir() || entry.is_symlink() {
                continue;
            }
            if path.starts_with(FOLDER) {
                fits(&name)?;
                let path =
                    path.components().skip(1).filter(|part| matches!(part, Component::Normal(_))).collect();
                assets.push((index, path));
            } else if path.components().count() == 1
                && path.extension().is_some_and(|extension| extension == "wasm")
            {
                modules.push((index, name));
            }
        }
        Ok(Self { archive, bounds, modules, assets })
    }

    /// Reads the module or component.
    pub fn module(&mut self) -> Result<Bytes, PackageError> {
        let chosen = match self.modules.as_slice() {
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
                        cut(names.join(", "))
                    )));
                }
            },
        };
        let mut module = Vec::new();
        let most = self.bounds.module.as_u64();
        let entry = self.archive.by_index(chosen).map_err(refused)?;
        let read = entry.take(most + 1).read_to_end(&mut module);
        read.map_err(|error| bad(format!("the archive is damaged: {error}")))?;
        match module.len() as u64 > most {
            true => Err(bad(format!(
                "the module in the archive has more than the {} allowed",
                self.bounds.module
            ))),
            false => Ok(module.into()),
        }
    }

    /// Whether there are assets to unpack.
    pub fn has_assets(&self) -> bool {
        !self.assets.is_empty()
    }

    /// Unpacks the assets into `folder`, which must exist and be empty. Makes only regular files and
    /// directories, no links, and nothing outside `folder`.
    pub fn unpack(&mut self, folder: &Path, disk: &dyn Disk) -> Result<(), PackageError> {
        let mut tree = Tree::new(self.bounds, disk)?;
        for (index, path) in &self.assets {
            let mut entry = self.archive.by_index(*index).map_err(refused)?;
            let name = entry.name().to_owned();
            tree.file(&mut entry, &folder.join(path), &name)?;
        }
        Ok(())
    }
}

/// Checks that the name and each part of it are valid as file names.
fn fits(name: &str) -> Result<(), PackageError> {
    if name.len() <= LONGEST_NAME && name.split('/').all(|part| part.len() <= LONGEST_PART) {
        return Ok(());
    }
    let shown: String = name.chars().take(40).collect();
    Err(bad(format!(
        "the archive's entry '{shown}…' has too long a name: {LONGEST_NAME} bytes are allowed, and {LONGEST_PART} for each folder and file in it"
    )))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::{Cursor, Write},
    };

    use zip::write::{SimpleFileOptions, ZipWriter};

    use super::*;

    /// A disk without limits.
    struct Ample;

    impl Disk for Ample {
        fn take(&self, _: u64) -> Result<(), PrepareError> {
            Ok(())
        }

        fn go_on(&self) -> Result<(), PrepareError> {
            Ok(())
        }
    }

    fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in files {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(content).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn unpacked(code: &[u8], bounds: PackageBounds) -> Result<(Bytes, tempfile::TempDir), String> {
        let folder = tempfile::tempdir().unwrap();
        let unpack = || {
            let mut archive = PackageArchive::open(code, bounds)?;
            let module = archive.module()?;
            archive.unpack(folder.path(), &Ample)?;
            Ok(module)
        };
        let module = unpack().map_err(|error: PackageError| error.to_string())?;
        Ok((module, folder))
    }

    #[test]
    fn the_module_is_read_and_its_assets_are_unpacked() {
        let code = zipped(&[
            ("a.wasm", b"\0asm"),
            ("assets/x/y.txt", b"hi"),
            ("assets/a.wasm", b"no"),
            ("README", b""),
        ]);
        let (module, folder) = unpacked(&code, PackageBounds::default()).unwrap();
        assert_eq!(&module[..], b"\0asm");
        assert_eq!(fs::read(folder.path().join("x/y.txt")).unwrap(), b"hi");
        assert_eq!(fs::read(folder.path().join("a.wasm")).unwrap(), b"no");
        assert!(!folder.path().join("README").exists());
        let modules = zipped(&[("a.wasm", b"a"), (USUAL, b"f")]);
        assert!(!PackageArchive::open(&modules, PackageBounds::default()).unwrap().has_assets());
        let (module, _folder) = unpacked(&modules, PackageBounds::default()).unwrap();
        assert_eq!(&module[..], b"f");
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
        let [one, other] = ["x", "y"].map(|letter| format!("{}.wasm", letter.repeat(60_000)));
        let told = unpacked(&zipped(&[(&one, b""), (&other, b"")]), small).unwrap_err();
        assert!(told.contains("several modules (xxx") && told.len() < 6000, "{} bytes", told.len());
        let outside = format!("../{}", "x".repeat(60_000));
        let told = unpacked(&zipped(&[(&outside, b"")]), small).unwrap_err();
        assert!(told.contains("leads out") && told.len() < 6000, "{} bytes", told.len());
        refuse(&zipped(&[("a", b""), ("b", b""), ("c", b""), ("d", b"")]), "more than the 3 entries");
        refuse(&zipped(&[("assets/a/b/c/d", b""), ("a.wasm", b"")]), "more than the 3 files and folders");
    }
}
