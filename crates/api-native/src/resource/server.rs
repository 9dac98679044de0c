//! What the server says about itself and its host.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether the server lives, or is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`, or why not.
    #[schema(example = "ok")]
    pub status: String,
    /// Flint's version.
    pub version: String,
    /// How long it has been up, in seconds.
    pub uptime_s: u64,
}

/// What this host can run, and what it cannot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DoctorReport {
    /// Functions can run.
    pub ok: bool,
    /// Abilities of the host and of the executors.
    pub abilities: Vec<AbilityResource>,
    /// Runtimes.
    pub runtimes: Vec<RuntimeResource>,
}

/// Something that a host may offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AbilityResource {
    /// Its name.
    #[schema(example = "cgroup memory limit")]
    pub name: String,
    /// Whether it is there.
    pub state: AbilityState,
    /// What was found.
    pub detail: String,
    /// How to get it; empty when it works.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

/// Whether an ability is there.
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
    /// Its kind.
    #[schema(example = "nodejs:20")]
    pub kind: String,
    /// It is what `family:default` means.
    pub default: bool,
    /// Functions can use it.
    pub available: bool,
    /// What was found, or what is missing and how to get it.
    pub detail: String,
}
