//! The executor under test, and helpers to call it.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use flint_model::{
    ActivationId, Annotations, ByteSize, Code, CodeFormat, Contract, Digest, Function, FunctionLimits,
    InstanceId, Kind, LogLine, NamespaceName, Network, Parameters, Strategy, Timestamp, Version,
};
use serde_json::{Value, json};

use super::Language;
use crate::{
    Body, Call, CallEnd, Executor, Fault, FunctionSource, Instance, Invoked, Reply, StartContext,
    StartFailure,
};

/// A test that takes longer is considered hung.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// The time limit of calls that should succeed.
pub(super) const AMPLE: Duration = Duration::from_secs(60);
/// The time limit of calls that should exceed it.
pub(super) const SHORT: Duration = Duration::from_millis(1500);

/// An executor and one of its runtimes.
pub struct Subject {
    /// The executor.
    pub executor: Arc<dyn Executor>,
    /// The runtime to test it with.
    pub kind: Kind,
    /// The language of [`Self::kind`].
    pub language: Language,
    /// The strategy by which the executor runs functions.
    pub strategy: Strategy,
    /// Directories that functions must not see, and that starts and stops must not fill: data, artefacts,
    /// sandbox state.
    pub folders: Vec<PathBuf>,
    /// A part of the path of every cgroup that belongs to the executor.
    pub mark: String,
}

/// A finished call.
pub(super) struct Done {
    pub(super) result: Result<Reply, Fault>,
    pub(super) end: CallEnd,
}

impl Done {
    /// The JSON answer of a successful call.
    #[track_caller]
    pub(super) fn json(&self) -> Value {
        match &self.result {
            Ok(reply) => serde_json::from_slice(&reply.body).expect("the answer is JSON"),
            Err(fault) => panic!("{fault:?}; logs: {:#?}", self.end.logs),
        }
    }

    #[track_caller]
    pub(super) fn fault(&self) -> &Fault {
        self.result.as_ref().expect_err("the call was to fail")
    }

    pub(super) fn texts(&self) -> Vec<&str> {
        self.end.logs.iter().map(|line: &LogLine| line.text.as_str()).collect()
    }
}

impl Subject {
    /// A function with this source text.
    pub(super) fn function(&self, code: &str, limits: FunctionLimits) -> FunctionSource {
        let code = Bytes::copy_from_slice(code.as_bytes());
        let function = Function {
            path: "guest/conformance".parse().expect("a path"),
            version: Version::FIRST,
            revision: 1,
            kind: self.kind.clone(),
            code: Code {
                digest: digest(&code),
                size: ByteSize::bytes(code.len() as u64),
                format: CodeFormat::Source,
            },
            main: None,
            image: None,
            contract: Contract::Handler,
            strategy: self.strategy,
            network: Network::None,
            limits,
            parameters: Parameters::default(),
            annotations: Annotations::default(),
            publish: false,
            restored: None,
            asked: flint_model::StrategyRequest::default(),
            snapshot: flint_model::SnapshotOptions::default(),
            wasm: flint_model::WasmOptions::default(),
            updated: Timestamp::now(),
        };
        FunctionSource { function: Arc::new(function), code }
    }

    /// The function that does what a test asks for.
    pub fn laboratory(&self) -> FunctionSource {
        self.function(self.language.laboratory(), FunctionLimits::default())
    }

    pub(super) async fn start(&self) -> Arc<dyn Instance> {
        match self.try_start(self.laboratory(), AMPLE).await {
            Ok(instance) => instance,
            Err(failure) => panic!("{failure:?}"),
        }
    }

    pub(super) async fn try_start(
        &self,
        source: FunctionSource,
        limit: Duration,
    ) -> Result<Arc<dyn Instance>, StartFailure> {
        let prepared = self.executor.prepare(source, &|_| {}).await.expect("the function can be prepared");
        Ok(self.executor.start(&prepared, context(limit)).await?.instance)
    }

    /// Calls with `{"op": op, …}` and an ample time limit.
    pub(super) async fn call(&self, instance: &Arc<dyn Instance>, op: &str, arguments: Value) -> Done {
        self.call_within(instance, op, arguments, AMPLE).await
    }

    pub(super) async fn call_within(
        &self,
        instance: &Arc<dyn Instance>,
        op: &str,
        arguments: Value,
        limit: Duration,
    ) -> Done {
        done(instance.invoke(request(op, arguments, limit)).await)
    }
}

pub(super) fn context(limit: Duration) -> StartContext {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    StartContext {
        id: InstanceId(NEXT.fetch_add(1, Ordering::Relaxed)),
        namespace: NamespaceName::parse("guest").ok(),
        activation: Some(ActivationId::generate()),
        transaction: "conformance".into(),
        deadline: Instant::now() + limit,
        environment: vec![("GREETING".into(), "hé".into())],
        max_logs: ByteSize::mib(1),
    }
}

/// A call with `{"op": op, …}`.
pub(super) fn request(op: &str, arguments: Value, limit: Duration) -> Call {
    let mut body = json!({ "op": op });
    if let (Value::Object(body), Value::Object(arguments)) = (&mut body, arguments) {
        body.extend(arguments);
    }
    Call {
        activation: ActivationId::generate(),
        transaction: "conformance".into(),
        deadline: Instant::now() + limit,
        deadline_at: Timestamp::from(SystemTime::now() + limit),
        head: None,
        body: Body::Full(body.to_string().into()),
        api_key: None,
        max_result: ByteSize::mib(1),
        max_logs: ByteSize::mib(1),
    }
}

#[track_caller]
pub(super) fn done(invoked: Invoked) -> Done {
    match invoked {
        Invoked::Done { result, end } => Done { result, end },
        Invoked::Streaming { head, .. } => panic!("a stream came: {head:?}"),
    }
}

/// A digest that differs for different code, which is all that the tests need.
fn digest(code: &[u8]) -> Digest {
    let mut bytes = [0; 32];
    for (number, part) in bytes.chunks_mut(8).enumerate() {
        let mut hasher = DefaultHasher::new();
        (number, code).hash(&mut hasher);
        part.copy_from_slice(&hasher.finish().to_le_bytes());
    }
    Digest::from_bytes(bytes)
}
