//! Reads jars.

use std::io::{self, Read};

use flint_executor::{ReadOnce, zip_lists_at_most};
use zip::ZipArchive;

/// Largest manifest that is read.
const MANIFEST_MAX: u64 = 1 << 20;
/// Most entries of a jar: twice as many as the largest uber-jars have.
const MOST_ENTRIES: usize = 131_072;
/// How many classes are listed when the requested one is missing.
const SHOWN: usize = 5;

/// The `Main-Class` of a jar's manifest; an error if it is not a jar, or lacks the class of `asked`
/// (`pkg.Class#method`).
pub(crate) fn main_class(code: &[u8], asked: Option<&str>) -> Result<Option<String>, String> {
    if !zip_lists_at_most(code, MOST_ENTRIES) {
        return Err(format!(
            "the jar has more than the {MOST_ENTRIES} entries allowed, with those of jars that are stored in it as they are"
        ));
    }
    let mut jar = ZipArchive::new(ReadOnce::new(code))
        .and_then(|_| ZipArchive::new(io::Cursor::new(code)))
        .map_err(|error| format!("the code is not a jar that can be read: {error}"))?;
    let classes = || jar.file_names().filter_map(|name| name.strip_suffix(".class"));
    if classes().next().is_none() {
        return Err("the jar contains no class".into());
    }
    // For the shim, `main` names no class.
    let asked = asked.and_then(|asked| asked.split('#').next()).filter(|name| !matches!(*name, "" | "main"));
    if let Some(asked) = asked
        && !classes().any(|class| class.replace('/', ".") == asked)
    {
        let mut there: Vec<String> =
            classes().filter(|class| !class.contains('$')).map(|class| class.replace('/', ".")).collect();
        there.sort_unstable();
        there.truncate(SHOWN);
        return Err(format!("The class {asked} is not in the code, which has {}", there.join(", ")));
    }
    let Ok(manifest) = jar.by_name("META-INF/MANIFEST.MF") else { return Ok(None) };
    let mut text = String::new();
    if manifest.take(MANIFEST_MAX).read_to_string(&mut text).is_err() {
        return Ok(None);
    }
    // In a manifest, a long line continues on the next after a space.
    let text = text.replace("\r\n", "\n").replace("\n ", "");
    let value = text.lines().find_map(|line| line.strip_prefix("Main-Class:"));
    Ok(value.map(|name| name.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::{ZipWriter, write::SimpleFileOptions};

    use super::*;

    #[test]
    fn a_jar_whose_ends_all_name_the_same_long_list_is_given_up() {
        let mut entry = [0; 47];
        entry[..4].copy_from_slice(b"PK\x01\x02");
        (entry[28], entry[46]) = (1, b'a');
        let mut end = [0; 22];
        end[..4].copy_from_slice(b"PK\x05\x06");
        // One entry more than there are, so that none of the lists can be read.
        end[8..10].copy_from_slice(&20_001_u16.to_le_bytes());
        end[10..12].copy_from_slice(&20_001_u16.to_le_bytes());
        let jar = [entry.repeat(20_000), end.repeat(100_000)].concat();
        let refused = main_class(&jar, None).unwrap_err();
        assert!(refused.contains("not a jar that can be read"), "{refused}");
    }

    #[test]
    fn a_manifest_names_the_main_class() {
        let manifest = "Manifest-Version: 1.0\r\nMain-Class: some.very.\r\n long.Name\r\n\r\n";
        let mut jar = ZipWriter::new(io::Cursor::new(Vec::new()));
        for (name, text) in [("META-INF/MANIFEST.MF", manifest), ("A.class", "x")] {
            jar.start_file(name, SimpleFileOptions::default()).unwrap();
            jar.write_all(text.as_bytes()).unwrap();
        }
        let bytes = jar.finish().unwrap().into_inner();
        assert_eq!(main_class(&bytes, None), Ok(Some("some.very.long.Name".to_owned())));
        for there in ["A", "A#handle", "#handle", "main", ""] {
            assert!(main_class(&bytes, Some(there)).is_ok(), "{there}");
        }
        let other = main_class(&bytes, Some("com.ex.B#main")).unwrap_err();
        assert_eq!(other, "The class com.ex.B is not in the code, which has A");
        assert!(main_class(b"rubbish", None).is_err());
        let many = main_class(&b"PK\x01\x02".repeat(MOST_ENTRIES + 1), None);
        assert!(many.unwrap_err().contains("131072 entries"));
    }
}
