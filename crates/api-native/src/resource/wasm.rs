//! Grants to WebAssembly functions.

use std::collections::BTreeMap;

use flint_model::{HostPattern, WasmOptions};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Options for isolation `wasm`: what the function is granted, and how it is prepared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WasmResource {
    /// Where the function may send HTTP requests, at most 64: `[http://|https://]HOST[:PORT]`, with HOST a name, an address, `*.NAME` or `*`. Addresses of this
    /// host and of private networks are never reachable. Empty = nowhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, example = json!(["https://api.example.com"]))]
    pub allow_hosts: Vec<HostPattern>,
    /// Whether the function may use its namespace's buckets through `wasi:keyvalue`; absent = no.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keyvalue: bool,
    /// Values that the function reads through `wasi:config`, at most 64 KiB.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, String>,
    /// Whether a module that exports an initialiser (`wizer-initialize`) is initialised when it is deployed; absent = yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preinit: Option<bool>,
}

impl WasmResource {
    /// Whether nothing is given.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl From<WasmResource> for WasmOptions {
    fn from(resource: WasmResource) -> Self {
        let WasmResource { allow_hosts, keyvalue, config, preinit } = resource;
        Self { allow_hosts, keyvalue, config, preinit: preinit.unwrap_or(true) }
    }
}

impl From<&WasmOptions> for WasmResource {
    fn from(options: &WasmOptions) -> Self {
        let WasmOptions { allow_hosts, keyvalue, config, preinit } = options.clone();
        Self { allow_hosts, keyvalue, config, preinit: Some(preinit) }
    }
}
