//! The request of a deploy.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use bytes::Bytes;
use flint_executor::Prepared;
use flint_model::{
    Annotations, ByteSize, CodeFormat, Function, FunctionLimits, Network, Parameters, SnapshotOptions,
    StrategyRequest, Version, WasmOptions,
};

/// A deploy. An absent field keeps its old value, or gets its default in a new function.
#[derive(Clone, Debug, Default)]
pub struct PutFunction {
    /// Replace an existing function; otherwise it is refused ([`crate::ControllerError::Exists`]).
    pub overwrite: bool,
    /// The code and its entry point.
    pub code: Option<PutCode>,
    /// The container image that clients name beside the code; replaced with it.
    pub image: Option<String>,
    /// Requested contract and strategy.
    pub strategy: StrategyRequest,
    /// How the parts that `strategy` leaves open are chosen.
    pub unnamed: Unnamed,
    /// Clones of a snapshot are reused unless the user says otherwise: code written for platforms that keep
    /// instances relies on its connections.
    pub keep_clones: bool,
    /// How it is warmed up and snapshotted; replaces the old options.
    pub snapshot: Option<SnapshotOptions>,
    /// Grants to WebAssembly code; replace the old ones.
    pub wasm: Option<WasmOptions>,
    /// What it may connect to.
    pub network: Option<Network>,
    /// Requested limits; absent ones keep their old value.
    pub limits: LimitsWish,
    /// Default arguments; replace all old ones.
    pub parameters: Option<Parameters>,
    /// Merged key by key into the old ones.
    pub annotations: Annotations,
    /// Keys removed before that.
    pub remove_annotations: Vec<String>,
    /// Drop all annotations of the function that is replaced.
    pub forget_annotations: bool,
    /// The version; by default the old one with its last number incremented.
    pub version: Option<Version>,
    /// Stored because clients set it.
    pub publish: Option<bool>,
    /// When the function is prepared.
    pub prepare: PrepareWhen,
}

/// Code and its entry point.
#[derive(Clone, Debug)]
pub struct PutCode {
    /// The runtime as the user wrote it: `nodejs:20`, `nodejs:default`, `nodejs`, `python:3`.
    pub kind: String,
    /// The code itself.
    pub content: Bytes,
    /// What `content` is; absent: recognised from its first bytes and the kind.
    pub format: Option<CodeFormat>,
    /// The entry point.
    pub main: Option<String>,
}

/// How parts of contract and strategy that a deploy leaves open are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unnamed {
    /// By Flint, as for a new function.
    #[default]
    Default,
    /// As requested before, unless the runtime or the contract changes.
    Kept,
}

/// Requested limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitsWish {
    /// How long initialisation, and each call, may take.
    pub timeout: Option<Duration>,
    /// Memory of one instance.
    pub memory: Option<ByteSize>,
    /// How much one activation may log.
    pub logs: Option<ByteSize>,
    /// Calls at once in one instance.
    pub concurrency: Option<u32>,
    /// Instances at once; `Some(None)`: as many as there is memory for.
    pub instances: Option<Option<u32>>,
    /// Thousandths of a core.
    pub cpu_millis: Option<u32>,
    /// Processes and threads at once.
    pub processes: Option<u32>,
    /// Size of `/tmp`.
    pub tmp: Option<ByteSize>,
}

/// All of them, as they are.
impl From<FunctionLimits> for LimitsWish {
    fn from(limits: FunctionLimits) -> Self {
        Self {
            timeout: Some(limits.timeout),
            memory: Some(limits.memory),
            logs: Some(limits.logs),
            concurrency: Some(limits.concurrency.get()),
            instances: Some(limits.instances.map(NonZeroU32::get)),
            cpu_millis: Some(limits.cpu_millis),
            processes: Some(limits.processes),
            tmp: Some(limits.tmp),
        }
    }
}

/// When a function is prepared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrepareWhen {
    /// Before the deploy is answered: if the code cannot be prepared, the deploy is refused and nothing is
    /// written.
    #[default]
    Now,
    /// After the deploy is answered: broken code is accepted and fails when called, as OpenWhisk's clients
    /// expect.
    Background,
}

/// The result of a deploy.
#[derive(Clone, Debug)]
pub struct Deployed {
    /// The function as it is now.
    pub function: Arc<Function>,
    /// Whether it is new.
    pub created: bool,
    /// Steps of the preparation, for people; empty if it runs in the background.
    pub steps: Vec<String>,
    /// How long that took; zero if it was prepared already.
    pub took: Duration,
    /// The preparation; absent if it runs in the background.
    pub prepared: Option<Arc<Prepared>>,
}
