//! SPECIFICATION.md says of each promise which test enforces it. A test that is renamed or removed is not to take its promise along unnoticed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_test_that_the_specification_names_exists() {
    // From the package's own folder, where tests run: what another clone has built knows only that one's path.
    let root = PathBuf::from("../..");
    let text = fs::read_to_string(root.join("SPECIFICATION.md")).expect("the specification is there");
    let named: BTreeSet<&str> = text.lines().filter(|line| line.starts_with('|')).flat_map(names).collect();
    assert!(named.len() > 50, "tests are found in its tables: {named:?}");
    let known = tests_in(&root);
    let unknown: Vec<_> = named.into_iter().filter(|name| !known.contains(*name)).collect();
    assert_eq!(unknown, [""; 0], "tests that SPECIFICATION.md names and nobody has");
}

/// Words like the names of tests: at least four parts, joined by underscores. Shorter ones may be files, fields or settings.
fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| word.split('_').filter(|part| !part.is_empty()).count() >= 4)
}

/// The functions of the tests, in Rust and in Python (there also without their `test_`), and the names of the files they are in.
fn tests_in(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut todo: Vec<PathBuf> = ["crates", "tests", "runtimes"].map(|name| root.join(name)).into();
    while let Some(path) = todo.pop() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "node_modules" && name != "target" {
                todo.extend(
                    fs::read_dir(&path).expect("a directory can be read").flatten().map(|entry| entry.path()),
                );
            }
        } else if let Some((stem, "rs" | "py")) = name.rsplit_once('.') {
            let source = fs::read_to_string(&path).expect("a source is text");
            found.insert(stem.to_owned());
            for keyword in ["fn ", "def "] {
                for (at, _) in source.match_indices(keyword) {
                    let rest = &source[at + keyword.len()..];
                    let name = rest
                        .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
                        .next()
                        .unwrap_or("");
                    found.insert(name.to_owned());
                    found.extend(name.strip_prefix("test_").map(str::to_owned));
                }
            }
        }
    }
    found
}
