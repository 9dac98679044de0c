//! The version of the measured workloads, which come from the current checkout and not from the build of the
//! binary.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::{run::Effort, suite};

/// Folders created by builds, which are not sources.
const FOREIGN: [&str; 7] =
    ["node_modules", "virtualenv", "build", "target", "__pycache__", ".git", "README.md"];
const FOREIGN_ENDS: [&str; 3] = ["jar", "class", "pyc"];

/// A fingerprint of everything that the experiment reads from the checkout, if anything.
pub(super) fn fingerprint(experiment: &str, effort: &Effort) -> Option<String> {
    let functions = suite::functions_of(effort).ok()?;
    let beside = |name: &str| functions.join("..").join(name);
    // Baselines are those of the checkout, wherever the workloads are.
    let baselines =
        suite::here().map_or_else(|_| beside("scripts/baselines"), |here| here.join("../scripts/baselines"));
    let roots = match experiment {
        "coldstart" => vec![functions.join("samples")],
        "wasm" => vec![functions.join("java-faas"), baselines],
        "fireworks-density" => vec![baselines],
        other => {
            let mut roots = suite::of(other)?.folders(effort).ok()?;
            roots.extend([baselines, beside("scripts/backends"), beside("scripts/wasm-tools.sh")]);
            roots.extend(["clients", "tools", "samples/photos"].map(|name| functions.join(name)));
            roots
        }
    };
    of(&roots, &functions.join("clients"))
}

/// The fingerprint of these files and folders. Copies that a build has made of `copied` are not counted
/// again.
fn of(roots: &[PathBuf], copied: &Path) -> Option<String> {
    let names = |folder: &Path| -> BTreeSet<_> {
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect()
    };
    let copies = names(copied);
    let mut hash = blake3::Hasher::new();
    let mut is_empty = true;
    for root in roots {
        let mut found = Vec::new();
        walk(root, &mut found);
        // Independent of the checkout's location.
        found.sort();
        for path in found {
            let is_copy = path.file_name().is_some_and(|name| copies.contains(name));
            if is_copy && !path.starts_with(copied) {
                continue;
            }
            let name = path.strip_prefix(root).unwrap_or(&path);
            let content = fs::read(&path).unwrap_or_default();
            for part in [name.as_os_str().as_encoded_bytes(), &content] {
                hash.update(&(part.len() as u64).to_le_bytes()).update(part);
            }
            is_empty = false;
        }
    }
    (!is_empty).then(|| hash.finalize().to_hex().chars().take(12).collect())
}

/// Source files only.
fn walk(path: &Path, found: &mut Vec<PathBuf>) {
    let is_foreign = path.file_name().is_some_and(|name| FOREIGN.iter().any(|foreign| name == *foreign))
        || path.extension().is_some_and(|end| FOREIGN_ENDS.iter().any(|foreign| end == *foreign));
    let Ok(kind) = fs::symlink_metadata(path) else { return };
    if is_foreign {
        return;
    }
    if kind.is_file() {
        found.push(path.to_owned());
    } else if kind.is_dir() {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| walk(&entry.path(), found));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Size;

    #[test]
    fn a_version_is_what_was_written_and_not_what_was_built() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        for folder in ["w/node_modules", "clients"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at("w/index.js"), "1").unwrap();
        fs::write(at("clients/s3.js"), "s3").unwrap();
        let now = || of(&[at("w"), at("clients")], &at("clients"));
        let first = now();
        assert_eq!(first.as_ref().unwrap().len(), 12);
        // A build.
        fs::write(at("w/node_modules/index.js"), "x").unwrap();
        fs::write(at("w/s3.js"), "s3").unwrap();
        fs::write(at("w/a.class"), "x").unwrap();
        assert_eq!(now(), first);
        fs::write(at("w/index.js"), "2").unwrap();
        let second = now();
        assert_ne!(second, first);
        fs::write(at("clients/s3.js"), "other").unwrap();
        assert_ne!(now(), second);
        assert_eq!(of(&[at("nowhere")], &at("clients")), None);
    }

    #[test]
    fn experiments_that_read_the_checkout_have_a_version() {
        let effort = |workload: &str| Effort {
            quick: true,
            size: Size::Test,
            arms: Vec::new(),
            repeat: None,
            seed: 1,
            set: [("workload".to_owned(), workload.to_owned())].into(),
            out: None,
            despite_noise: false,
        };
        let one = fingerprint("faasdom", &effort("fact"));
        assert!(one.is_some() && one == fingerprint("faasdom", &effort("fact")));
        assert_ne!(one, fingerprint("faasdom", &effort("netlatency")));
        for (experiment, reads) in [("coldstart", true), ("wasm", true), ("overhead", false)] {
            assert_eq!(fingerprint(experiment, &effort("x")).is_some(), reads, "{experiment}");
        }
    }
}
