//! Secrets without their values, which no API returns.

use flint_controller::Rotated;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A secret, without its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretResource {
    /// Its name.
    #[schema(example = "db-password")]
    pub name: String,
    /// Counts every write.
    pub revision: u64,
    /// The id of the key that it is encrypted with.
    #[schema(example = "9f2a61c07be4d318")]
    pub key: String,
    /// Whether this server has that key. Calls of functions that have a secret which cannot be read fail and say so.
    pub readable: bool,
    /// When its value was set, in milliseconds since 1970.
    pub updated: u64,
}

/// Secrets of a namespace in order of name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretList {
    /// All of them.
    pub secrets: Vec<SecretResource>,
}

/// What came of another key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RotatedKey {
    /// The id of the key that encrypts now.
    pub key: String,
    /// Secrets that were encrypted anew.
    pub resealed: usize,
    /// Secrets that no key at hand opens.
    pub lost: usize,
    /// The earlier keys are forgotten; not while a secret may still need one.
    pub retired: bool,
}

impl From<Rotated> for RotatedKey {
    fn from(rotated: Rotated) -> Self {
        let Rotated { key, resealed, lost, retired } = rotated;
        Self { key, resealed, lost, retired }
    }
}
