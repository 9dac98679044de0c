//! An instance of contracts `http` and `openwhisk`: a server in a sandbox.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use flint_executor::{
    BRING_UP, BodySender, Call, CallEnd, Fault, Instance, Invoked, LastWord, Reply, ReplyHead, body_channel,
};
use flint_model::{ByteSize, Contract, Function, InstanceId};
use flint_sandbox::{Sandbox, SandboxIo, SandboxSpec};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

use super::{
    exchange::{Broken, Line},
    http_contract,
    opening::Opening,
    openwhisk,
    state::State,
};
use crate::run_request;
use flint_runtimes::{
    json, outcome,
    prepare::artefact::SharedArtefact,
    process::{ending, logs::Logs, meter, output::Output, relay::RelayTask, starter::Starter, timer::Timer},
};

/// A response of known length up to this is returned whole; others are streamed, unless they become a JSON
/// result.
const WHOLE: u64 = 1 << 20;
/// How long to wait for the sentinels after the first answer before concluding that this proxy sends none.
const FIRST_SENTINELS: Duration = Duration::from_millis(200);
/// How long to wait for the sentinels of a proxy that sends them.
const SENTINELS: Duration = Duration::from_secs(2);

/// The function's server.
pub(crate) struct ServerInstance {
    id: InstanceId,
    function: Arc<Function>,
    sandbox: Arc<Sandbox>,
    state: Arc<Mutex<State>>,
    relay: RelayTask,
    /// Keeps the code on disk for as long as the sandbox sees it.
    _artefact: SharedArtefact,
}

/// A server to be started.
pub(crate) struct Start<'a> {
    pub(crate) function: &'a Arc<Function>,
    pub(crate) artefact: &'a SharedArtefact,
    pub(crate) spec: SandboxSpec,
    /// The part of the environment that `/init` is told.
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) id: InstanceId,
    /// As in a [`StartContext`](flint_executor::StartContext).
    pub(crate) deadline: Instant,
}

impl Start<'_> {
    /// Starts the server, waits until it accepts connections and, for contract `openwhisk`, initialises it.
    /// Also returns how long it took until the server accepted.
    pub(crate) async fn bring_up(
        self,
        starter: &Starter,
        began: Instant,
        logs: &mut Logs,
    ) -> Result<(ServerInstance, Duration), Fault> {
        let no_pipes = |error: std::io::Error| Fault::Platform {
            cause: format!(
                "the server's pipes could not be made: {error}; raise the limit of open files (ulimit -n)"
            ),
        };
        let (output, [stdout, stderr]) = Output::both().map_err(no_pipes)?;
        let io = SandboxIo { stdin: None, stdout, stderr, link: None };
        // Until it accepts connections, the interpreter's start cannot be told from the function's loading.
        let up_by = self.deadline + BRING_UP;
        let to_initialise = self.deadline.saturating_duration_since(Instant::now());
        let sandbox = match tokio::time::timeout_at(up_by.into(), starter.start(&self.spec, io)).await {
            Err(_) => return Err(Fault::Deadline),
            Ok(Err(error)) => return Err(ending::fault_of_start(&error, true)),
            Ok(Ok(sandbox)) => Arc::new(sandbox),
        };
        let mut line = Line::new(Arc::clone(&sandbox), output, Timer::new(up_by));
        let mut initialised = line.reach(logs).await.map_err(Failure::Broken);
        let started = began.elapsed();
        if initialised.is_ok() && self.function.contract == Contract::OpenWhisk {
            line.timer.set((Instant::now() + to_initialise).min(up_by));
            initialised = initialise(&mut line, self.function, &self.environment, logs).await;
        }
        line.drain(logs);
        if let Err(failure) = initialised {
            let fault = match failure {
                Failure::Broken(broken) => line.fault(broken, logs).await,
                Failure::Said(fault) => fault,
            };
            ending::completely(&sandbox).await;
            return Err(fault);
        }
        line.meter.reset(&sandbox).await;
        let state = Arc::new(Mutex::new(State::new(line)));
        let function = Arc::clone(self.function);
        Ok((
            ServerInstance {
                id: self.id,
                function,
                sandbox,
                state,
                relay: RelayTask::default(),
                _artefact: Arc::clone(self.artefact),
            },
            started,
        ))
    }
}

enum Failure {
    Broken(Broken),
    Said(Fault),
}

async fn initialise(
    line: &mut Line,
    function: &Function,
    environment: &[(String, String)],
    logs: &mut Logs,
) -> Result<(), Failure> {
    let init = openwhisk::init(function, environment);
    let response = line.send(init, logs).await.map_err(Failure::Broken)?;
    let (head, mut body) = response.into_parts();
    let (body, _) = line.whole(&mut body, WHOLE, logs).await.map_err(Failure::Broken)?;
    openwhisk::initialised(head.status, &body).map_err(Failure::Said)
}

#[async_trait]
impl Instance for ServerInstance {
    fn id(&self) -> InstanceId {
        self.id
    }

    async fn invoke(&self, call: Call) -> Invoked {
        let Ok(state) = Arc::clone(&self.state).try_lock_owned() else {
            return outcome::refused("the instance is serving another call");
        };
        match self.function.contract {
            Contract::OpenWhisk => self.invoke_proxy(state, call).await,
            _ => self.invoke_server(state, call).await,
        }
    }

    async fn memory(&self) -> Option<ByteSize> {
        meter::memory(&self.sandbox).await
    }

    async fn pause(&self) {
        ending::pause(&self.sandbox).await;
    }

    async fn resume(&self) {
        ending::resume(&self.sandbox).await;
    }

    async fn ended(&self) {
        self.sandbox.wait().await;
    }

    async fn stop(&self) {
        ending::completely(&self.sandbox).await;
        self.relay.finish().await;
    }
}

impl Drop for ServerInstance {
    fn drop(&mut self) {
        self.sandbox.kill();
    }
}

/// A call in progress.
struct Running {
    state: OwnedMutexGuard<State>,
    logs: Logs,
    began: Instant,
}

impl Running {
    async fn end(mut self, reusable: bool, fault: Option<Fault>) -> CallEnd {
        match reusable {
            true => self.state.catch_up(&mut self.logs).await,
            false => self.state.line.drain(&mut self.logs),
        }
        let line = &mut self.state.line;
        line.let_go();
        let sandbox = Arc::clone(&line.sandbox);
        let usage = line.meter.after_call(&sandbox, self.began).await;
        outcome::end(self.logs, usage, reusable, fault)
    }

    async fn over(self, result: Result<Reply, Fault>, reusable: bool) -> Invoked {
        Invoked::Done { result, end: self.end(reusable, None).await }
    }

    async fn broken(mut self, broken: Broken) -> Invoked {
        let fault = self.state.line.fault(broken, &mut self.logs).await;
        let reusable = fault.is_the_callers();
        self.over(Err(fault), reusable).await
    }
}

impl ServerInstance {
    async fn invoke_server(&self, mut state: OwnedMutexGuard<State>, call: Call) -> Invoked {
        let (began, is_json, allowed) = (Instant::now(), call.head.is_none(), call.max_result.as_u64());
        state.begin(call.deadline);
        let mut running = Running { state, logs: Logs::new(call.max_logs), began };
        let request = match http_contract::request(call) {
            Ok(request) => request,
            Err(cause) => return outcome::refused(&cause),
        };
        let Running { state, logs, .. } = &mut running;
        let response = match state.line.send(request, logs).await {
            Ok(response) => response,
            Err(broken) => return running.broken(broken).await,
        };
        let (head, mut body) = response.into_parts();
        let mut opening = Opening::new(&head.headers, allowed);
        let head = match outcome::http(head.status, head.headers) {
            Ok(head) => head,
            // Interim responses were skipped. The only one left switches protocols, after which the connection
            // cannot be reused.
            Err(fault) => return running.over(Err(fault), true).await,
        };
        let is_small = body.size_hint().exact().is_some_and(|length| length <= WHOLE);
        if is_small {
            return match state.line.whole(&mut body, WHOLE, logs).await {
                Err(broken) => running.broken(broken).await,
                Ok((body, _)) => {
                    let result = reply(head, body, is_json, allowed);
                    running.over(result, true).await
                }
            };
        }
        while is_json && (opening.may_be_json() || opening.size() < WHOLE) {
            let next = match opening.may_be_json() {
                true => state.line.piece(&mut body, logs).await.map(Some),
                // Returning a short answer that has arrived completely costs less than streaming it.
                false => state.line.piece_at_hand(&mut body, logs),
            };
            match next {
                Err(broken) => return running.broken(broken).await,
                Ok(None) => break,
                Ok(Some(Some(piece))) => opening.take(&piece),
                Ok(Some(None)) => {
                    let result = match opening.is_too_long() {
                        true => Err(outcome::too_large(opening.size(), allowed, &opening.kept())),
                        false => reply(head, opening.kept(), is_json, allowed),
                    };
                    return running.over(result, true).await;
                }
            }
        }
        let (sender, pieces) = body_channel();
        let (ended, end) = oneshot::channel();
        self.relay.spawn(relay(running, opening.kept(), body, sender, ended));
        Invoked::Streaming { head, body: pieces, end }
    }

    async fn invoke_proxy(&self, mut state: OwnedMutexGuard<State>, mut call: Call) -> Invoked {
        let (began, allowed) = (Instant::now(), call.max_result.as_u64());
        state.begin(call.deadline);
        let logs = if state.sentinels == Some(false) {
            Logs::new(call.max_logs)
        } else {
            Logs::with_sentinels(call.max_logs)
        };
        let mut running = Running { state, logs, began };
        let arguments = match run_request::arguments(&mut call).await {
            Ok(arguments) => arguments,
            Err(error) => return outcome::not_given(Fault::Request(error)),
        };
        let request = match openwhisk::run(&self.function, &call, &arguments) {
            Ok(request) => request,
            Err(fault) => return outcome::not_given(fault),
        };
        let Running { state, logs, .. } = &mut running;
        let response = match state.line.send(request, logs).await {
            Ok(response) => response,
            Err(broken) => return running.broken(broken).await,
        };
        let (head, mut body) = response.into_parts();
        let (body, size) = match state.line.whole(&mut body, allowed, logs).await {
            Ok(whole) => whole,
            Err(broken) => return running.broken(broken).await,
        };
        match state.sentinels {
            Some(false) => {}
            known => {
                let patience = if known.is_none() { FIRST_SENTINELS } else { SENTINELS };
                state.line.listen(logs, patience, Logs::saw_sentinels).await;
                if known.is_none() {
                    state.sentinels = Some(logs.saw_a_sentinel());
                }
            }
        }
        let (result, reusable) = openwhisk::result(head.status, body, size, allowed);
        running.over(result, reusable).await
    }
}

/// A call that came as JSON and is answered with JSON gets a JSON result; any other the HTTP response.
fn reply(head: ReplyHead, body: Bytes, is_json: bool, allowed: u64) -> Result<Reply, Fault> {
    let ok = matches!(&head, ReplyHead::Http { status, .. } if status.is_success());
    if is_json && ok && json::is_object_or_array(&body) {
        return outcome::json(body, allowed);
    }
    Ok(Reply { head, body })
}

/// Streams a response, of which the beginning has arrived, until its end or until the caller has gone.
async fn relay(
    mut running: Running,
    opening: Bytes,
    mut body: Incoming,
    caller: BodySender,
    ended: oneshot::Sender<CallEnd>,
) {
    let last_word = LastWord::of(&caller);
    let mut opening = Some(opening).filter(|opening| !opening.is_empty());
    let mut streamed = 0;
    let fault = loop {
        let Running { state, logs, .. } = &mut running;
        let next = match opening.take() {
            Some(opening) => Some(Ok(Some(opening))),
            None => tokio::select! {
                biased;
                piece = state.line.piece(&mut body, logs) => Some(piece),
                () = caller.closed() => None,
            },
        };
        let sent = match next {
            Some(Ok(None)) => break None,
            Some(Ok(Some(piece))) => {
                let length = piece.len() as u64;
                let sent = state.line.meanwhile(logs, caller.send(Ok(piece))).await;
                sent.map(|sent| sent.is_ok().then_some(length))
            }
            Some(Err(broken)) => Err(broken),
            None => Ok(None),
        };
        match sent {
            Ok(Some(length)) => streamed += length,
            // Nobody is left to report a fault to.
            Ok(None) => {
                state.line.hang_up();
                break None;
            }
            Err(broken) => break Some(state.line.fault(broken, logs).await),
        }
    };
    match &fault {
        Some(fault) => last_word.broken(fault),
        None => last_word.complete(),
    }
    drop(caller);
    let reusable = fault.as_ref().is_none_or(Fault::is_the_callers);
    let end = running.end(reusable, fault).await;
    let _ = ended.send(CallEnd { streamed, ..end });
}
