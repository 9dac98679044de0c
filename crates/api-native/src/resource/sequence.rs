//! Sequences.

use flint_model::Sequence;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::RetryResource;

/// What a sequence is to call.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SequenceRequest {
    /// Functions and sequences in order: `name` or `package/name` of the namespace, or `/namespace/[package/]name`.
    #[schema(example = json!(["fetch", "resize", "/guest/images/store"]))]
    pub components: Vec<String>,
    /// Refuse to replace what is there.
    #[serde(default)]
    pub create_only: bool,
    /// When and how often a non-blocking call of the whole sequence is attempted again, from its first step. Kept as the annotation `flint-retry`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryResource>,
}

/// A sequence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SequenceResource {
    /// Its namespace.
    pub namespace: String,
    /// Its name, `[package/]name`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What is called, in order, each `/namespace/[package/]name`.
    pub components: Vec<String>,
    /// When it was written, in milliseconds since 1970.
    pub updated: u64,
    /// Annotations.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub annotations: Map<String, Value>,
}

/// The sequences of a namespace, the latest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SequenceList {
    /// Those that were asked for.
    pub sequences: Vec<SequenceResource>,
}

impl From<&Sequence> for SequenceResource {
    fn from(sequence: &Sequence) -> Self {
        let annotations = sequence.annotations.iter().map(|(key, value)| (key.to_owned(), value.clone()));
        Self {
            namespace: sequence.path.namespace.to_string(),
            name: sequence.path.local(),
            version: sequence.version.to_string(),
            components: sequence.components.iter().map(|path| format!("/{path}")).collect(),
            updated: sequence.updated.as_millis(),
            annotations: annotations.collect(),
        }
    }
}
