//! Who owns what, and by which key.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{ActivationId, NamespaceLimits, NamespaceName, Timestamp};

/// An owner of functions, activations and limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Namespace {
    /// Its name.
    pub name: NamespaceName,
    /// What differs from the server's limits.
    #[serde(default)]
    pub limits: NamespaceLimits,
    /// A blocked namespace's keys stop working.
    #[serde(default)]
    pub blocked: bool,
    /// When it was created.
    pub created: Timestamp,
}

/// The public half of an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyId(pub Uuid);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// SHA-256 of a key's secret half. The secret has 64 random characters, so a plain hash cannot be searched.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretHash(pub [u8; 32]);

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(..)")
    }
}

/// A key as the store knows it: one key opens one namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyRecord {
    /// The public half.
    pub id: KeyId,
    /// The hash of the secret half.
    pub secret: SecretHash,
    /// What it opens.
    pub namespace: NamespaceName,
    /// On whose behalf.
    pub subject: String,
    /// When it was made.
    pub created: Timestamp,
}

/// A whole key, as its owner holds it: `uuid:secret`. Never stored, never logged.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The public half.
    pub id: KeyId,
    /// The secret half, 64 characters.
    pub secret: String,
}

impl ApiKey {
    /// How many characters a secret has.
    pub const SECRET_LENGTH: usize = 64;

    /// Reads `uuid:secret`; `None` when it has another shape.
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.split_once(':')?;
        let well_formed =
            secret.len() == Self::SECRET_LENGTH && secret.bytes().all(|b| b.is_ascii_alphanumeric());
        well_formed.then_some(())?;
        Some(Self { id: KeyId(Uuid::parse_str(id).ok()?), secret: secret.to_owned() })
    }

    /// The key as an activation gets it, `uuid:secret.activation`: it grants the same, and says who uses it. Text that is not a key is returned
    /// unchanged.
    pub fn of_activation(key: &str, activation: ActivationId) -> String {
        let (key, _) = Self::without_activation(key);
        match Self::parse(key) {
            Some(_) => format!("{key}.{activation}"),
            None => key.to_owned(),
        }
    }

    /// The key alone, and the activation that it was given to.
    pub fn without_activation(text: &str) -> (&str, Option<ActivationId>) {
        match text.rsplit_once('.').and_then(|(key, id)| Some((key, id.parse().ok()?))) {
            Some((key, id)) => (key, Some(id)),
            None => (text, None),
        }
    }

    /// The form that clients send: `uuid:secret`.
    pub fn expose(&self) -> String {
        format!("{}:{}", self.id, self.secret)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({}:..)", self.id)
    }
}

/// Who is calling, once a key has been checked.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The namespace that the key opens.
    pub namespace: Arc<Namespace>,
    /// On whose behalf.
    pub subject: Arc<str>,
    /// Which key it was.
    pub key: KeyId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_a_uuid_and_64_characters_and_does_not_print_its_secret() {
        let secret = "s".repeat(64);
        let text = format!("23bc46b1-71f6-4ed5-8c54-816aa4f8c502:{secret}");
        let key = ApiKey::parse(&text).unwrap();
        assert_eq!(key.expose(), text);
        assert!(!format!("{key:?}").contains(&secret));
        let (one, other) = (ActivationId::generate(), ActivationId::from_u128(7));
        let given = ApiKey::of_activation(&text, one);
        assert_eq!(given, format!("{text}.{one}"));
        assert_eq!(ApiKey::without_activation(&given), (text.as_str(), Some(one)));
        assert_eq!(ApiKey::of_activation(&given, other), format!("{text}.{other}"));
        for unnamed in [text.as_str(), "no key", "a.b", ""] {
            assert_eq!(ApiKey::without_activation(unnamed), (unnamed, None));
        }
        assert_eq!(ApiKey::of_activation("no key", one), "no key");
        for bad in ["", ":", "x:y", "23bc46b1-71f6-4ed5-8c54-816aa4f8c502:short", &given] {
            assert!(ApiKey::parse(bad).is_none(), "{bad}");
        }
    }
}
