//! Reads jars.

use std::io::Read;

use flint_executor::{ZipRefused, open_untrusted_zip};

/// Largest manifest that is read.
const MANIFEST_MAX: u64 = 1 << 20;
/// Most entries of a jar: twice as many as the largest uber-jars have.
const MOST_ENTRIES: usize = 131_072;
/// How many classes are listed when the requested one is missing.
const SHOWN: usize = 5;

/// The `Main-Class` of a jar's manifest; an error if it is not a jar, or lacks the class of `asked`
/// (`pkg.Class#method`).
pub(crate) fn main_class(code: &[u8], asked: Option<&str>) -> Result<Option<String>, String> {
    let mut jar = open_untrusted_zip(code, MOST_ENTRIES).map_err(|error| match error {
        ZipRefused::TooManyEntries(_) => error.to_string(),
        ZipRefused::Damaged(_) => format!("the code is not a jar that can be read: {error}"),
    })?;
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
    use std::io::{Cursor, Write};

    use zip::{ZipWriter, write::SimpleFileOptions};

    use super::*;

    #[test]
    fn a_manifest_names_the_main_class() {
        let manifest = "Manifest-Version: 1.0\r\nMain-Class: some.very.\r\n long.Name\r\n\r\n";
        let mut jar = ZipWriter::new(Cursor::new(Vec::new()));
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
        let many = main_class(&b"PK\x01\x02".repeat(MOST_ENTRIES + 1), None).unwrap_err();
        assert!(many.starts_with("the archive has more than the 131072 entries allowed"), "{many}");
    }
}
