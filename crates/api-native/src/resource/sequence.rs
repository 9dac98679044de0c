//! Sequences.

use flint_model::Sequence;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::RetryResource;

/// A sequence to create or replace.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SequenceRequest {
    /// Functions and sequences to call, in order: `name` or `package/name` in this namespace, or `/namespace/[package/]name`.
    #[schema(example = json!(["fetch", "resize", "/guest/images/store"]))]
    pub components: Vec<String>,
    /// Fail if the name is already taken, instead of replacing; absent = no.
    #[serde(default)]
    pub create_only: bool,
    /// When and how often a failed non-blocking call of the whole sequence is attempted again, from its first step. Stored as the annotation `flint-retry`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryResource>,
}

/// A sequence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SequenceResource {
    /// The namespace that owns the sequence.
    pub namespace: String,
    /// Sequence name, `[package/]name`.
    pub name: String,
    /// The version.
    pub version: String,
    /// What is called, in order, each as `/namespace/[package/]name`.
    pub components: Vec<String>,
    /// Time of the last write, in milliseconds since 1970.
    pub updated: u64,
    /// Annotations.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub annotations: Map<String, Value>,
}

/// Sequences of a namespace, most recently written first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SequenceList {
    /// The sequences requested.
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
