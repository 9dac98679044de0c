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
    /// Its name, `name` or `package/name`.
    #[schema(example = "resize")]
    pub name: String,
    /// Its owner.
    #[schema(example = "guest")]
    pub namespace: String,
    /// The version that every deploy raises.
    #[schema(example = "0.0.1")]
    pub version: String,
    /// Counts every write.
    pub revision: u64,
    /// The earlier version that it is again, when a rollback made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "0.0.1")]
    pub restored: Option<String>,
    /// Its runtime.
    #[schema(example = "nodejs:20")]
    pub kind: String,
    /// Its entry point; absent = the runtime's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main: Option<String>,
    /// How its code receives a call.
    #[schema(value_type = String, example = "handler")]
    pub contract: Contract,
    /// How it is run.
    pub strategy: StrategyResource,
    /// What its user said about contract and strategy; the rest was chosen by Flint.
    #[serde(default)]
    pub asked: AskedResource,
    /// How it is warmed up and frozen, where it starts from a snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotResource>,
    /// What it is granted as WebAssembly, where it is that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wasm: Option<WasmResource>,
    /// The function as it was made ready; absent in lists, and as long as that was not done since the server started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepared: Option<PreparedResource>,
    /// What it may connect to.
    #[schema(value_type = String, example = "none")]
    pub network: Network,
    /// What it may use.
    pub limits: LimitsResource,
    /// When and how often a non-blocking call is attempted again, where its user says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryResource>,
    /// Its default arguments; absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<ParameterResource>>,
    /// What is known about it.
    pub annotations: Map<String, Value>,
    /// Its code.
    pub code: CodeResource,
    /// When this version was deployed, in milliseconds since 1970.
    pub updated: u64,
}

/// How a function is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StrategyResource {
    /// What separates an instance from everything else.
    #[schema(value_type = String, example = "process")]
    pub isolation: Isolation,
    /// How a new instance comes to be.
    #[schema(value_type = String, example = "spawn")]
    pub start: Start,
    /// What becomes of an instance after a call.
    #[schema(value_type = String, example = "warm")]
    pub reuse: Reuse,
    /// Calls at once in one instance.
    pub concurrency: u32,
}

/// What a user said about contract and strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AskedResource {
    /// How the code receives a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "handler")]
    pub contract: Option<Contract>,
    /// What separates an instance from everything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "process")]
    pub isolation: Option<Isolation>,
    /// How a new instance comes to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "fork")]
    pub start: Option<Start>,
    /// What becomes of an instance after a call.
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

/// A function's code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CodeResource {
    /// What it is.
    #[schema(value_type = String, example = "zip")]
    pub format: CodeFormat,
    /// Its size in bytes.
    pub size: u64,
    /// Its BLAKE3 hash.
    pub digest: String,
}

/// Functions of a namespace, without their parameters, the latest deploy first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionList {
    /// A page of them.
    pub functions: Vec<FunctionResource>,
    /// How many there are in all.
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
