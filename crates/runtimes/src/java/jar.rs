//! Writing and reading jars.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

use flint_executor::zip_lists_at_most;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter, write::SimpleFileOptions};

/// Largest manifest that is looked at.
const MANIFEST_MAX: u64 = 1 << 20;
/// Entries that a jar may have: twice as many as the largest of those with everything in them.
const MOST_ENTRIES: usize = 131_072;
/// So many classes are named to somebody who asks for another one.
const SHOWN: usize = 5;

/// Writes a jar: uncompressed, in order, without times, so that the same classes give the same bytes.
pub(super) fn write(path: &Path, classes: &BTreeMap<String, Vec<u8>>) -> io::Result<()> {
    let mut writer = ZipWriter::new(File::create_new(path)?);
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644);
    for (name, bytes) in classes {
        writer.start_file(name.as_str(), options)?;
        writer.write_all(bytes)?;
    }
    writer.finish()?;
    Ok(())
}

/// The `Main-Class` of a jar's manifest; an error when it is no jar, or has no class of the name that was `asked` for, `pkg.Class#method`.
pub(crate) fn main_class(code: &[u8], asked: Option<&str>) -> Result<Option<String>, String> {
    if !zip_lists_at_most(code, MOST_ENTRIES) {
        return Err(format!(
            "the jar has more than the {MOST_ENTRIES} entries allowed, with those of jars that are stored in it as they are"
        ));
    }
    let mut jar = ZipArchive::new(io::Cursor::new(code))
        .map_err(|error| format!("the code is not a jar that can be read: {error}"))?;
    let classes = || jar.file_names().filter_map(|name| name.strip_suffix(".class"));
    if classes().next().is_none() {
        return Err("the jar contains no class".into());
    }
    // The shim takes `main` for no class.
    let asked = asked.and_then(|asked| asked.split('#').next()).filter(|name| !matches!(*name, "" | "main"));
    if let Some(asked) = asked
        && !classes().any(|class| class.replace('/', ".") == asked)
    {
        let mut there: Vec<String> =
            classes().filter(|class| !class.contains('$')).map(|class| class.replace('/', ".")).collect();
        there.sort_unstable();
        there.truncate(SHOWN);
        return Err(format!("The class {asked} is not in the jar, which has {}", there.join(", ")));
    }
    let Ok(manifest) = jar.by_name("META-INF/MANIFEST.MF") else { return Ok(None) };
    let mut text = String::new();
    if manifest.take(MANIFEST_MAX).read_to_string(&mut text).is_err() {
        return Ok(None);
    }
    // A long line goes on in the next, after a space.
    let text = text.replace("\r\n", "\n").replace("\n ", "");
    let value = text.lines().find_map(|line| line.strip_prefix("Main-Class:"));
    Ok(value.map(|name| name.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_names_the_main_class() {
        let folder = tempfile::tempdir().unwrap();
        let jar = folder.path().join("a.jar");
        let manifest = "Manifest-Version: 1.0\r\nMain-Class: some.very.\r\n long.Name\r\n\r\n";
        let files = [("META-INF/MANIFEST.MF", manifest), ("A.class", "x")];
        write(&jar, &files.map(|(name, text)| (name.to_owned(), text.into())).into()).unwrap();
        let bytes = std::fs::read(&jar).unwrap();
        assert_eq!(main_class(&bytes, None), Ok(Some("some.very.long.Name".to_owned())));
        for there in ["A", "A#handle", "#handle", "main", ""] {
            assert!(main_class(&bytes, Some(there)).is_ok(), "{there}");
        }
        let other = main_class(&bytes, Some("com.ex.B#main")).unwrap_err();
        assert_eq!(other, "The class com.ex.B is not in the jar, which has A");
        assert!(main_class(b"rubbish", None).is_err());
        let many = main_class(&b"PK\x01\x02".repeat(MOST_ENTRIES + 1), None);
        assert!(many.unwrap_err().contains("131072 entries"));
    }
}
