//! Lists the contents of a directory or archive.

use std::{
    fs,
    io::{self, Read as _},
    path::{Component, Path, PathBuf},
};

use ignore::{WalkBuilder, gitignore::GitignoreBuilder};

use crate::{failure::Failure, output::human_size};

/// The file of patterns to exclude, in the syntax of .gitignore.
const IGNORE_FILE: &str = ".flintignore";

/// Never part of a function: version control, editors, caches bound to the machine that wrote them, and
/// Flint's own files.
const LEFT_OUT: &[&str] =
    &[".git", ".hg", ".svn", ".DS_Store", ".idea", ".vscode", "__pycache__", IGNORE_FILE];
/// Excluded at the top level only.
const LEFT_OUT_AT_TOP: &[&str] = &["flint.toml", "flint.json"];

/// Maximum size of a file, and of all files of a directory. Servers accept much less, unless configured
/// otherwise.
pub(crate) const LARGEST: u64 = 4 << 30;

const ONE_A_LINE: &str = "write .flintignore like a .gitignore: one pattern a line";

/// An entry to pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its path in the archive, `/` between segments.
    pub(crate) name: String,
    /// Its path on disk.
    pub(crate) path: PathBuf,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Directory,
    File {
        executable: bool,
    },
    /// A link within the directory, as written.
    Link(String),
}

/// A directory's contents in order of name, so that the same files always give the same archive.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) entries: Vec<Entry>,
    /// Exclusions that a user might not expect: links to outside, sockets, names that are not UTF-8.
    pub(crate) notes: Vec<String>,
}

/// The contents of `directory` without the exclusions of `.flintignore` (in the syntax of .gitignore) and
/// [`LEFT_OUT`].
pub(crate) fn of_directory(directory: &Path) -> Result<Contents, Failure> {
    let root = directory.canonicalize().map_err(|error| cannot_read(directory, &error))?;
    let mut contents = Contents::default();
    let mut walk = WalkBuilder::new(&root);
    walk.standard_filters(false)
        .add_custom_ignore_filename(IGNORE_FILE)
        .follow_links(false)
        .filter_entry(|entry| {
            let name = entry.file_name().to_string_lossy();
            let name = name.as_ref();
            entry.depth() == 0
                || !(LEFT_OUT.contains(&name) || entry.depth() == 1 && LEFT_OUT_AT_TOP.contains(&name))
        })
        .sort_by_file_name(|a, b| a.cmp(b));
    for entry in walk.build() {
        let entry =
            entry.map_err(|error| Failure::usage(format!("cannot read {}: {error}", directory.display())))?;
        if entry.file_type().is_some_and(|kind| kind.is_dir()) {
            check_patterns(entry.path())?;
        }
        if let Some(error) = entry.error() {
            return Err(Failure::usage(error.to_string()).hint(ONE_A_LINE));
        }
        if entry.depth() == 0 {
            continue;
        }
        let path = entry.path();
        let relative = path.strip_prefix(&root).unwrap_or(path);
        let Some(name) = relative.to_str().map(str::to_owned) else {
            contents.notes.push(format!("left out {}: its name is not UTF-8", relative.display()));
            continue;
        };
        let meta = fs::symlink_metadata(path).map_err(|error| cannot_read(path, &error))?;
        let what = if meta.is_dir() {
            What::Directory
        } else if meta.is_symlink() {
            match link_within(&root, path) {
                Ok(target) => What::Link(target),
                // The interpreter of a virtual environment: functions run with the host's.
                Err(_) if name.starts_with("virtualenv/bin/python") => continue,
                Err(why) => {
                    contents.notes.push(format!("left out {name}: {why}"));
                    continue;
                }
            }
        } else if meta.is_file() {
            What::File { executable: is_executable(&meta) }
        } else {
            contents.notes.push(format!("left out {name}: it is neither a file, a directory nor a link"));
            continue;
        };
        contents.entries.push(Entry { name, path: path.to_owned(), what });
    }
    Ok(contents)
}

/// Refuses an invalid pattern in a directory's .flintignore, which would include what it was to exclude. The
/// walk takes some of them, as git does.
fn check_patterns(directory: &Path) -> Result<(), Failure> {
    let file = directory.join(IGNORE_FILE);
    let bytes = match fs::read(&file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(cannot_read(&file, &error)),
    };
    let wrong = |line: usize, why: &str| {
        Failure::usage(format!("{}, line {line}: {why}", file.display())).hint(ONE_A_LINE)
    };
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        wrong(before.iter().filter(|byte| **byte == b'\n').count() + 1, "it is not UTF-8")
    })?;
    let mut patterns = GitignoreBuilder::new(directory);
    patterns.allow_unclosed_class(false);
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        patterns.add_line(None, line).map_err(|error| wrong(number, &error.to_string()))?;
    }
    Ok(())
}

/// A link's text, if it is relative and leads to an existing file within `root`.
fn link_within(root: &Path, link: &Path) -> Result<String, String> {
    let target = fs::read_link(link).map_err(|error| error.to_string())?;
    let shown = target.display().to_string();
    let resolved = link.canonicalize().map_err(|_| format!("it links to {shown}, which does not exist"))?;
    // A link that leaves the directory and comes back by its name would lead elsewhere once unpacked.
    let inside = link.parent().and_then(|parent| parent.strip_prefix(root).ok()).unwrap_or(Path::new(""));
    if target.is_absolute() || !resolved.starts_with(root) || leaves(inside, &target) {
        return Err(format!("it links to {shown}, outside the directory"));
    }
    target.to_str().map(str::to_owned).ok_or_else(|| "its target is not UTF-8".to_owned())
}

/// Whether `target`, as written, leads out of the root that `inside` is relative to.
fn leaves(inside: &Path, target: &Path) -> bool {
    let mut depth = inside.components().count();
    target.components().any(|part| {
        match part {
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            _ => {}
        }
        false
    })
}

/// Reads a file, but not to its end if it is larger than any server would accept: it may be a disk image, or
/// endless.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    read_within(path, LARGEST)
}

fn read_within(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let cannot = |error: io::Error| cannot_read(path, &error);
    let file = fs::File::open(path).map_err(cannot)?;
    let size = file.metadata().map_err(cannot)?.len();
    let mut content = Vec::new();
    if size <= most {
        file.take(most + 1).read_to_end(&mut content).map_err(cannot)?;
    }
    match size.max(content.len() as u64) > most {
        true => Err(too_large(path, most)),
        false => Ok(content),
    }
}

/// The error for more than `most` bytes.
pub(super) fn too_large(path: &Path, most: u64) -> Failure {
    Failure::usage(format!("{} has more than {}, too much for a function", path.display(), human_size(most)))
}

pub(crate) fn is_executable(meta: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    meta.is_file() && meta.permissions().mode() & 0o111 != 0
}

pub(crate) fn cannot_read(path: &Path, error: &io::Error) -> Failure {
    let failure = Failure::usage(format!("cannot read {}: {error}", path.display()));
    match error.kind() {
        io::ErrorKind::NotFound => failure.hint("check the path"),
        io::ErrorKind::PermissionDenied => failure.hint("check the file's permissions"),
        _ => failure,
    }
}

/// The names in a zip archive.
pub(crate) fn of_zip(path: &Path, content: &[u8]) -> Result<Vec<String>, Failure> {
    let archive = zip::ZipArchive::new(io::Cursor::new(content))
        .map_err(|error| Failure::usage(format!("{} is not a zip archive: {error}", path.display())))?;
    Ok(archive.file_names().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_directory_is_read_in_order_without_what_is_ignored_or_leads_outside() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "s").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        };
        for name in [
            "z.js",
            "a/b.js",
            ".git/config",
            "flint.toml",
            "a/flint.toml",
            "dist/out.js",
            "notes.md",
            ".env",
            "a/__pycache__/x.pyc",
        ] {
            write(name);
        }
        fs::write(dir.path().join(".flintignore"), "dist/\n*.md\n").unwrap();
        fs::set_permissions(dir.path().join("z.js"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("a/b.js", dir.path().join("inside")).unwrap();
        symlink("../../../etc/passwd", dir.path().join("relative-out")).unwrap();
        symlink(outside.path().join("secret"), dir.path().join("absolute-out")).unwrap();
        symlink("nothing", dir.path().join("dangling")).unwrap();
        let own_name = dir.path().file_name().unwrap().to_str().unwrap();
        symlink(format!("../../{own_name}/z.js"), dir.path().join("a/by-its-name")).unwrap();
        symlink("../z.js", dir.path().join("a/up")).unwrap();

        let contents = of_directory(dir.path()).unwrap();
        let names: Vec<_> = contents.entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, [".env", "a", "a/b.js", "a/flint.toml", "a/up", "inside", "z.js"]);
        assert_eq!(contents.entries[5].what, What::Link("a/b.js".into()));
        assert_eq!(contents.entries[6].what, What::File { executable: true });
        assert_eq!(contents.notes.len(), 4, "{:?}", contents.notes);
        // An exclusion must not fail silently because of a typing error.
        fs::write(dir.path().join(".flintignore"), "dist/\nnotes[z-a].md\n").unwrap();
        let said = of_directory(dir.path()).unwrap_err().message;
        assert!(said.contains(".flintignore, line 2") && said.contains("notes[z-a].md"), "{said}");
        for bad in [&b"# fine\n["[..], b"\na[\n", b"*.md\n\xff.env\n"] {
            fs::write(dir.path().join(".flintignore"), "*.md\n").unwrap();
            fs::write(dir.path().join("a/.flintignore"), bad).unwrap();
            let said = of_directory(dir.path()).unwrap_err().message;
            assert!(said.contains("a/.flintignore, line 2"), "{said}");
        }
    }

    #[test]
    fn what_has_no_end_is_not_read_to_its_end() {
        let refused = |path: &Path, most| read_within(path, most).unwrap_err().message;
        assert!(refused(Path::new("/dev/zero"), 2048).contains("more than 2.0 KB"));
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("disk.img");
        fs::File::create(&image).unwrap().set_len(1 << 40).unwrap();
        assert!(refused(&image, LARGEST).contains("more than 4.0 GB"));
        fs::write(&image, "1").unwrap();
        assert_eq!(read(&image).unwrap(), b"1");
    }
}
