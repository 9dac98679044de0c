//! Code shared by handlers in JavaScript and Python: the glue around them, and a copy of the project to put
//! it into.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{Job, cannot_write};
use crate::{
    failure::Failure,
    package::contents::{self, What},
};

/// The WIT world of a handler: a WASI program.
pub(super) const WIT: &str = include_str!("glue/command.wit");
pub(super) const WORLD: &str = "handler";

/// Copies the project (a directory without `skip`, or one file) to `into`, since tools leave caches beside
/// the files they read.
pub(super) fn copy(path: &Path, into: &Path, skip: &[impl AsRef<Path>]) -> Result<(), Failure> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| Failure::local(format!("cannot copy {} for the build: {error}", path.display()))
    };
    fs::create_dir_all(into).map_err(failed(into))?;
    if !path.is_dir() {
        let name = path.file_name().unwrap_or_default();
        return fs::copy(path, into.join(name)).map(drop).map_err(failed(path));
    }
    for entry in contents::of_directory(path)?.entries {
        if skip.iter().any(|skip| Path::new(&entry.name).starts_with(skip.as_ref())) {
            continue;
        }
        let to = into.join(&entry.name);
        match entry.what {
            What::Directory => fs::create_dir_all(&to).map_err(failed(&entry.path))?,
            // Copied as files: links do not resolve in some of the tools' sandboxes.
            What::File { .. } | What::Link(_) if entry.path.is_file() => {
                fs::copy(&entry.path, &to).map(drop).map_err(failed(&entry.path))?;
            }
            What::File { .. } | What::Link(_) => {}
        }
    }
    Ok(())
}

/// Writes a file of the glue.
pub(super) fn write(directory: &Path, name: &str, text: &str) -> Result<PathBuf, Failure> {
    let file = directory.join(name);
    fs::write(&file, text).map_err(|error| cannot_write(&file, &error))?;
    Ok(file)
}

/// The names by which the handler is looked up, as a list of string literals.
pub(super) fn names(job: Job<'_>) -> Result<String, Failure> {
    match job.main {
        None => Ok("'main', 'handler'".to_owned()),
        Some(name)
            if !name.is_empty()
                && name.chars().all(|char| char.is_alphanumeric() || char == '_' || char == '$') =>
        {
            Ok(format!("'{name}',"))
        }
        Some(name) => Err(Failure::usage(format!(
            "'{name}' cannot be the name of a function: --main names one that the code has"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_name_cannot_smuggle_code_into_the_glue() {
        let names = |main| names(Job { path: Path::new("x"), main, within: Duration::ZERO });
        assert_eq!(names(None).unwrap(), "'main', 'handler'");
        assert_eq!(names(Some("résumé_1")).unwrap(), "'résumé_1',");
        for bad in ["", "a'b", "a b", "x;y", "a.b"] {
            assert!(names(Some(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_project_is_copied_with_what_its_links_mean() {
        let from = tempfile::tempdir().unwrap();
        fs::create_dir(from.path().join("lib")).unwrap();
        fs::write(from.path().join("lib/a.js"), "a").unwrap();
        std::os::unix::fs::symlink("lib/a.js", from.path().join("b.js")).unwrap();
        fs::write(from.path().join("lib.js"), "").unwrap();
        let into = tempfile::tempdir().unwrap();
        let copied = |name: &str| into.path().join("copy").join(name);
        copy(from.path(), &into.path().join("copy"), &["lib/a.js"]).unwrap();
        assert_eq!(fs::read_to_string(copied("b.js")).unwrap(), "a");
        assert!(!copied("b.js").is_symlink() && copied("lib.js").is_file() && !copied("lib/a.js").exists());
    }
}
