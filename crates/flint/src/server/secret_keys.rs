//! Storage of the encryption keys of secrets: a file readable by its owner only, or an environment variable.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use flint_controller::{SecretKey, SecretKeys};

use super::Owner;
use crate::config::Config;

/// Within the data directory, unless `secrets.key_file` names another file.
pub(crate) const KEY_FILE: &str = "secrets.key";

const HEAD: &str = "# Keys of Flint's secrets, 64 hex digits a line: the first encrypts, all decrypt.\n# Without them the secrets are lost. A backup does not have them: keep a copy elsewhere.\n";

/// The storage chosen by the configuration.
#[derive(Debug)]
pub(super) enum KeptKeys {
    File(PathBuf),
    Variable(String),
}

impl KeptKeys {
    pub(super) fn of(config: &Config) -> Self {
        match &config.secrets.key_env {
            Some(name) => Self::Variable(name.clone()),
            None => {
                let in_data_dir = || config.server.data_dir.join(KEY_FILE);
                Self::File(config.secrets.key_file.clone().unwrap_or_else(in_data_dir))
            }
        }
    }

    /// The file, for writing.
    fn file(&self) -> Result<&Path, String> {
        match self {
            Self::File(path) => Ok(path),
            Self::Variable(name) => Err(format!(
                "the key of secrets comes from the environment variable {name} (secrets.key_env), which only the operator can set: put a new key (`openssl rand -hex 32`) before those that are there, with a comma between them, restart the server, which encrypts everything with the first, and then remove the others"
            )),
        }
    }
}

impl SecretKeys for KeptKeys {
    fn load(&self) -> Result<Vec<SecretKey>, String> {
        match self {
            Self::Variable(name) => {
                let text = std::env::var(name).map_err(|error| {
                    format!("the environment variable {name}, which secrets.key_env names, cannot be read: {error}")
                })?;
                read(text.split(',')).map_err(|error| format!("the environment variable {name}: {error}"))
            }
            Self::File(path) => {
                let text = match fs::read_to_string(path) {
                    Ok(text) => text,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                    Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
                };
                let mode = fs::metadata(path).map_or(0, |data| data.mode());
                if mode & 0o077 != 0 {
                    tracing::warn!(path = %path.display(), "others can read the key of secrets: chmod 600");
                }
                read(text.lines()).map_err(|error| format!("{}: {error}", path.display()))
            }
        }
    }

    fn create(&self) -> Result<SecretKey, String> {
        let (path, key) = (self.file()?, SecretKey::generate()?);
        if path.exists() {
            // Another key was created meanwhile, or the file contains no key.
            return Err(format!("{} is there already and has no key that can be used", path.display()));
        }
        write(path, std::slice::from_ref(&key))?;
        Ok(key)
    }

    fn renew(&self) -> Result<SecretKey, String> {
        let (path, key) = (self.file()?, SecretKey::generate()?);
        let mut keys = self.load()?;
        keys.insert(0, key.clone());
        write(path, &keys)?;
        Ok(key)
    }

    fn retire(&self) -> Result<(), String> {
        write(self.file()?, self.load()?.get(..1).unwrap_or_default())
    }
}

/// Parses one key per line.
fn read<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Vec<SecretKey>, String> {
    let lines = lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(SecretKey::parse).collect()
}

/// Writes the file atomically and durably.
fn write(path: &Path, keys: &[SecretKey]) -> Result<(), String> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut text = HEAD.to_owned();
    keys.iter().for_each(|key| text.extend([&key.expose(), "\n"]));
    let owner = Owner::of(path).or_else(|| Owner::of(path.parent()?));
    let _ = fs::remove_file(&new); // what a crash left
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut file| {
            owner.map_or(Ok(()), |owner| owner.give(&file))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&new, path))
        .and_then(|()| match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        });
    written.map_err(|error| format!("the key of secrets cannot be written to {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(keys: &KeptKeys) -> Vec<String> {
        keys.load().unwrap().iter().map(|key| key.id().to_owned()).collect()
    }

    #[test]
    fn a_key_is_made_once_renewed_and_the_old_one_kept_until_it_is_retired() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secrets.key");
        let keys = KeptKeys::File(path.clone());
        assert_eq!(ids(&keys), [""; 0]);
        let first = keys.create().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(keys.create().unwrap_err().contains("is there already"));
        let second = keys.renew().unwrap();
        assert_eq!(ids(&keys), [second.id(), first.id()]);
        keys.retire().unwrap();
        assert_eq!(ids(&keys), [second.id()]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
        assert!(!format!("{keys:?}").contains(&second.expose()));
    }

    #[test]
    fn a_key_that_root_makes_or_renews_belongs_to_who_has_the_directory() {
        if !rustix::process::geteuid().is_root() {
            println!("not checked: it takes root to give files away");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).unwrap();
        let path = dir.path().join("secrets.key");
        let keys = KeptKeys::File(path.clone());
        let owner = || fs::metadata(&path).map(|data| (data.uid(), data.gid())).unwrap();
        // Links are not followed.
        std::os::unix::fs::symlink("elsewhere", dir.path().join("secrets.key.new")).unwrap();
        keys.create().unwrap();
        assert!(owner() == (65534, 65534) && !dir.path().join("elsewhere").exists());
        keys.renew().unwrap();
        assert_eq!(owner(), (65534, 65534));
    }

    #[test]
    fn what_is_no_key_is_refused_with_its_place_and_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k");
        let almost = "a".repeat(63);
        fs::write(&path, format!("# mine\n\n{}\n{almost}\n", "b".repeat(64))).unwrap();
        let error = KeptKeys::File(path.clone()).load().unwrap_err();
        assert!(error.starts_with(&path.display().to_string()) && !error.contains(&almost), "{error}");
        let unset = KeptKeys::Variable("FLINT_NO_SUCH_VARIABLE".to_owned());
        assert!(unset.load().unwrap_err().contains("FLINT_NO_SUCH_VARIABLE"));
        assert!(unset.renew().unwrap_err().contains("openssl rand"));
    }
}
