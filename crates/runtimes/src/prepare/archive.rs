//! Unpacks zip and tar archives, entry by entry.

use std::{
    cell::Cell,
    io::{self, Read},
    path::Path,
};

use flate2::read::MultiGzDecoder;
use flint_executor::{PrepareError, ZipRefused, open_untrusted_zip};

use super::{
    room::Room,
    tree::{Tree, Unpacked, bad, shown},
};
use crate::config::UnpackLimits;

const TYPE: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
/// Longest target of a link, as of a name.
const LONGEST_TARGET: u64 = 1024;
/// Most bytes between two entries of a tar archive: long names, extensions, the map of a sparse file. The tar
/// reader keeps all of them in memory.
const BETWEEN_ENTRIES: u64 = 1 << 20;

/// Unpacks a zip archive into `root`, an empty directory.
pub(super) fn zip(
    code: &[u8],
    root: &Path,
    limits: UnpackLimits,
    room: &Room,
) -> Result<Unpacked, PrepareError> {
    let refused = |error: ZipRefused| match error {
        ZipRefused::TooManyEntries(_) => bad(error.to_string()),
        ZipRefused::Damaged(_) => bad(format!("the code is not a zip archive that can be read: {error}")),
    };
    let mut archive = open_untrusted_zip(code, limits.entries).map_err(refused)?;
    if let Some(said) = entries_said(code)
        && said != archive.len()
    {
        return Err(bad(format!(
            "the zip archive lists {said} entries of which {} have names of their own: some are there twice",
            archive.len()
        )));
    }
    let mut tree = Tree::new(root, limits, room);
    for index in 0..archive.len() {
        let raw = archive.by_index_raw(index).map_err(|error| refused(error.into()))?;
        let name = raw.name_raw().to_vec();
        if raw.encrypted() {
            let name = shown(&name);
            return Err(bad(format!(
                "the zip archive's entry '{name}' is encrypted: pack it without a password"
            )));
        }
        drop(raw);
        let mut entry = archive.by_index(index).map_err(|error| refused(error.into()))?;
        let mode = entry.unix_mode().unwrap_or_default();
        match mode & TYPE {
            _ if name.ends_with(b"/") => tree.directory(&name)?,
            DIRECTORY => tree.directory(&name)?,
            LINK => {
                let mut target = Vec::new();
                let read = (&mut entry).take(LONGEST_TARGET).read_to_end(&mut target);
                read.map_err(|error| bad(format!("the zip archive is damaged: {error}")))?;
                tree.link(&name, &target)?;
            }
            0 | REGULAR => tree.file(&name, mode & 0o111 != 0, &mut entry)?,
            _ => return Err(special(&name)),
        }
    }
    tree.finish()
}

/// Unpacks a gzip-compressed tar archive into `root`, an empty directory.
pub(super) fn tar_gz(
    code: &[u8],
    root: &Path,
    limits: UnpackLimits,
    room: &Room,
) -> Result<Unpacked, PrepareError> {
    let damaged =
        |error: std::io::Error| bad(format!("the code is not a tar.gz archive that can be read: {error}"));
    let left = Cell::new(0);
    let mut archive = tar::Archive::new(Bounded { inner: MultiGzDecoder::new(code), left: &left });
    let mut tree = Tree::new(root, limits, room);
    let mut entries = archive.entries().map_err(damaged)?;
    loop {
        left.set(BETWEEN_ENTRIES);
        let Some(entry) = entries.next() else { break };
        let mut entry = entry.map_err(damaged)?;
        // `Tree` limits a file's content itself.
        left.set(u64::MAX);
        let name = entry.path_bytes().into_owned();
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            tree.directory(&name)?;
        } else if kind.is_symlink() {
            let mut target = entry.link_name_bytes().unwrap_or_default().into_owned();
            target.truncate(LONGEST_TARGET as usize);
            tree.link(&name, &target)?;
        } else if kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() {
            let executable = entry.header().mode().is_ok_and(|mode| mode & 0o111 != 0);
            tree.file(&name, executable, &mut entry)?;
        } else if kind.is_pax_global_extensions() || kind.is_pax_local_extensions() {
            tree.count()?;
        } else {
            return Err(special(&name));
        }
    }
    tree.finish()
}

/// Fails when more is read than `left` allows at that moment: a small archive can unpack to any size.
struct Bounded<'a, R> {
    inner: R,
    left: &'a Cell<u64>,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left.get()).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 && !buffer.is_empty() {
            return Err(io::Error::other(format!(
                "more than {BETWEEN_ENTRIES} bytes of names and extensions in one place"
            )));
        }
        let read = self.inner.read(&mut buffer[..most])?;
        self.left.set(self.left.get() - read as u64);
        Ok(read)
    }
}

fn special(name: &[u8]) -> PrepareError {
    let name = shown(name);
    bad(format!(
        "the archive's entry '{name}' is neither a file nor a folder nor a symbolic link: leave it out"
    ))
}

/// The number of entries that the end of a zip archive declares. The zip reader merges entries of the same
/// name.
fn entries_said(code: &[u8]) -> Option<usize> {
    const END: [u8; 4] = *b"PK\x05\x06";
    let end = code.windows(4).rposition(|window| window == END)?;
    let count = code.get(end + 10..end + 12)?;
    let count = u16::from_le_bytes([count[0], count[1]]);
    // All ones means that the number is in the zip64 record.
    (count != u16::MAX).then_some(usize::from(count))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::{Cursor, Write},
    };

    use flint_model::ByteSize;
    use zip::write::{SimpleFileOptions, ZipWriter};

    use super::*;

    fn zipped(fill: impl FnOnce(&mut ZipWriter<Cursor<Vec<u8>>>)) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        fill(&mut writer);
        writer.finish().unwrap().into_inner()
    }

    fn any_room() -> Room {
        Room::new(Path::new("/"), Some(ByteSize::bytes(0)))
    }

    fn unzip(code: &[u8]) -> Result<tempfile::TempDir, String> {
        let root = tempfile::tempdir().unwrap();
        zip(code, root.path(), UnpackLimits::default(), &any_room()).map_err(|error| error.to_string())?;
        Ok(root)
    }

    #[test]
    fn a_zip_is_unpacked_with_modes_and_links() {
        let code = zipped(|writer| {
            writer.start_file("exec", SimpleFileOptions::default().unix_permissions(0o755)).unwrap();
            writer.write_all(b"#!/bin/sh\n").unwrap();
            writer.add_symlink("run", "exec", SimpleFileOptions::default()).unwrap();
        });
        let root = unzip(&code).unwrap();
        assert_eq!(fs::read(root.path().join("run")).unwrap(), b"#!/bin/sh\n");
    }

    #[test]
    fn hostile_zips_are_refused_with_the_reason() {
        let refuse = |reason: &str, code: &[u8]| {
            let error = unzip(code).unwrap_err();
            assert!(error.contains(reason), "{error}");
        };
        let plain = SimpleFileOptions::default();
        refuse("leads out", &zipped(|writer| writer.start_file("../x", plain).unwrap()));
        refuse("leads out", &zipped(|writer| writer.add_symlink("x", "/etc/shadow", plain).unwrap()));
        refuse("contains no file", &zipped(|_| {}));
        refuse("not a zip archive", b"PK\x03\x04 and nothing more");
        let mut twice = zipped(|writer| {
            writer.start_file("main.py", plain).unwrap();
            writer.start_file("name.py", plain).unwrap();
        });
        // No writer makes such an archive: the second name is changed wherever it stands.
        while let Some(at) = twice.windows(7).position(|window| window == b"name.py") {
            twice[at..at + 7].copy_from_slice(b"main.py");
        }
        refuse("twice", &twice);
        let bomb = zipped(|writer| {
            writer.start_file("zeros", plain.compression_method(zip::CompressionMethod::Deflated)).unwrap();
            let zeros = vec![0; 1 << 20];
            (0..3).for_each(|_| writer.write_all(&zeros).unwrap());
        });
        let root = tempfile::tempdir().unwrap();
        let limits = UnpackLimits { entries: 1, ..Default::default() };
        let error = zip(b"PK\x01\x02PK\x01\x02", root.path(), limits, &any_room()).unwrap_err().to_string();
        assert!(error.contains("the archive has more than the 1 entries allowed"), "{error}");
        assert!(!error.contains("can be read"), "{error}");
        let limits = UnpackLimits { bytes: ByteSize::mib(2), ..Default::default() };
        assert!(
            zip(&bomb, root.path(), limits, &any_room())
                .unwrap_err()
                .to_string()
                .contains("unpacks to more than the 2 MB")
        );
    }

    #[test]
    fn a_tar_gz_is_unpacked_and_devices_are_not() {
        let packed = |kind: tar::EntryType| {
            let mut builder =
                tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), Default::default()));
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(0);
            header.set_mode(0o644);
            builder.append_data(&mut header, "main.py", &b""[..]).unwrap();
            builder.into_inner().unwrap().finish().unwrap()
        };
        let root = tempfile::tempdir().unwrap();
        tar_gz(&packed(tar::EntryType::Regular), root.path(), UnpackLimits::default(), &any_room()).unwrap();
        assert!(root.path().join("main.py").is_file());
        let root = tempfile::tempdir().unwrap();
        for kind in [tar::EntryType::Char, tar::EntryType::Fifo, tar::EntryType::Link] {
            let error = tar_gz(&packed(kind), root.path(), UnpackLimits::default(), &any_room())
                .unwrap_err()
                .to_string();
            assert!(error.contains("neither a file"), "{error}");
        }
        assert!(tar_gz(b"\x1f\x8b rubbish", root.path(), UnpackLimits::default(), &any_room()).is_err());
    }

    #[test]
    fn extensions_count_as_entries() {
        let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), Default::default()));
        for _ in 0..9 {
            let mut header = tar::Header::new_ustar();
            header.set_entry_type(tar::EntryType::XGlobalHeader);
            header.set_size(0);
            header.set_cksum();
            builder.append(&header, &b""[..]).unwrap();
        }
        let code = builder.into_inner().unwrap().finish().unwrap();
        let root = tempfile::tempdir().unwrap();
        let limits = UnpackLimits { entries: 8, ..Default::default() };
        let error = tar_gz(&code, root.path(), limits, &any_room()).unwrap_err().to_string();
        assert!(error.contains("more than the 8 entries"), "{error}");
    }

    #[test]
    fn a_long_name_in_a_tar_gz_is_taken_and_an_endless_one_is_not() {
        let packed = |length: usize| {
            let mut builder =
                tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), Default::default()));
            for (kind, name, content) in [
                (tar::EntryType::GNULongName, "long", vec![b'x'; length]),
                (tar::EntryType::Regular, "short", Vec::new()),
            ] {
                let mut header = tar::Header::new_gnu();
                header.set_entry_type(kind);
                header.set_path(name).unwrap();
                header.set_size(content.len() as u64);
                header.set_mode(0o644);
                header.set_cksum();
                builder.append(&header, &content[..]).unwrap();
            }
            builder.into_inner().unwrap().finish().unwrap()
        };
        let unpack = |length: usize| {
            let root = tempfile::tempdir().unwrap();
            tar_gz(&packed(length), root.path(), UnpackLimits::default(), &any_room())
                .map_err(|error| error.to_string())
        };
        assert_eq!(unpack(200).unwrap().files, 1);
        let longer = unpack(100_000).unwrap_err();
        assert!(longer.contains("longer than") && longer.len() < 4096, "{longer}");
        let endless = unpack(64 << 20).unwrap_err();
        assert!(endless.contains("names and extensions"), "{endless}");
    }
}
