//! A deployed function.

use flint_executor::Prepared;
use flint_model::{
    Code, CodeFormat, Contract, Function, Isolation, Network, Reuse, Start, Strategy, StrategyRequest,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    LimitsResource, ParameterResource, PreparedResource, RetryResource, SnapshotResource, WasmResource,
};

/// A deployed function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionResource {
    /// Function name, `name` or `package/name`.
    #[schema(example = "resize")]
    pub name: String,
    /// The namespace that owns the function.
    #[schema(example = "guest")]
    pub namespace: String,
    /// The version, raised by every deploy.
    #[schema(example = "0.0.1")]
    pub version: String,
    /// Given by the write: a number greater than that of any earlier write on this server, of whatever name.
    pub revision: u64,
    /// The earlier version that a rollback restored as this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "0.0.1")]
    pub restored: Option<String>,
    /// The runtime.
    #[schema(example = "nodejs:20")]
    pub kind: String,
    /// The entry point; absent = the runtime's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main: Option<String>,
    /// How the code receives a call: `handler`, `stdio`, `http`, `openwhisk`, `actionloop`, `skeleton`, `wasi-http`, `wasi-command` or `wasm-core`
    /// (`afterburn` and `lambda` are not available yet).
    #[schema(value_type = String, example = "handler")]
    pub contract: Contract,
    /// How the function is run.
    pub strategy: StrategyResource,
    /// The contract and strategy options that the user set; Flint chose the others.
    #[serde(default)]
    pub asked: AskedResource,
    /// How the function is warmed up and frozen, if it starts from a snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotResource>,
    /// Options for isolation `wasm`, if the function uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wasm: Option<WasmResource>,
    /// The function as prepared to start; absent in lists, and until it has been prepared since the server started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared: Option<PreparedResource>,
    /// What the function may connect to: `none`, or `egress` (outside addresses, but not the host, other functions or link-local metadata).
    #[schema(value_type = String, example = "none")]
    pub network: Network,
    /// Resource limits.
    pub limits: LimitsResource,
    /// When and how often a failed non-blocking call is attempted again, if the user set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryResource>,
    /// Default arguments; absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<ParameterResource>>,
    /// Annotations.
    pub annotations: Map<String, Value>,
    /// The code.
    pub code: CodeResource,
    /// Time at which this version was deployed, in milliseconds since 1970.
    pub updated: u64,
}

/// How a function is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StrategyResource {
    /// What isolates an instance: `process`, `gvisor`, `microvm` or `wasm`.
    #[schema(value_type = String, example = "process")]
    pub isolation: Isolation,
    /// How a new instance starts: `spawn`, `fork`, `restore` or `instantiate`.
    #[schema(value_type = String, example = "spawn")]
    pub start: Start,
    /// What happens to an instance after a call: `never` (it is removed) or `warm` (it serves later calls of the function).
    #[schema(value_type = String, example = "warm")]
    pub reuse: Reuse,
    /// Maximum number of concurrent calls in one instance.
    pub concurrency: u32,
}

/// Contract and strategy options that the user set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AskedResource {
    /// How the code receives a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "handler")]
    pub contract: Option<Contract>,
    /// What isolates an instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "process")]
    pub isolation: Option<Isolation>,
    /// How a new instance starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "fork")]
    pub start: Option<Start>,
    /// What happens to an instance after a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "never")]
    pub reuse: Option<Reuse>,
}

impl From<StrategyRequest> for AskedResource {
    fn from(asked: StrategyRequest) -> Self {
        let StrategyRequest { contract, isolation, start, reuse } = asked;
        Self { contract, isolation, start, reuse }
    }
}

/// The code of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CodeResource {
    /// Format of the code: `source`, `zip`, `targz`, `jar` or `executable`.
    #[schema(value_type = String, example = "zip")]
    pub format: CodeFormat,
    /// Size in bytes.
    pub size: u64,
    /// BLAKE3 hash.
    pub digest: String,
}

/// Functions of a namespace, without their parameters, most recently deployed first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionList {
    /// One page of functions.
    pub functions: Vec<FunctionResource>,
    /// Total number of functions.
    pub total: usize,
}

impl From<Strategy> for StrategyResource {
    fn from(strategy: Strategy) -> Self {
        Self {
            isolation: strategy.isolation,
            start: strategy.start,
            reuse: strategy.reuse,
            concurrency: strategy.concurrency.get(),
        }
    }
}

impl From<&Code> for CodeResource {
    fn from(code: &Code) -> Self {
        Self { format: code.format, size: code.size.as_u64(), digest: code.digest.to_string() }
    }
}

impl FunctionResource {
    /// The function with its preparation.
    pub fn with(function: &Function, prepared: Option<&Prepared>) -> Self {
        Self { prepared: prepared.map(PreparedResource::from), ..Self::from(function) }
    }

    /// The function as shown in lists.
    pub fn listed(function: &Function) -> Self {
        Self { parameters: None, ..Self::from(function) }
    }
}

impl From<&Function> for FunctionResource {
    fn from(function: &Function) -> Self {
        Self {
            name: function.path.local(),
            namespace: function.path.namespace.to_string(),
            version: function.version.to_string(),
            revision: function.revision,
            restored: function.restored.map(|version| version.to_string()),
            kind: function.kind.to_string(),
            main: function.main.clone(),
            contract: function.contract,
            strategy: function.strategy.into(),
            asked: function.asked.into(),
            // Omitted if no options were given and it does not start by fork.
            snapshot: (function.strategy.start == Start::Fork || !function.snapshot.is_default())
                .then(|| (&function.snapshot).into()),
            wasm: (function.strategy.isolation == Isolation::Wasm || !function.wasm.is_default())
                .then(|| (&function.wasm).into()),
            prepared: None,
            network: function.network,
            limits: (&function.limits).into(),
            parameters: Some(function.parameters.0.iter().map(ParameterResource::from).collect()),
            retry: RetryResource::of(&function.annotations),
            annotations: function
                .annotations
                .iter()
                .map(|(key, value)| (key.to_owned(), value.clone()))
                .collect(),
            code: (&function.code).into(),
            updated: function.updated.as_millis(),
        }
    }
}
