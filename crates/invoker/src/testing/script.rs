//! The behaviour of a simulated function.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use bytes::Bytes;
use flint_executor::{Body, Call, Fault};
use flint_model::{
    ActivationId, Annotations, ByteSize, Code, CodeFormat, Contract, Digest, Function, FunctionLimits,
    FunctionPath, Isolation, NamespaceName, Network, Parameters, Reuse, Start, Strategy, Timestamp, Version,
};
use tokio::time::Instant;

use crate::{InstanceKey, Job};

/// The behaviour of a simulated function.
#[derive(Clone, Debug)]
pub struct Script {
    /// How long a start takes.
    pub start: Duration,
    /// Starts take a prewarmed runtime.
    pub prewarmed: bool,
    /// Starts resume a snapshot, which takes this time; only a function's first start also takes `start`, to
    /// make it.
    pub restore: Option<Duration>,
    /// How long a call takes.
    pub service: Duration,
    /// How much longer the first call of an instance takes: its code is not compiled yet.
    pub first_call: Duration,
    /// How long a stop takes.
    pub stop: Duration,
    /// How long a pause takes.
    pub pause: Duration,
    /// What an instance uses.
    pub memory: ByteSize,
    /// CPU time that a call reports.
    pub cpu: Option<Duration>,
    /// Number of starts that fail, from the first.
    pub failing_starts: usize,
    /// How they fail.
    pub start_fault: Fault,
    /// What calls do.
    pub answer: Answer,
    /// An instance ends by itself when it was idle for so long.
    pub dies_idle_after: Option<Duration>,
}

/// What a call does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Answers `{}`.
    Json,
    /// Answers in this number of pieces, each taking the service time.
    Stream(usize),
    /// Fails, and takes the instance with it.
    Fault(Fault),
    /// Never ends, whatever its deadline: the executor is broken.
    Hang,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            start: Duration::from_millis(50),
            prewarmed: false,
            restore: None,
            service: Duration::from_millis(1),
            first_call: Duration::ZERO,
            stop: Duration::from_millis(2),
            pause: Duration::from_millis(1),
            memory: ByteSize::mib(45),
            cpu: None,
            failing_starts: 0,
            start_fault: Fault::Developer { message: "SyntaxError".to_owned() },
            answer: Answer::Json,
            dies_idle_after: None,
        }
    }
}

/// A warm Node.js function `namespace/name`.
///
/// # Panics
/// When `path` is not a path.
pub fn function(path: &str) -> Function {
    Function {
        path: path.parse::<FunctionPath>().expect("a path"),
        version: Version::FIRST,
        revision: 1,
        kind: "nodejs:20".parse().expect("a kind"),
        code: Code {
            digest: Digest::from_bytes([0; 32]),
            size: ByteSize::bytes(1),
            format: CodeFormat::Source,
        },
        main: None,
        image: None,
        contract: Contract::Handler,
        strategy: Strategy {
            isolation: Isolation::Process,
            start: Start::Spawn,
            reuse: Reuse::Warm,
            concurrency: NonZeroU32::MIN,
        },
        network: Network::None,
        limits: FunctionLimits::default(),
        parameters: Parameters::default(),
        annotations: Annotations::default(),
        publish: false,
        restored: None,
        asked: flint_model::StrategyRequest::default(),
        snapshot: flint_model::SnapshotOptions::default(),
        wasm: flint_model::WasmOptions::default(),
        updated: Timestamp::from_millis(0),
    }
}

/// The same, with a fresh instance for each call.
pub fn never(path: &str) -> Function {
    let mut function = function(path);
    function.strategy.reuse = Reuse::Never;
    function
}

/// A call of `function` on its owner's account.
pub fn job(function: &Arc<Function>) -> Job {
    let now = Instant::now();
    Job {
        key: key(function),
        function: Arc::clone(function),
        call: Call {
            activation: ActivationId::generate(),
            transaction: "t".into(),
            deadline: now.into_std(),
            deadline_at: Timestamp::from_millis(0),
            head: None,
            body: Body::Full(Bytes::from_static(b"{}")),
            api_key: None,
            max_result: ByteSize::mib(1),
            max_logs: ByteSize::mib(1),
        },
        environment: Arc::default(),
        arrived: now.into_std(),
        nested: 0,
        before: None,
    }
}

/// The key of a function's calls on its owner's account.
pub fn key(function: &Function) -> Arc<InstanceKey> {
    let namespace: &NamespaceName = &function.path.namespace;
    Arc::new(InstanceKey::new(namespace, function, 0))
}
