//! An executor whose functions do what their code says.
//!
//! The first word of the code is what every call does, the rest its argument; see [`serve`]. Code that begins with `broken` does
//! not load, and with code that begins with `huge` the namespace `guest` has more than it may. For a function with the annotation
//! `no-room` there is none on the disk.

use std::{
    collections::HashMap,
    future::ready,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use bytes::Bytes;
use flint_controller::{Answer, Controller, Invocation};
use flint_executor::{
    Anticipation, Call, CallEnd, Capability, Executor, Fault, FunctionSource, Instance, Invoked,
    PrepareError, Prepared, PrewarmedMemory, Progress, Reply, ReplyHead, RuntimeKind, StartContext,
    StartFailure, Started, body_channel,
};
use flint_model::{
    ByteSize, Contract, Function, InstanceId, LogLine, LogStream, Reuse, SnapshotReport, Start, Strategy,
    Usage, WarmedFunction,
};
use http::{HeaderMap, HeaderValue, StatusCode, header::CONTENT_TYPE};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};

use super::composing::{BLOCKING, invocation};

/// What the executor saw.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Bodies of calls by function, in order.
    pub calls: HashMap<String, Vec<String>>,
    /// The API key that the latest call was given, by function.
    pub keys: HashMap<String, String>,
    /// What was prepared: path and revision.
    pub prepared: Vec<(String, u64)>,
    /// The functions whose first calls were said to come.
    pub anticipated: Vec<String>,
    /// Instances started, by function.
    pub starts: HashMap<String, usize>,
}

/// The executor.
#[derive(Default)]
pub struct Scripted {
    seen: Arc<Mutex<Seen>>,
    /// Lets calls of `wait` go on.
    go: Arc<Notify>,
    /// Whom functions call back.
    controller: Arc<OnceLock<Weak<Controller>>>,
    /// Whether the host has lost its runtimes.
    lost: AtomicBool,
    /// Whether it starts functions by forking too, and what the host says about that.
    forks: Option<Result<String, String>>,
}

impl Scripted {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// One that can fork, on a host that lets it or lacks something.
    pub fn forking(host: Result<&str, &str>) -> Arc<Self> {
        let forks = Some(host.map(str::to_owned).map_err(str::to_owned));
        Arc::new(Self { forks, ..Self::default() })
    }

    /// One on a host that has lost its runtimes.
    pub fn without_runtimes() -> Arc<Self> {
        Arc::new(Self { lost: true.into(), ..Self::default() })
    }

    /// The host has its runtimes again.
    pub fn find_runtimes(&self) {
        self.lost.store(false, Ordering::Relaxed);
    }

    /// Lets functions call this controller.
    pub fn serves(&self, controller: &Arc<Controller>) {
        self.controller.set(Arc::downgrade(controller)).unwrap();
    }

    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }

    /// Bodies of the calls of `namespace/function`.
    pub fn calls_of(&self, path: &str) -> Vec<String> {
        self.seen().calls.remove(path).unwrap_or_default()
    }

    /// Lets every call of `wait` that waits now go on.
    pub fn go(&self) {
        self.go.notify_waiters();
    }
}

/// Warms up and freezes, unless the function has the annotation `unforkable`.
fn snapshot(prepared: &mut Prepared) {
    let function = Arc::clone(&prepared.function);
    let kept = !function.annotations.is_truthy("unforkable");
    let warmed = |name: &str, tier: &str| WarmedFunction {
        name: name.to_owned(),
        file: "index.js".to_owned(),
        line: 3,
        tier: tier.to_owned(),
        calls: 2000,
    };
    prepared.snapshot = Some(SnapshotReport {
        warmup_calls: 2000 * function.snapshot.warmup.len() as u64,
        warmup_ms: 81.5,
        functions: vec![warmed("slow", "maglev"), warmed("fact", "turbofan")],
        optimised: 1,
        reached: 2,
        rss_bytes: 60 << 20,
        took_us: 900_000,
        kept,
        ..SnapshotReport::default()
    });
    if !kept {
        prepared.strategy = function.fallback();
        prepared.fallback =
            Some("2 threads were alive at the freeze point: start them in afterRestore".to_owned());
    }
}

#[async_trait]
impl Executor for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn handles(&self, strategy: &Strategy, contract: Contract) -> bool {
        (strategy.start == Start::Spawn || strategy.start == Start::Fork && self.forks.is_some())
            && strategy.concurrency.get() == 1
            && matches!(
                contract,
                Contract::Handler
                    | Contract::Stdio
                    | Contract::Http
                    | Contract::Skeleton
                    | Contract::ActionLoop
            )
    }

    fn capabilities(&self) -> Vec<Capability> {
        let capability = |name: &str, state| Capability { name: name.to_owned(), state };
        let both =
            |state: &Result<_, _>| ["start fork", "egress"].map(|name| capability(name, state.clone()));
        self.forks.iter().flat_map(both).collect()
    }

    fn kinds(&self) -> Vec<RuntimeKind> {
        let kind = |name: &str, default, requires_main| RuntimeKind {
            kind: name.parse().unwrap(),
            default,
            requires_main,
            state: Ok("scripted".to_owned()),
        };
        let missing = Err("no node 18 was found: apt-get install nodejs".to_owned());
        vec![
            kind("nodejs:20", true, false),
            RuntimeKind { state: missing, ..kind("nodejs:18", false, false) },
            kind("python:3.11", true, false),
            kind("java:21", true, true),
            kind("native", true, false),
            kind("blackbox", true, false),
            kind("wasm", true, false),
        ]
    }

    fn admits(&self, function: &Function) -> Result<(), PrepareError> {
        match function.annotations.is_truthy("no-room") {
            true => Err(PrepareError::NoRoom("the disk is nearly full (prepare.min_free)".to_owned())),
            false => Ok(()),
        }
    }

    async fn prepare(
        &self,
        source: FunctionSource,
        progress: Progress<'_>,
    ) -> Result<Arc<Prepared>, PrepareError> {
        progress("preparing");
        let function = &source.function;
        self.seen.lock().unwrap().prepared.push((function.path.to_string(), function.revision));
        let code = String::from_utf8_lossy(&source.code).into_owned();
        if self.lost.load(Ordering::Relaxed) {
            let (what, reason) = (function.kind.to_string(), "no node was found".to_owned());
            return Err(PrepareError::Unavailable { what, reason });
        }
        // Is not ready before the test says so.
        if let Some(ready) = code.strip_prefix("slowly ") {
            self.go.notified().await;
            let ready = Box::new(ready.to_owned());
            return Ok(Arc::new(Prepared::plain(Arc::clone(function), Vec::new(), Duration::ZERO, ready)));
        }
        if let Some(message) = code.strip_prefix("broken ") {
            return Err(PrepareError::Code(message.to_owned()));
        }
        if code.starts_with("huge ") && function.path.namespace.as_str() == "guest" {
            return Err(PrepareError::OverQuota("guest has 10 GB (prepare.per_namespace)".to_owned()));
        }
        let steps = vec!["prepared".to_owned()];
        let took = Duration::from_millis(1);
        let mut prepared = Prepared::plain(Arc::clone(function), steps, took, Box::new(code));
        if function.strategy.start == Start::Fork {
            snapshot(&mut prepared);
        }
        Ok(Arc::new(prepared))
    }

    fn anticipate(&self, prepared: &Prepared) -> Anticipation {
        self.seen.lock().unwrap().anticipated.push(prepared.function.path.to_string());
        Box::pin(ready(()))
    }

    async fn start(&self, prepared: &Arc<Prepared>, context: StartContext) -> Result<Started, StartFailure> {
        let code = prepared.artefact.downcast_ref::<String>().cloned().unwrap_or_default();
        let path = prepared.function.path.to_string();
        *self.seen.lock().unwrap().starts.entry(path).or_default() += 1;
        let failed =
            |fault| StartFailure { fault, took: Duration::from_millis(1), logs: vec![line("loading")] };
        match code.split_once(' ').unwrap_or((&code, "")) {
            ("init-throws", message) => Err(failed(Fault::Developer { message: message.to_owned() })),
            ("init-answers", text) => Err(failed(Fault::InvalidAnswer { text: text.to_owned() })),
            ("init-exits", _) => Err(failed(Fault::Exited { end: None })),
            ("init-hangs", _) => Err(failed(Fault::Deadline)),
            ("init-platform", cause) => Err(failed(Fault::Platform { cause: cause.to_owned() })),
            _ => Ok(Started {
                instance: Arc::new(ScriptedInstance {
                    id: context.id,
                    code,
                    function: Arc::clone(&prepared.function),
                    environment: context.environment,
                    seen: Arc::clone(&self.seen),
                    go: Arc::clone(&self.go),
                    controller: Arc::clone(&self.controller),
                    stopped: Notify::new(),
                }),
                started: Duration::from_micros(500),
                restored: None,
                initialised: Duration::from_millis(1),
                logs: Vec::new(),
            }),
        }
    }

    async fn prewarmed_memory(&self) -> PrewarmedMemory {
        PrewarmedMemory::default()
    }

    async fn collect(&self, _: &[Arc<Function>]) {}

    async fn shutdown(&self) {}
}

/// Begins code that answers when the test says so.
const LATE: &str = "late ";

/// What a blocking call of one's own comes to, as clients in functions make it.
async fn call_back(controller: Arc<Controller>, name: String, key: Option<String>) -> Value {
    let key = key.as_deref().expect("the function needs the annotation provide-api-key");
    let caller = controller.authenticate(key).await.unwrap();
    let asked = Invocation { api_key: Some(key.into()), ..invocation(&name, &json!({}), BLOCKING) };
    match controller.invoke(&caller, asked).await {
        Ok(Answer::Finished(record)) => {
            serde_json::from_str(record.response.result.as_ref().unwrap().get()).unwrap()
        }
        Ok(other) => json!({ "unexpected": format!("{other:?}") }),
        Err(error) => json!({ "refused": error.to_string() }),
    }
}

/// Each in a task of its own, as calls over HTTP are.
async fn together(calls: impl Iterator<Item = impl Future<Output = Value> + Send + 'static>) -> Vec<Value> {
    let calls: Vec<_> = calls.map(tokio::spawn).collect();
    let mut answers = Vec::with_capacity(calls.len());
    for call in calls {
        answers.push(call.await.unwrap());
    }
    answers
}

struct ScriptedInstance {
    id: InstanceId,
    code: String,
    function: Arc<Function>,
    environment: Vec<(String, String)>,
    seen: Arc<Mutex<Seen>>,
    go: Arc<Notify>,
    controller: Arc<OnceLock<Weak<Controller>>>,
    /// Told when the instance is stopped.
    stopped: Notify,
}

fn line(text: &str) -> LogLine {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    LogLine { time_us: since.as_micros() as u64, stream: LogStream::Stdout, text: text.to_owned() }
}

impl ScriptedInstance {
    fn end(&self, reusable: bool) -> CallEnd {
        CallEnd {
            logs: vec![line("called")],
            usage: Usage { cpu_us: Some(100), memory_peak: Some(ByteSize::mib(30)) },
            reusable: reusable && self.function.strategy.reuse == Reuse::Warm,
            ..CallEnd::default()
        }
    }

    async fn serve(&self, call: Call) -> Result<Reply, Fault> {
        let json = |body: Bytes| Ok(Reply { head: ReplyHead::Json, body });
        let value = |value: Value| json(value.to_string().into());
        let (activation, transaction) = (call.activation.to_string(), call.transaction.to_string());
        let (deadline, api_key) = (call.deadline, call.api_key.clone());
        let asked = call.head.map(|head| head.path);
        let body = call.body.collect(1 << 30).await.map_err(Fault::Request)?;
        let path = self.function.path.to_string();
        let times = {
            let mut seen = self.seen.lock().unwrap();
            if let Some(key) = &api_key {
                seen.keys.insert(path.clone(), key.to_string());
            }
            let calls = seen.calls.entry(path).or_default();
            calls.push(String::from_utf8_lossy(&body).into_owned());
            calls.len()
        };
        let code = self.code.strip_prefix(LATE).unwrap_or(&self.code);
        let (what, argument) = code.split_once(' ').unwrap_or((code, ""));
        match what {
            // Its arguments.
            "echo" => json(body),
            // What stands in the code.
            "answer" => json(Bytes::copy_from_slice(argument.as_bytes())),
            "throw" => Err(Fault::Developer { message: argument.to_owned() }),
            "invalid" => Err(Fault::InvalidAnswer { text: argument.to_owned() }),
            "exit" => Err(Fault::Exited { end: None }),
            "memory" => Err(Fault::OutOfMemory),
            "platform" => Err(Fault::Platform { cause: argument.to_owned() }),
            // Fails so many times, then answers.
            "flaky" if times <= argument.parse().unwrap() => {
                Err(Fault::Platform { cause: format!("failure {times}") })
            }
            "flaky" => value(json!({"times": times})),
            // Fails in that way so many times, then says for whom it was called.
            "fails" => {
                let (way, count) = argument.split_once(' ').unwrap();
                let known = json!({"activation": activation, "apiKey": api_key.as_deref(), "times": times});
                match way {
                    _ if times > count.parse().unwrap() => value(known),
                    "application" => value(json!({"error": known})),
                    "developer" => Err(Fault::Exited { end: None }),
                    "timeout" => Err(Fault::Deadline),
                    _ => Err(Fault::Platform { cause: format!("failure {times}") }),
                }
            }
            "long" => {
                let (size, allowed) = (call.max_result.as_u64() + 5, call.max_result.as_u64());
                Err(Fault::ResultTooLarge { size, allowed, beginning: Bytes::from_static(b"{\"a\":\"xx") })
            }
            // Goes on when the test says so.
            "wait" => {
                let go = self.go.notified();
                match tokio::time::timeout_at(deadline.into(), go).await {
                    Ok(()) => value(json!({"waited": true})),
                    Err(_) => Err(Fault::Deadline),
                }
            }
            // Fails when the test says so.
            "wait-platform" => {
                self.go.notified().await;
                Err(Fault::Platform { cause: argument.to_owned() })
            }
            // Ends with its instance, unless it may go on before.
            "endless" => {
                let (go, stopped) = (self.go.notified(), self.stopped.notified());
                tokio::select! {
                    () = go => value(json!({"times": times})),
                    () = stopped => Err(Fault::Exited { end: None }),
                }
            }
            // What it was given beside its arguments.
            "context" => {
                let environment: HashMap<_, _> = self.environment.iter().cloned().collect();
                value(json!({
                    "environment": environment, "activation": activation, "transaction": transaction,
                    "apiKey": api_key.as_deref(), "maxLogs": call.max_logs, "maxResult": call.max_result,
                    "path": asked,
                }))
            }
            // Calls others by name with the key that it was given, one after the other or (`a+b`) at once, and answers with what they answer.
            "calls" => {
                let controller = self.controller.get().and_then(Weak::upgrade).unwrap();
                let mut answers = Vec::new();
                for names in argument.split(' ') {
                    let one = |name: &str| {
                        call_back(
                            Arc::clone(&controller),
                            name.to_owned(),
                            api_key.as_deref().map(str::to_owned),
                        )
                    };
                    answers.extend(together(names.split('+').map(one)).await);
                }
                value(json!({ "answers": answers }))
            }
            "http" => {
                let (content_type, text) = argument.split_once(' ').unwrap_or((argument, ""));
                let (status, content_type) = content_type.split_once(':').unwrap_or(("200", content_type));
                let status = StatusCode::from_bytes(status.as_bytes()).unwrap();
                let headers =
                    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_str(content_type).unwrap())]);
                Ok(Reply { head: ReplyHead::Http { status, headers }, body: text.to_owned().into() })
            }
            other => Err(Fault::Developer { message: format!("no such script: {other}") }),
        }
    }
}

#[async_trait]
impl Instance for ScriptedInstance {
    fn id(&self) -> InstanceId {
        self.id
    }

    async fn invoke(&self, call: Call) -> Invoked {
        // Answers at once and leaves no trace: for measuring what is around it.
        if let Some(answer) = self.code.strip_prefix("quick ") {
            let reply = Reply { head: ReplyHead::Json, body: Bytes::copy_from_slice(answer.as_bytes()) };
            return Invoked::Done {
                result: Ok(reply),
                end: CallEnd { reusable: true, ..CallEnd::default() },
            };
        }
        // What follows comes when the test says so.
        let code = match self.code.strip_prefix(LATE) {
            Some(code) => {
                self.go.notified().await;
                code
            }
            None => &self.code,
        };
        // Streams so many pieces of text.
        if let Some(pieces) = code.strip_prefix("stream ") {
            let pieces: usize = pieces.parse().unwrap();
            let (sender, body) = body_channel();
            let (end_sender, end) = oneshot::channel();
            let mut good = self.end(true);
            tokio::spawn(async move {
                for piece in 0..pieces {
                    let piece = Bytes::from(format!("piece {piece}\n"));
                    good.streamed += piece.len() as u64;
                    let _ = sender.send(Ok(piece)).await;
                }
                let _ = end_sender.send(good);
            });
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("text/plain"))]);
            return Invoked::Streaming {
                head: ReplyHead::Http { status: StatusCode::OK, headers },
                body,
                end,
            };
        }
        let truncated = self.code == "answer {\"logs\":true}";
        let result = self.serve(call).await;
        let reusable =
            matches!(&result, Ok(_) | Err(Fault::ResultTooLarge { .. } | Fault::InvalidAnswer { .. }));
        Invoked::Done { result, end: CallEnd { logs_truncated: truncated, ..self.end(reusable) } }
    }

    async fn memory(&self) -> Option<ByteSize> {
        Some(ByteSize::mib(30))
    }

    async fn pause(&self) {}

    async fn resume(&self) {}

    async fn ended(&self) {
        std::future::pending().await
    }

    async fn stop(&self) {
        self.stopped.notify_waiters();
    }
}
