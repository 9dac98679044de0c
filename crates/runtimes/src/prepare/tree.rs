//! Writes an archive's entries to disk; trusts none of them.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io::{self, Read},
    mem,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Component, Path, PathBuf},
    time::{Duration, Instant},
};

use flint_executor::PrepareError;

use super::room::Room;
use crate::{
    config::UnpackLimits,
    disk_usage::{self, BLOCK},
};

const LONGEST_NAME: usize = 1024;
/// How long an archive's links may take to follow: each may lead through many others.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(20);
const DEEPEST: usize = 64;
/// How many bytes are written between two checks of the free space.
const BYTES_A_LOOK: u64 = 16 << 20;
/// How many entries, each of which takes an inode.
const ENTRIES_A_LOOK: usize = 4096;

/// A directory that is being filled.
pub(super) struct Tree<'a> {
    root: PathBuf,
    limits: UnpackLimits,
    room: &'a Room,
    entries: usize,
    bytes: u64,
    files: HashSet<PathBuf>,
    /// Directories made so far, including those without an entry in the archive.
    folders: HashSet<PathBuf>,
    links: HashMap<PathBuf, PathBuf>,
    left_out: usize,
}

/// The result of unpacking.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unpacked {
    pub(super) files: usize,
    /// Number of a virtual environment's links to the interpreter that it was made with.
    pub(super) left_out: usize,
}

pub(super) fn bad(text: impl Into<String>) -> PrepareError {
    PrepareError::Code(text.into())
}

/// A name for a message, cut to a fixed length.
pub(super) fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(&name[..name.len().min(LONGEST_NAME)]).into_owned()
}

pub(super) fn failed(operation: impl Into<String>, error: &io::Error) -> PrepareError {
    PrepareError::Failed { operation: operation.into(), detail: error.to_string() }
}

impl<'a> Tree<'a> {
    pub(super) fn new(root: &Path, limits: UnpackLimits, room: &'a Room) -> Self {
        let (files, folders, links) = (HashSet::new(), HashSet::new(), HashMap::new());
        Self { root: root.to_owned(), limits, room, entries: 0, bytes: 0, files, folders, links, left_out: 0 }
    }

    /// Counts an entry, or a parent directory of one.
    pub(super) fn count(&mut self) -> Result<(), PrepareError> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            return Err(bad(format!(
                "the archive has more than the {} entries allowed, with the folders that they are in",
                self.limits.entries
            )));
        }
        if self.entries % ENTRIES_A_LOOK == 1 {
            self.room.to_go_on()?;
        }
        Ok(())
    }

    /// Checks an entry's name and counts the entry. The path returned is relative and has normal components
    /// only; `None` is the root itself.
    fn admit(&mut self, name: &[u8]) -> Result<Option<PathBuf>, PrepareError> {
        let shown = shown(name);
        let Ok(text) = std::str::from_utf8(name) else {
            return Err(bad(format!(
                "the archive's entry '{shown}' has a name that is not UTF-8: rename the file"
            )));
        };
        if text.len() > LONGEST_NAME || text.contains(['\0', '\\']) {
            return Err(bad(format!(
                "the archive's entry '{shown}' has a name that is longer than {LONGEST_NAME} bytes or contains a backslash or NUL: pack it with forward slashes"
            )));
        }
        self.count()?;
        let mut path = PathBuf::new();
        for part in Path::new(text).components() {
            match part {
                Component::Normal(part) => path.push(part),
                Component::CurDir => {}
                _ => {
                    return Err(bad(format!(
                        "the archive's entry '{shown}' leads out of its folder: entries are relative and without '..'"
                    )));
                }
            }
        }
        if path.components().count() > DEEPEST {
            return Err(bad(format!(
                "the archive's entry '{shown}' is nested deeper than {DEEPEST} folders"
            )));
        }
        if let Some(link) = path.ancestors().find(|above| self.links.contains_key(*above)) {
            return Err(bad(format!(
                "the archive's entry '{shown}' goes through its own link '{}'",
                link.display()
            )));
        }
        Ok((!path.as_os_str().is_empty()).then_some(path))
    }

    pub(super) fn directory(&mut self, name: &[u8]) -> Result<(), PrepareError> {
        let Some(path) = self.admit(name)? else { return Ok(()) };
        if self.folders.contains(&path) {
            return Ok(());
        }
        self.folders_above(&path)?;
        self.folder(&path)
    }

    /// Makes the missing parent directories of an entry.
    fn folders_above(&mut self, path: &Path) -> Result<(), PrepareError> {
        let above = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        let missing: Vec<_> = above.take_while(|folder| !self.folders.contains(*folder)).collect();
        for folder in missing.into_iter().rev() {
            self.count()?;
            self.folder(folder)?;
        }
        Ok(())
    }

    /// Makes a directory in an existing one, readable for every user.
    fn folder(&mut self, path: &Path) -> Result<(), PrepareError> {
        self.room.take(BLOCK)?;
        let place = self.root.join(path);
        fs::create_dir(&place)
            .and_then(|()| fs::set_permissions(&place, fs::Permissions::from_mode(0o755)))
            .map_err(|error| self.cannot_write(path, &error))?;
        self.folders.insert(path.to_owned());
        Ok(())
    }

    pub(super) fn file(
        &mut self,
        name: &[u8],
        executable: bool,
        content: &mut dyn Read,
    ) -> Result<(), PrepareError> {
        let path = self.admit(name)?.ok_or_else(|| bad("the archive has a file without a name"))?;
        if !self.files.insert(path.clone()) {
            return Err(bad(format!("the archive has the entry '{}' twice", path.display())));
        }
        self.folders_above(&path)?;
        let place = self.root.join(&path);
        let mut file = File::create_new(&place).map_err(|error| self.cannot_write(&path, &error))?;
        let left = self.limits.bytes.as_u64() - self.bytes;
        // One byte beyond the limit shows that there is more.
        let mut content = content.take(left + 1);
        let mut copied = 0;
        loop {
            let until_look = BYTES_A_LOOK - (self.bytes + copied) % BYTES_A_LOOK;
            let piece = io::copy(&mut (&mut content).take(until_look), &mut file);
            let piece = piece.map_err(|error| match error.kind() {
                io::ErrorKind::StorageFull => failed("unpacking the archive", &error),
                _ => bad(format!("the archive is damaged at '{}': {error}", path.display())),
            })?;
            copied += piece;
            self.room.take(piece)?;
            if piece < until_look {
                break;
            }
            self.room.to_go_on()?;
        }
        self.bytes += copied;
        if copied > left {
            return Err(bad(format!("the archive unpacks to more than the {} allowed", self.limits.bytes)));
        }
        self.room.take(disk_usage::of_file(copied) - copied)?;
        let mode = if executable { 0o755 } else { 0o644 };
        file.set_permissions(fs::Permissions::from_mode(mode))
            .map_err(|error| self.cannot_write(&path, &error))
    }

    pub(super) fn link(&mut self, name: &[u8], target: &[u8]) -> Result<(), PrepareError> {
        let path = self.admit(name)?.ok_or_else(|| bad("the archive has a link without a name"))?;
        let target_text = String::from_utf8_lossy(target).into_owned();
        let target = PathBuf::from(&target_text);
        if is_interpreter_of_virtualenv(&path, &target) {
            self.left_out += 1;
            return Ok(());
        }
        if !stays_inside(&path, &target) {
            return Err(bad(format!(
                "the archive's link '{}' leads out of its folder, to '{target_text}': pack the file itself instead",
                path.display()
            )));
        }
        if self.files.contains(&path) || self.links.insert(path.clone(), target).is_some() {
            return Err(bad(format!("the archive has the entry '{}' twice", path.display())));
        }
        self.room.take(BLOCK)
    }

    /// Makes the links, last, so that nothing is written through one.
    pub(super) fn finish(mut self) -> Result<Unpacked, PrepareError> {
        let links = mem::take(&mut self.links);
        for (path, target) in &links {
            self.folders_above(path)?;
            symlink(target, self.root.join(path)).map_err(|error| self.cannot_write(path, &error))?;
        }
        let root = self.root.canonicalize().map_err(|error| failed("unpacking the archive", &error))?;
        let began = Instant::now();
        for path in links.keys() {
            if began.elapsed() > FOLLOWED_WITHIN {
                return Err(bad(format!(
                    "the archive's {} links take longer than {FOLLOWED_WITHIN:?} to follow: pack the files themselves instead",
                    links.len()
                )));
            }
            match self.root.join(path).canonicalize() {
                Ok(end) if !end.starts_with(&root) => {
                    return Err(bad(format!(
                        "the archive's link '{}' leads out of its folder",
                        path.display()
                    )));
                }
                Ok(_) => {}
                // What it names may come with the runtime, or with nothing.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(bad(format!(
                        "the archive's link '{}' cannot be followed: {error}",
                        path.display()
                    )));
                }
            }
        }
        if self.files.is_empty() {
            return Err(bad("the archive contains no file"));
        }
        Ok(Unpacked { files: self.files.len(), left_out: self.left_out })
    }

    fn cannot_write(&self, path: &Path, error: &io::Error) -> PrepareError {
        match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
                bad(format!("the archive has '{}' both as a file and as a folder or link", path.display()))
            }
            io::ErrorKind::InvalidFilename => {
                bad(format!("the archive's entry '{}' has too long a name", path.display()))
            }
            _ => failed(format!("unpacking '{}'", path.display()), error),
        }
    }
}

/// `virtualenv/bin/python3 -> /usr/bin/python3`: useless in the sandbox, which has its own interpreter, but
/// no reason to refuse the archive.
fn is_interpreter_of_virtualenv(path: &Path, target: &Path) -> bool {
    let python =
        |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"python"));
    let in_bin = path.parent().and_then(Path::file_name).is_some_and(|folder| folder == "bin");
    in_bin && python(path) && (target.is_absolute() || (python(target) && target.components().count() == 1))
}

fn stays_inside(link: &Path, target: &Path) -> bool {
    let mut depth = link.components().count() as i64 - 1;
    target.components().all(|part| {
        match part {
            Component::Normal(_) => depth += 1,
            Component::ParentDir => depth -= 1,
            Component::CurDir => {}
            _ => return false,
        }
        depth >= 0
    }) && !target.as_os_str().is_empty()
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use flint_model::ByteSize;

    use super::*;
    use crate::prepare::quota::Quota;

    fn tree(root: &tempfile::TempDir) -> Tree<'static> {
        Tree::new(root.path(), UnpackLimits { entries: 8, bytes: ByteSize::bytes(100) }, any_room())
    }

    fn any_room() -> &'static Room {
        static ROOM: OnceLock<Room> = OnceLock::new();
        ROOM.get_or_init(|| Room::new(Path::new("/"), Some(ByteSize::bytes(0))))
    }

    #[test]
    fn an_ordinary_tree_is_written() {
        let root = tempfile::tempdir().unwrap();
        let mut tree = tree(&root);
        tree.file(b"./bin/run", true, &mut &b"#!"[..]).unwrap();
        tree.directory(b"empty/").unwrap();
        tree.link(b"lib/run", b"../bin/run").unwrap();
        tree.link(b"venv/bin/python3", b"/usr/bin/python3.11").unwrap();
        assert_eq!(tree.finish().unwrap(), Unpacked { files: 1, left_out: 1 });
        assert_eq!(fs::read(root.path().join("lib/run")).unwrap(), b"#!");
        assert_eq!(fs::metadata(root.path().join("bin/run")).unwrap().permissions().mode() & 0o777, 0o755);
        assert!(root.path().join("empty").is_dir());
    }

    #[test]
    fn what_leads_out_is_refused() {
        for name in ["../x", "/etc/x", "a/../../x", "a\\b"] {
            let root = tempfile::tempdir().unwrap();
            assert!(tree(&root).file(name.as_bytes(), false, &mut &b""[..]).is_err(), "{name}");
        }
        for target in ["/etc/passwd", "../x", "a/../../x", ""] {
            let root = tempfile::tempdir().unwrap();
            assert!(tree(&root).link(b"link", target.as_bytes()).is_err(), "{target}");
        }
        let root = tempfile::tempdir().unwrap();
        let mut through = tree(&root);
        through.link(b"a", b"b").unwrap();
        assert!(through.file(b"a/x", false, &mut &b""[..]).is_err());
        let root = tempfile::tempdir().unwrap();
        let mut chain = tree(&root);
        chain.link(b"here", b".").unwrap();
        chain.link(b"up", b"here/..").unwrap();
        assert!(chain.finish().is_err());
    }

    #[test]
    fn bombs_and_doubles_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let error = tree(&root).file(b"x", false, &mut io::repeat(0)).unwrap_err();
        assert!(error.to_string().contains("more than the 100 B allowed"), "{error}");
        let root = tempfile::tempdir().unwrap();
        let mut many = tree(&root);
        let error = (0..9).find_map(|n| many.directory(format!("d{n}").as_bytes()).err()).unwrap();
        assert!(error.to_string().contains("more than the 8 entries"), "{error}");
        let root = tempfile::tempdir().unwrap();
        let mut twice = tree(&root);
        twice.file(b"a", false, &mut &b""[..]).unwrap();
        assert!(twice.file(b"./a", false, &mut &b""[..]).is_err());
        assert!(twice.file(b"a/b", false, &mut &b""[..]).is_err());
        assert!(twice.file(b"\xff", false, &mut &b""[..]).is_err());
        assert!(twice.directory(b"a/").is_err(), "it is a file");
    }

    #[test]
    fn folders_without_entries_of_their_own_count_as_entries() {
        let deep = b"1/2/3/4/5/6/7/8/x";
        let unpacked = |name: &[u8], is_link: bool| {
            let root = tempfile::tempdir().unwrap();
            let mut tree = tree(&root);
            if is_link { tree.link(name, b"x") } else { tree.file(name, false, &mut &b""[..]) }?;
            tree.finish()
        };
        for is_link in [true, false] {
            let error = unpacked(deep, is_link).unwrap_err();
            assert!(error.to_string().contains("more than the 8 entries"), "{error}");
        }
        unpacked(&deep[2..], false).unwrap();
        // A directory is counted once, in whatever order it appears.
        let root = tempfile::tempdir().unwrap();
        let mut tree = tree(&root);
        tree.file(b"a/b/x", false, &mut &b""[..]).unwrap();
        tree.directory(b"a/b/").unwrap();
        tree.directory(b"a").unwrap();
        tree.link(b"a/b/y", b"x").unwrap();
        assert_eq!(tree.entries, 6);
        assert_eq!(tree.finish().unwrap(), Unpacked { files: 1, left_out: 0 });
    }

    #[test]
    fn what_would_fill_the_disk_ends_halfway() {
        let root = tempfile::tempdir().unwrap();
        let full = Room::new(root.path(), Some(ByteSize::bytes(u64::MAX)));
        let mut tree = Tree::new(root.path(), UnpackLimits::default(), &full);
        let error = tree.file(b"x", false, &mut &b"x"[..]).unwrap_err();
        assert!(matches!(&error, PrepareError::NoRoom(_)), "{error}");
        assert!(error.to_string().contains("prepare.min_free"), "{error}");
        // Entries admitted before the disk was full.
        tree.entries = 7;
        let error = tree.file(b"y", false, &mut io::repeat(0)).unwrap_err();
        assert!(matches!(error, PrepareError::NoRoom(_)), "{error}");
        assert_eq!(fs::metadata(root.path().join("y")).unwrap().len(), BYTES_A_LOOK);
        // Directories that contain links only, which are made last.
        tree.link(b"1/2/3/link", b"link").unwrap();
        tree.entries = ENTRIES_A_LOOK - 1;
        let error = tree.finish().unwrap_err();
        assert!(matches!(error, PrepareError::NoRoom(_)), "{error}");
        assert!(root.path().join("1").is_dir() && !root.path().join("1/2").exists());
    }

    #[test]
    fn what_is_more_than_its_namespace_may_take_ends_halfway() {
        let root = tempfile::tempdir().unwrap();
        let quota = Quota::new(ByteSize::bytes(5 * BLOCK));
        let claim = std::sync::Arc::new(quota.claim(&"guest".parse().unwrap(), "a"));
        let room = any_room().claimed(&claim);
        let mut tree = Tree::new(root.path(), UnpackLimits::default(), &room);
        tree.file(b"a", false, &mut &[b'a'; 5000][..]).unwrap();
        tree.file(b"empty", false, &mut &b""[..]).unwrap();
        tree.directory(b"folder/").unwrap();
        tree.link(b"link", b"a").unwrap();
        for error in [
            tree.file(b"b", false, &mut &b"b"[..]).unwrap_err(),
            tree.directory(b"another/").unwrap_err(),
            tree.file(b"c", false, &mut io::repeat(0)).unwrap_err(),
        ] {
            assert!(matches!(&error, PrepareError::OverQuota(_)), "{error}");
        }
        assert_eq!(fs::metadata(root.path().join("c")).unwrap().len(), BYTES_A_LOOK - 5000);
    }

    #[test]
    fn folders_without_entries_of_their_own_are_their_namespaces_too() {
        let quota = Quota::new(ByteSize::bytes(3 * BLOCK));
        for is_link in [true, false] {
            let root = tempfile::tempdir().unwrap();
            let claim = std::sync::Arc::new(quota.claim(&"guest".parse().unwrap(), "a"));
            let room = any_room().claimed(&claim);
            let mut tree = Tree::new(root.path(), UnpackLimits::default(), &room);
            let made = match is_link {
                true => tree.link(b"1/2/3/x", b"x").and_then(|()| tree.finish()).map(|_| ()),
                false => tree.file(b"1/2/3/x", false, &mut &b"x"[..]),
            };
            assert!(matches!(made, Err(PrepareError::OverQuota(_))), "{made:?}");
            assert!(root.path().join("1/2").is_dir());
        }
    }
}
