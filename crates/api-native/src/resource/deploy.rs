//! Deploying a function.

use flint_model::{CodeFormat, Contract, Isolation, Network, Parameter, Reuse, Start};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{FunctionResource, LimitsPatch, RetryResource, SnapshotRequest, WasmResource};

/// What a function is to be. What is absent gets its default; only absent `code` (with `kind` and `main`) keeps what is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DeployRequest {
    /// The runtime, `family:version`, or `family:default` for the newest that this host has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "nodejs:default")]
    pub kind: Option<String>,
    /// The entry point, in the way of its language.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "main")]
    pub main: Option<String>,
    /// The code; absent = keep the deployed one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<CodeUpload>,
    /// How the code receives a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "handler")]
    pub contract: Option<Contract>,
    /// The isolation to use; absent = the cheapest that this host offers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "process")]
    pub isolation: Option<Isolation>,
    /// How a new instance comes to be; absent = `fork` for Node.js and Python with the contract `handler` where this host can, else `spawn`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "fork")]
    pub start: Option<Start>,
    /// What becomes of an instance after a call; absent = `never` for what is forked and for the contract `stdio`, else `warm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "never")]
    pub reuse: Option<Reuse>,
    /// How it is warmed up and frozen, where it starts from a snapshot.
    #[serde(skip_serializing_if = "SnapshotRequest::is_empty")]
    pub snapshot: SnapshotRequest,
    /// What it is granted as WebAssembly, where it is that.
    #[serde(skip_serializing_if = "WasmResource::is_default")]
    pub wasm: WasmResource,
    /// What it may connect to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "none")]
    pub network: Option<Network>,
    /// What it may use.
    #[serde(skip_serializing_if = "LimitsPatch::is_empty")]
    pub limits: LimitsPatch,
    /// When and how often a non-blocking call is attempted again. Kept as the annotation `flint-retry`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryResource>,
    /// Default arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<ParameterResource>,
    /// Annotations.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub annotations: Map<String, Value>,
}

/// Code on its way to the server: `text` for source, `base64` for anything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeUpload {
    /// What it is: `source`, `zip`, `targz`, `jar` or `executable`.
    #[schema(value_type = String, example = "source")]
    pub format: CodeFormat,
    /// Source as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "exports.main = ({ name }) => ({ hello: name })")]
    pub text: Option<String>,
    /// Bytes in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// A default argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ParameterResource {
    /// Its name.
    pub key: String,
    /// Its value, any JSON.
    #[serde(default)]
    pub value: Value,
    /// Goes to the environment when the code is loaded, instead of to each call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub init: bool,
}

/// What a deploy made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeployResult {
    /// The function; `prepared` in it says what it runs from.
    pub function: FunctionResource,
    /// It was not there before.
    pub created: bool,
    /// What was done to make it ready.
    pub steps: Vec<String>,
    /// How long that took, in µs.
    pub prepare_us: u64,
    /// What else its user may want to know: options that change nothing here, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One line of the answer to a deploy with `Accept: application/x-ndjson`. The last line is a `result` or an `error`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProgressLine {
    /// What is being done.
    Progress(String),
    /// It is done.
    Result(Box<DeployResult>),
    /// It was refused.
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
