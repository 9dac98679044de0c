//! Secrets without their values, which no API returns.

use flint_controller::Rotated;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A secret, without its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretResource {
    /// Secret name.
    #[schema(example = "db-password")]
    pub name: String,
    /// Given by the write: a number greater than that of any earlier write on this server, of whatever name.
    pub revision: u64,
    /// Id of the key that the secret is encrypted with.
    #[schema(example = "9f2a61c07be4d318")]
    pub key: String,
    /// Whether this server has that key. If not, calls of functions that use the secret fail with an error that says so.
    pub readable: bool,
    /// Time at which the value was set, in milliseconds since 1970.
    pub updated: u64,
}

/// Secrets of a namespace, sorted by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretList {
    /// All secrets.
    pub secrets: Vec<SecretResource>,
}

/// Result of a key rotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RotatedKey {
    /// Id of the new encryption key.
    pub key: String,
    /// Number of secrets encrypted again with the new key.
    pub resealed: usize,
    /// Number of secrets that no available key decrypts.
    pub lost: usize,
    /// Whether the earlier keys were deleted. They are kept while a secret may still need one.
    pub retired: bool,
}

impl From<Rotated> for RotatedKey {
    fn from(rotated: Rotated) -> Self {
        let Rotated { key, resealed, lost, retired } = rotated;
        Self { key, resealed, lost, retired }
    }
}
