//! The operator's key and the server's address: `operator.json` in the data directory, readable by its owner
//! only, who has full access to the data anyway.

use std::{
    fs, io,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use flint_model::{ApiKey, KeyId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Owner;
use crate::failure::Failure;

const FILE: &str = "operator.json";

/// The contents of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OperatorFile {
    /// The operator's key, `uuid:secret`.
    key: String,
    /// The server's URL; absent while none runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
}

impl OperatorFile {
    /// The next step for who may not read the data.
    pub(crate) const FOR_ITS_USER: &str =
        "only the user that runs the server may manage it; try it as that user";

    /// Reads the file, if it exists.
    pub(crate) fn read(data_dir: &Path) -> Result<Option<Self>, Failure> {
        let path = data_dir.join(FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let failure = Failure::local(format!("cannot read {}: {error}", path.display()));
                return Err(match error.kind() {
                    io::ErrorKind::PermissionDenied => failure.hint(Self::FOR_ITS_USER),
                    _ => failure,
                });
            }
        };
        let wrong = || {
            Failure::local(format!("{} is not what Flint wrote", path.display()))
                .hint("remove it; the next start makes a new key")
        };
        let file: Self = serde_json::from_slice(&text).map_err(|_| wrong())?;
        ApiKey::parse(&file.key).is_some().then_some(Some(file)).ok_or_else(wrong)
    }

    /// Reads the file, or creates it with a new key.
    pub(crate) fn read_or_make(data_dir: &Path) -> Result<Self, Failure> {
        if let Some(file) = Self::read(data_dir)? {
            return Ok(file);
        }
        // Two random UUIDs without hyphens: 64 characters with 244 random bits.
        let secret = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let key = ApiKey { id: KeyId(Uuid::new_v4()), secret };
        let file = Self { key: key.expose(), url: None };
        file.write(data_dir)?;
        Ok(file)
    }

    /// Writes the file atomically.
    pub(crate) fn write(&self, data_dir: &Path) -> Result<(), Failure> {
        let path: PathBuf = data_dir.join(FILE);
        let new = data_dir.join(format!("{FILE}.new"));
        let _ = fs::remove_file(&new); // what a crash left
        let written = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| {
                Owner::of(data_dir).map_or(Ok(()), |owner| owner.give(&file))?;
                file.write_all(&serde_json::to_vec(self).unwrap_or_default())?;
                // After a power failure the new name must not refer to an empty file, which the next start
                // would refuse.
                file.sync_all()
            })
            .and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| {
            let _ = fs::remove_file(&new); // half of it, if any
            let failure = Failure::local(format!("cannot write {}: {error}", path.display()));
            match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    failure.hint("free space on the volume of the data directory")
                }
                _ => failure,
            }
        })
    }

    /// The key in the form that clients send.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The key in the form that the API checks.
    pub(crate) fn api_key(&self) -> Option<ApiKey> {
        ApiKey::parse(&self.key)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_key_stays_and_is_for_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        assert!(OperatorFile::read(dir.path()).unwrap().is_none());
        let made = OperatorFile::read_or_make(dir.path()).unwrap();
        assert_eq!(OperatorFile::read_or_make(dir.path()).unwrap().key(), made.key());
        assert!(made.api_key().is_some());
        assert_eq!(fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode() & 0o777, 0o600);
        for damaged in [&b"{}"[..], b"\xff\xfe", b""] {
            fs::write(dir.path().join(FILE), damaged).unwrap();
            let refused = OperatorFile::read(dir.path()).unwrap_err();
            assert!(refused.hint.is_some_and(|hint| hint.starts_with("remove it")));
        }
    }
}
