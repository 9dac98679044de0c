//! What the server says about itself and its host.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Health or readiness of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`, or the reason why not.
    #[schema(example = "ok")]
    pub status: String,
    /// Flint's version.
    pub version: String,
    /// Time since the server started, in seconds.
    pub uptime_s: u64,
}

/// What this host can and cannot run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DoctorReport {
    /// Whether the host can run functions.
    pub ok: bool,
    /// Capabilities of the host and the executors.
    pub abilities: Vec<AbilityResource>,
    /// Runtimes.
    pub runtimes: Vec<RuntimeResource>,
}

/// A capability of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AbilityResource {
    /// Capability name.
    #[schema(example = "cgroup memory limit")]
    pub name: String,
    /// Whether the capability is available.
    pub state: AbilityState,
    /// What was found.
    pub detail: String,
    /// How to get it; empty when it works.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// Availability of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AbilityState {
    /// It works.
    Works,
    /// It works in part.
    Limited,
    /// It does not work.
    Missing,
}

/// A runtime.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuntimeResource {
    /// The runtime, `family:version`.
    #[schema(example = "nodejs:20")]
    pub kind: String,
    /// Whether `family:default` means this runtime.
    pub default: bool,
    /// Whether functions can use the runtime.
    pub available: bool,
    /// What was found, or what is missing and how to get it.
    pub detail: String,
}
