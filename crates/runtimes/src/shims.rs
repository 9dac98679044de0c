//! The runtime shims: contained in the binary, and laid out on disk for sandboxes.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process,
};

/// Path below `runtimes/` and content of each file.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/shims.rs"));

/// The directory of what is made from them on this host.
const DERIVED: &str = "derived";

/// The shims on disk.
#[derive(Debug)]
pub(crate) struct Shims {
    folder: PathBuf,
    digest: String,
}

impl Shims {
    /// Writes them below `runtimes`, in a directory named after their digest, unless it exists.
    pub(crate) fn lay_out(runtimes: &Path) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        for (name, content) in FILES {
            hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
            hasher.update(&(content.len() as u64).to_le_bytes()).update(content);
        }
        let digest = hasher.finalize().to_hex()[..32].to_owned();
        let folder = runtimes.join(&digest);
        for half in leftovers(runtimes) {
            fs::remove_dir_all(half)?;
        }
        for half in leftovers(&folder.join(DERIVED)) {
            // In nobody's way: it is made again under another name.
            let _ = fs::remove_dir_all(half);
        }
        if !folder.exists() {
            create_readable_dir(runtimes)?;
            let half = runtimes.join(format!(".{digest}.{}", process::id()));
            let _ = fs::remove_dir_all(&half);
            for (name, content) in FILES {
                let file = half.join(name);
                if let Some(parent) = file.parent() {
                    create_readable_dir(parent)?;
                }
                fs::write(&file, content)?;
                fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
            }
            publish(&half, &folder)?;
        }
        Ok(Self { folder, digest })
    }

    /// The directory of one language's shim.
    pub(crate) fn of(&self, language: &str) -> PathBuf {
        self.folder.join(language)
    }

    /// The path, below the directory of shims, of the native helper for Node.js snapshots; `None` if there
    /// was no C compiler to build it.
    pub(crate) fn node_helper(&self) -> Option<&'static str> {
        FILES.iter().map(|(name, _)| *name).find(|name| name.ends_with("/zygote.node"))
    }

    /// Their digest, for the addresses of artefacts that depend on them.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// The directory for files derived from the shims.
    pub(crate) fn derived(&self) -> PathBuf {
        self.folder.join(DERIVED)
    }
}

/// Unfinished work of processes that have ended: `.<name>.<pid>`.
fn leftovers(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_left = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix('.'));
        let pid = name.and_then(|name| name.rsplit_once('.')).and_then(|(_, pid)| pid.parse::<u32>().ok());
        pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
    };
    entries.filter(is_left).collect()
}

/// Creates a directory and its parents, readable for every user.
pub(crate) fn create_readable_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_readable_dir(parent)?;
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// Renames a finished directory into place. If another process was faster, its identical result stays.
pub(crate) fn publish(half: &Path, whole: &Path) -> io::Result<()> {
    match fs::rename(half, whole) {
        Err(_) if whole.is_dir() => fs::remove_dir_all(half),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laid_out_once_and_readable() {
        let root = tempfile::tempdir().unwrap();
        let shims = Shims::lay_out(root.path()).unwrap();
        let shim = shims.of("nodejs").join("shim.js");
        assert_eq!(fs::metadata(&shim).unwrap().permissions().mode() & 0o777, 0o644);
        fs::write(&shim, "marked").unwrap();
        let killed = shims.derived().join(format!(".go-1.{}/cache", u32::MAX));
        fs::create_dir_all(&killed).unwrap();
        let again = Shims::lay_out(root.path()).unwrap();
        assert_eq!(fs::read_dir(shims.derived()).unwrap().count(), 0);
        assert_eq!(fs::read(again.of("nodejs").join("shim.js")).unwrap(), b"marked");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_dead_process_has_half_made_is_left() {
        let root = tempfile::tempdir().unwrap();
        let dead = root.path().join(format!(".java-1.{}", u32::MAX));
        for name in
            [dead.clone(), root.path().join(format!(".java-1.{}", process::id())), root.path().join("java-1")]
        {
            fs::create_dir(name).unwrap();
        }
        assert_eq!(leftovers(root.path()), [dead]);
    }
}
