//! Encryption keys of secrets, and the interface to their storage.

use std::fmt;

use sha2::{Digest, Sha256};

/// Bytes of a key.
const LENGTH: usize = 32;

/// Hex digits of a key's id.
const ID: usize = 16;

/// A ChaCha20-Poly1305 key. Never displayed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey {
    bytes: [u8; LENGTH],
    id: String,
}

impl SecretKey {
    fn new(bytes: [u8; LENGTH]) -> Self {
        let digest = Sha256::new().chain_update(b"flint secret key id\0").chain_update(bytes).finalize();
        Self { bytes, id: hex(&digest)[..ID].to_owned() }
    }

    /// A key from the system's random number generator; the error says why there is none.
    pub fn generate() -> Result<Self, String> {
        let mut bytes = [0; LENGTH];
        getrandom::fill(&mut bytes)
            .map_err(|error| format!("the system gives no random numbers: {error}"))?;
        Ok(Self::new(bytes))
    }

    /// Parses 64 hex digits. The error does not contain the text, which may be part of a key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("a key is {} hex digits, for example from `openssl rand -hex {LENGTH}`", 2 * LENGTH);
        if text.len() != 2 * LENGTH || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut bytes = [0; LENGTH];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self::new(bytes))
    }

    /// The key in the format of [`Self::parse`], for its storage.
    pub fn expose(&self) -> String {
        hex(&self.bytes)
    }

    /// Identifies the key without disclosing it.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.id)
    }
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The storage of keys. Every error says what is wrong and what to do. Blocking.
pub trait SecretKeys: fmt::Debug + Send + Sync {
    /// All keys: the first one encrypts, any of them decrypts. Empty until the first is created.
    fn load(&self) -> Result<Vec<SecretKey>, String>;

    /// Creates the first key, durably.
    fn create(&self) -> Result<SecretKey, String>;

    /// Creates a new first key, durably.
    fn renew(&self) -> Result<SecretKey, String>;

    /// Deletes all keys but the first.
    fn retire(&self) -> Result<(), String>;
}

/// No storage, for servers without secrets.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSecretKeys;

impl NoSecretKeys {
    fn refused<T>() -> Result<T, String> {
        Err("this server has nowhere to keep the key of secrets".to_owned())
    }
}

impl SecretKeys for NoSecretKeys {
    fn load(&self) -> Result<Vec<SecretKey>, String> {
        Ok(Vec::new())
    }

    fn create(&self) -> Result<SecretKey, String> {
        Self::refused()
    }

    fn renew(&self) -> Result<SecretKey, String> {
        Self::refused()
    }

    fn retire(&self) -> Result<(), String> {
        Self::refused()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written_and_never_shown() {
        let key = SecretKey::generate().unwrap();
        assert_eq!(SecretKey::parse(&key.expose()), Ok(key.clone()));
        assert!(key.id().len() == ID && !key.expose().contains(key.id()));
        assert_eq!(format!("{key:?}"), format!("SecretKey({})", key.id()));
        for bad in ["", "ab", &"g".repeat(64), &"a".repeat(65), &"é".repeat(32)] {
            let error = SecretKey::parse(bad).unwrap_err();
            assert!(bad.len() < 9 || !error.contains(bad), "{error}");
        }
    }
}
