//! Namespaces and their keys.

use flint_model::{Namespace, NamespaceLimits};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A namespace: owner of functions, activations and limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NamespaceResource {
    /// Namespace name.
    #[schema(example = "shop")]
    pub name: String,
    /// Limits that differ from the server's: `invocationsPerMinute`, `concurrentInvocations`, `firesPerMinute`, `allowedKinds`, `storeActivations`,
    /// `minActionMemory`, `maxActionMemory`, `minActionLogs`, `maxActionLogs` (MB), `minActionTimeout`, `maxActionTimeout` (ms), `minActionConcurrency`,
    /// `maxActionConcurrency`, `maxActionInstances`, `maxParameterSize`, `maxPayloadSize`, `truncationSize` (bytes, or a text such as `2 MB`),
    /// `warmedContainerKeepingCount`, `warmedContainerKeepingTimeout` (`10min`).
    #[schema(value_type = Object)]
    pub limits: NamespaceLimits,
    /// Whether the namespace's keys are blocked.
    pub blocked: bool,
    /// Creation time, in milliseconds since 1970.
    pub created: u64,
    /// The public parts of the namespace's keys.
    #[serde(default)]
    pub keys: Vec<KeyResource>,
}

/// The public part of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyResource {
    /// The key's UUID.
    pub id: String,
    /// The subject that the key calls as.
    pub subject: String,
    /// Creation time, in milliseconds since 1970.
    pub created: u64,
}

/// A namespace to create.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NamespaceCreate {
    /// Namespace name, up to 256 characters: letters, digits, `_ @ . & -` and inner spaces.
    pub name: String,
    /// The subject that the first key calls as; absent = the namespace's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Limits that differ from the server's; see `NamespaceResource`.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub limits: NamespaceLimits,
}

/// Changes to a namespace; absent = unchanged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NamespacePatch {
    /// Limits that replace all limits of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub limits: Option<NamespaceLimits>,
    /// Whether to block the namespace's keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<bool>,
}

/// A new key. Its secret is shown only here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyCreated {
    /// The namespace that the key opens.
    pub namespace: String,
    /// The subject that the key calls as.
    pub subject: String,
    /// The whole key, `uuid:secret`.
    pub key: String,
}

impl From<&Namespace> for NamespaceResource {
    fn from(namespace: &Namespace) -> Self {
        Self {
            name: namespace.name.to_string(),
            limits: namespace.limits.clone(),
            blocked: namespace.blocked,
            created: namespace.created.as_millis(),
            keys: Vec::new(),
        }
    }
}
