//! Deploying a function.

use flint_model::{CodeFormat, Contract, Isolation, Network, Parameter, Reuse, Start};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{FunctionResource, LimitsPatch, RetryResource, SnapshotRequest, WasmResource};

/// A function to deploy. Absent fields get their defaults, except that without `code` the deployed code is kept, with its `kind` and `main`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DeployRequest {
    /// The runtime: `family:version`, or `family:default` for the newest on this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "nodejs:default")]
    pub kind: Option<String>,
    /// The entry point, in the notation of the language.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "main")]
    pub main: Option<String>,
    /// The code; absent = keep the deployed code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<CodeUpload>,
    /// How the code receives a call: `handler`, `stdio`, `http`, `openwhisk`, `actionloop`, `skeleton`, `wasi-http`, `wasi-command` or `wasm-core`
    /// (`afterburn` and `lambda` are not available yet); absent = what follows from the kind and the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "handler")]
    pub contract: Option<Contract>,
    /// What isolates an instance: `process` or `wasm` (`gvisor` and `microvm` are not available yet); absent = `wasm` for the contracts of WebAssembly, else `process`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "process")]
    pub isolation: Option<Isolation>,
    /// How a new instance starts: `spawn`, `fork` or `instantiate` (`restore` is not available yet); absent = `instantiate` for isolation `wasm`, `fork` for Node.js and
    /// Python with the contract `handler` if this host supports it, else `spawn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "fork")]
    pub start: Option<Start>,
    /// What happens to an instance after a call: `never` (it is removed) or `warm` (it serves later calls of the function); absent = `never` for forked instances,
    /// for the contract `stdio` and for isolation `wasm`, else `warm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "never")]
    pub reuse: Option<Reuse>,
    /// How the function is warmed up and frozen, if it starts from a snapshot.
    #[serde(skip_serializing_if = "SnapshotRequest::is_empty")]
    pub snapshot: SnapshotRequest,
    /// Options for isolation `wasm`.
    #[serde(skip_serializing_if = "WasmResource::is_default")]
    pub wasm: WasmResource,
    /// What the function may connect to: `none`, or `egress` (outside addresses, but not the host, other functions or link-local metadata); absent = `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "none")]
    pub network: Option<Network>,
    /// Resource limits.
    #[serde(skip_serializing_if = "LimitsPatch::is_empty")]
    pub limits: LimitsPatch,
    /// When and how often a failed non-blocking call is attempted again. Stored as the annotation `flint-retry`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryResource>,
    /// Default arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<ParameterResource>,
    /// Annotations.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub annotations: Map<String, Value>,
}

/// Code to deploy: source in `text`, anything else in `base64`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeUpload {
    /// Format of the code: `source`, `zip`, `targz`, `jar` or `executable`.
    #[schema(value_type = String, example = "source")]
    pub format: CodeFormat,
    /// Source code as plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "exports.main = ({ name }) => ({ hello: name })")]
    pub text: Option<String>,
    /// Code bytes, base64-encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// A default argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ParameterResource {
    /// Argument name.
    pub key: String,
    /// Argument value, any JSON.
    #[serde(default)]
    pub value: Value,
    /// Set the argument in the environment when the code is loaded, instead of passing it to each call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub init: bool,
}

/// Result of a deploy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeployResult {
    /// The function; its field `prepared` shows what it runs from.
    pub function: FunctionResource,
    /// Whether the function is new.
    pub created: bool,
    /// Steps taken to make the function ready.
    pub steps: Vec<String>,
    /// Duration of these steps, in µs.
    pub prepare_us: u64,
    /// Remarks, such as options that have no effect here, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One line of the response to a deploy with `Accept: application/x-ndjson`. The last line is a `result` or an `error`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProgressLine {
    /// The step in progress.
    Progress(String),
    /// The deploy succeeded.
    Result(Box<DeployResult>),
    /// The deploy failed.
    Error(super::ErrorDetail),
}

impl From<&Parameter> for ParameterResource {
    fn from(parameter: &Parameter) -> Self {
        Self { key: parameter.key.clone(), value: parameter.value.clone(), init: parameter.init }
    }
}

impl From<ParameterResource> for Parameter {
    fn from(parameter: ParameterResource) -> Self {
        Self { key: parameter.key, value: parameter.value, init: parameter.init }
    }
}
