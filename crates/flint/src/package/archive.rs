//! Packs a directory as a reproducible zip archive: it depends only on names, contents, links and the
//! executable bit.

use std::{io::Cursor, io::Write, path::Path};

use zip::{CompressionMethod, DateTime, ZipWriter, write::SimpleFileOptions};

use super::contents::{self, Contents, LARGEST, What};
use crate::failure::Failure;

/// Packs `contents`. The same contents give the same bytes, whenever and wherever they are packed.
pub(crate) fn zip(directory: &Path, contents: &Contents) -> Result<Vec<u8>, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::local(format!("cannot pack {}: {error}", directory.display()))
    };
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = |mode: u32| {
        SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::default())
            .unix_permissions(mode)
    };
    let mut total = 0;
    for entry in &contents.entries {
        match &entry.what {
            What::Directory => {
                writer.add_directory(&entry.name, options(0o755)).map_err(|error| failed(&error))?
            }
            What::Link(target) => {
                writer.add_symlink(&entry.name, target, options(0o777)).map_err(|error| failed(&error))?;
            }
            What::File { executable } => {
                let mode = if *executable { 0o755 } else { 0o644 };
                let content = contents::read(&entry.path)?;
                total += content.len() as u64;
                if total > LARGEST {
                    return Err(contents::too_large(directory, LARGEST)
                        .hint("name in .flintignore what does not belong to the function"));
                }
                writer
                    .start_file(&entry.name, options(mode).large_file(content.len() > u32::MAX as usize))
                    .map_err(|error| failed(&error))?;
                writer.write_all(&content).map_err(|error| failed(&error))?;
            }
        }
    }
    Ok(writer.finish().map_err(|error| failed(&error))?.into_inner())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        time::{Duration, SystemTime},
    };

    use proptest::prelude::*;

    use super::*;

    fn packed(files: &std::collections::BTreeMap<String, Vec<u8>>, age: Duration) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            File::options().write(true).open(&path).unwrap().set_modified(SystemTime::now() - age).unwrap();
        }
        zip(dir.path(), &contents::of_directory(dir.path()).unwrap()).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn the_same_files_make_the_same_bytes_and_come_out_again(
            files in prop::collection::btree_map("[a-z]{1,6}\\.(js|txt)|[a-z]{1,4}-d/[a-z]{1,6}", prop::collection::vec(any::<u8>(), 0..200), 1..8)
        ) {
            let bytes = packed(&files, Duration::ZERO);
            prop_assert_eq!(&bytes, &packed(&files, Duration::from_secs(86_400)));
            let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
            for (name, content) in &files {
                let mut found = Vec::new();
                std::io::Read::read_to_end(&mut archive.by_name(name).unwrap(), &mut found).unwrap();
                prop_assert_eq!(&found, content);
            }
        }
    }
}
