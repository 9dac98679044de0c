//! An instance: what a call finds is the code; memory, tables and globals come with the call and go with it.

use std::{
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use flint_executor::{
    Body, BodyError, BodySender, Call, CallEnd, Fault, Instance, Invoked, LastWord, Reply, ReplyHead,
    body_channel,
};
use flint_gate::DirectGate;
use flint_model::{ByteSize, InstanceId, LogStream, Usage};
use flint_runtimes::outcome;
use futures_util::future::select_all;
use tokio::{
    sync::{SemaphorePermit, SetOnce, oneshot},
    task::JoinHandle,
    time::timeout_at,
};
use wasmtime::Store;

use crate::{
    answer::{self, Wanted},
    contracts::{self, Code, CoreModule, Given},
    drive::{Cut, Metered, Spent, Work},
    environment,
    exchange::{Begun, Ended, Exchange, Head, Patience, Source, WHOLE},
    executor::House,
    fault,
    host::{CallSeed, Host, LogSink},
    lane,
    prepare::{Artefact, Settled},
    state::{self, Pace, State},
    stdio::{Inlet, Outlet},
    ticker::Beat,
};

/// A copy of a function that costs nothing until it is called.
pub(crate) struct WasmInstance {
    id: InstanceId,
    house: Arc<House>,
    artefact: Arc<Artefact>,
    /// What the start was given for the guest's environment.
    environment: Vec<(String, String)>,
    /// Its way to the API, for as long as it is there.
    gate: Option<Arc<DirectGate>>,
    relay: Mutex<Option<JoinHandle<()>>>,
    stopped: SetOnce<()>,
}

/// What a guest holds as long as it lives.
struct Held {
    settled: Arc<Settled>,
    _beat: Beat,
}

impl Held {
    /// With a place of its engine's, which goes back when this is dropped.
    fn new(settled: &Arc<Settled>, place: SemaphorePermit<'_>) -> Self {
        place.forget();
        Self { settled: Arc::clone(settled), _beat: settled.ground.ticker.during() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.settled.ground.slots.add_permits(1);
    }
}

/// A call with everything that is known of it outside its guest.
struct Running {
    logs: LogSink,
    pace: Arc<Pace>,
    wanted: Wanted,
}

impl WasmInstance {
    pub(crate) fn new(
        id: InstanceId,
        house: Arc<House>,
        artefact: Arc<Artefact>,
        environment: Vec<(String, String)>,
        gate: Option<Arc<DirectGate>>,
    ) -> Self {
        Self { id, house, artefact, environment, gate, relay: Mutex::new(None), stopped: SetOnce::new() }
    }

    /// A place in the pool, for which a call may have to wait: on the engine of this thread, or on one that has room.
    async fn enter(&self, pace: &Pace) -> Result<Held, Fault> {
        let settled = &self.artefact.settled;
        let own = lane::of_this_thread() % settled.len();
        let (before, from_own) = settled.split_at(own);
        let in_turn = from_own.iter().chain(before);
        let mut free =
            in_turn.filter_map(|settled| Some((settled, settled.ground.slots.try_acquire().ok()?)));
        let (settled, place) = match free.next() {
            Some(free) => free,
            None => self.wait(pace).await?,
        };
        Ok(Held::new(settled, place))
    }

    /// A place, once somebody leaves one.
    async fn wait(&self, pace: &Pace) -> Result<(&Arc<Settled>, SemaphorePermit<'_>), Fault> {
        let (settled, crowd) = (&self.artefact.settled, &self.house.crowd);
        crowd.waited.fetch_add(1, Ordering::Relaxed);
        let places = settled.iter().map(|settled| Box::pin(settled.ground.slots.acquire()));
        match timeout_at(pace.deadline().into(), select_all(places)).await {
            Ok((Ok(place), at, _)) => Ok((&settled[at], place)),
            Ok((Err(_), ..)) => Err(platform("the server is shutting down")),
            Err(_) => {
                crowd.refused.fetch_add(1, Ordering::Relaxed);
                let instances: u32 = settled.iter().map(|settled| settled.ground.size.instances).sum();
                Err(platform(&format!(
                    "all {instances} Wasm instances were in use until the time limit passed; the pool is bounded by {}",
                    settled[0].ground.size.bound
                )))
            }
        }
    }

    /// The environment that `tell` makes, for a guest that can ask for it.
    fn environment(&self, held: &Held, call: &Call, tell: environment::Tell) -> environment::Variables {
        if held.settled.reads_environment { tell(&self.environment, call) } else { Vec::new() }
    }

    fn store(&self, settled: &Settled, call: CallSeed, pace: &Arc<Pace>) -> Store<State> {
        let Settled { ground, grants, .. } = settled;
        let logs = call.logs.clone();
        let host = Host::new(&ground.services, grants, call);
        state::store(&ground.engine, &self.house.config, self.artefact.memory, logs, host, pace)
    }

    async fn run_core(&self, code: Arc<CoreModule>, running: Running, held: Held, mut call: Call) -> Invoked {
        let body = std::mem::replace(&mut call.body, Body::Full(Bytes::new()));
        let body = match body {
            Body::Full(body) => body,
            stream => {
                let whole = stream.collect(self.artefact.memory as u64);
                match timeout_at(running.pace.deadline().into(), whole).await {
                    Ok(Ok(body)) => body,
                    Ok(Err(error)) => return running.done(Err(body_broke(&error)), Usage::default()),
                    Err(_) => return running.done(Err(Fault::Deadline), Usage::default()),
                }
            }
        };
        let seed = CallSeed {
            stdin: Box::new(Inlet::new(Body::Full(Bytes::new()))),
            stdout: Box::new(running.logs.stream(LogStream::Stdout)),
            logs: running.logs.clone(),
            env: self.environment(&held, &call, environment::of),
            gate: None,
        };
        let mut store = self.store(&held.settled, seed, &running.pace);
        let longest = if running.wanted.json { running.wanted.max_result } else { u64::MAX };
        let (work, spent) = Metered::new(Box::pin(async move {
            let _held = held;
            let given = code.run(&mut store, &body, longest).await;
            let limits = &store.data().limits;
            let (memory, starved) = (limits.used(), limits.refused);
            drop(store);
            (given, memory, starved)
        }));
        let (given, memory, starved) = match self.house.long.drive(Box::pin(work), &running.pace).await {
            Ok(ended) => ended,
            Err(cut) => return running.done(Err(fault_of(cut)), usage(&spent, None)),
        };
        let wanted = running.wanted;
        let result = match given {
            Ok(Given::Bytes(bytes)) if wanted.json => answer::json(bytes, wanted.max_result),
            Ok(Given::Bytes(bytes)) => answer::of_bytes(bytes, wanted),
            Ok(Given::TooLong(size, beginning)) => {
                Err(answer::too_large(size, wanted.max_result, &beginning))
            }
            Err(error) => {
                return running.failed(&error, starved, usage(&spent, Some(memory)));
            }
        };
        running.done(result, usage(&spent, Some(memory)))
    }

    async fn run_exchange(&self, running: Running, guest: Work<Ended>, source: Source) -> Invoked {
        let patience = match (&source, running.wanted.json) {
            // A program's answer has no head: what it is is known at its end.
            (Source::Stdout(_), _) | (Source::Http { .. }, true) => Patience { bytes: WHOLE, waits: false },
            (Source::Http { .. }, false) => Patience { bytes: WHOLE, waits: true },
        };
        let Wanted { json, max_result } = running.wanted;
        let most = usize::try_from(max_result).unwrap_or(usize::MAX).max(WHOLE);
        let mut exchange = Exchange::new(guest, source);
        let begin = async move {
            let mut begun = exchange.begin(patience).await;
            if json && begun == Begun::Streams && exchange.may_succeed() {
                begun = exchange.whole_json(most).await;
            }
            (begun, exchange)
        };
        let (work, spent) = Metered::new(Box::pin(begin));
        match self.house.long.drive(Box::pin(work), &running.pace).await {
            Err(cut) => running.done(Err(fault_of(cut)), usage(&spent, None)),
            Ok((Begun::Whole, exchange)) => running.whole(exchange, None, &spent),
            Ok((Begun::TooLong(size), exchange)) => running.whole(exchange, Some(size), &spent),
            Ok((Begun::Streams, exchange)) => self.stream(running, exchange, spent),
        }
    }

    /// Answers with what has come, and goes on behind.
    fn stream(&self, running: Running, mut exchange: Exchange, spent: Spent) -> Invoked {
        let head = match exchange.take_head() {
            Some((status, mut headers)) => {
                if let Err(fault) = outcome::is_final(status) {
                    return running.done(Err(fault), usage(&spent, None));
                }
                answer::remove_hop_by_hop(&mut headers);
                ReplyHead::Http { status, headers }
            }
            None => answer::ok("application/octet-stream"),
        };
        let (sender, body) = body_channel();
        let (ended, end) = oneshot::channel();
        let house = Arc::clone(&self.house);
        let task = tokio::spawn(async move {
            let _ = ended.send(relay(&house, running, exchange, spent, sender).await);
        });
        *self.relay.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        Invoked::Streaming { head, body, end }
    }
}

/// Gives on the rest of an answer, to the call's end.
async fn relay(
    house: &House,
    running: Running,
    mut exchange: Exchange,
    before: Spent,
    sender: BodySender,
) -> CallEnd {
    // The body's end is not seen before this is given up, which a guest that goes on after its answer must not put off.
    let last_word = Arc::new(Mutex::new(Some(LastWord::of(&sender))));
    let held = Arc::clone(&last_word);
    let take = |word: &Mutex<Option<LastWord>>| word.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (work, spent) = Metered::new(Box::pin(async move {
        let taken = exchange.relay(sender).await;
        if taken {
            if exchange.answered() {
                drop(take(&held));
            }
            exchange.finish().await;
        }
        exchange
    }));
    let driven = house.long.drive(Box::pin(work), &running.pace).await;
    let cpu = before.so_far() + spent.so_far();
    let (ended, broken) = match driven {
        Ok(exchange) => (exchange.ended, exchange.broken),
        Err(cut) => {
            let fault = fault_of(cut);
            if let Some(word) = take(&last_word) {
                word.broken(&fault);
            }
            return running.end(Some(fault), usage_of(cpu, None));
        }
    };
    let Some(ended) = ended else {
        // The caller went away, and the guest was ended: nobody is there to be told of a fault.
        return running.end(None, usage_of(cpu, None));
    };
    let usage = usage_of(cpu, Some(ended.memory));
    match (ended.outcome, broken) {
        (Err(error), _) => {
            let (logs, logs_truncated) = running.logs.finish();
            let fault = fault::of(&error, ended.starved, last_words(&logs));
            if let Some(word) = take(&last_word) {
                word.broken(&fault);
            }
            CallEnd { logs, logs_truncated, usage, reusable: true, fault: Some(fault) }
        }
        (Ok(()), Some(why)) => running.end(Some(Fault::Developer { message: why }), usage),
        (Ok(()), None) => running.end(None, usage),
    }
}

#[async_trait]
impl Instance for WasmInstance {
    fn id(&self) -> InstanceId {
        self.id
    }

    async fn invoke(&self, mut call: Call) -> Invoked {
        let running = Running {
            logs: LogSink::new(call.max_logs),
            pace: Pace::until(call.deadline),
            wanted: Wanted { json: call.head.is_none(), max_result: call.max_result.as_u64() },
        };
        if self.stopped.initialized() {
            let fault = platform("the instance was stopped before the call");
            return Invoked::Done { result: Err(fault), end: CallEnd::default() };
        }
        let held = match self.enter(&running.pace).await {
            Ok(held) => held,
            Err(fault) => return running.done(Err(fault), Usage::default()),
        };
        match &held.settled.code {
            Code::Core(code) => self.run_core(Arc::clone(code), running, held, call).await,
            Code::Program(program) => {
                let program = Arc::clone(program);
                let env = self.environment(&held, &call, environment::with_request);
                let body = std::mem::replace(&mut call.body, Body::Full(Bytes::new()));
                let (inlet, outlet) = (Inlet::new(body), Outlet::default());
                let (stdin, stdout) = (Box::new(inlet.clone()), Box::new(outlet.clone()));
                let gate = self.gate.clone();
                let seed = CallSeed { stdin, stdout, logs: running.logs.clone(), env, gate };
                let mut store = self.store(&held.settled, seed, &running.pace);
                let guest = Box::pin(async move {
                    let _held = held;
                    let mut outcome = program.run(&mut store).await;
                    if let (Err(_), Some(error)) = (&outcome, inlet.broken()) {
                        outcome = Err(BodyBroke(error).into());
                    }
                    ended(&store, outcome)
                });
                self.run_exchange(running, guest, Source::Stdout(outlet)).await
            }
            Code::Http(component) => {
                let component = Arc::clone(component);
                let env = self.environment(&held, &call, environment::of);
                let request = match contracts::request(&mut call) {
                    Ok(request) => request,
                    Err(cause) => return running.done(Err(platform(&cause)), Usage::default()),
                };
                let seed = CallSeed {
                    stdin: Box::new(Inlet::new(Body::Full(Bytes::new()))),
                    stdout: Box::new(running.logs.stream(LogStream::Stdout)),
                    logs: running.logs.clone(),
                    env,
                    gate: self.gate.clone(),
                };
                let mut store = self.store(&held.settled, seed, &running.pace);
                let (respond, responded) = oneshot::channel();
                let guest = Box::pin(async move {
                    let _held = held;
                    let outcome = component.handle(&mut store, request, respond).await;
                    ended(&store, outcome)
                });
                let source = Source::Http { head: Head::Awaited(responded), body: None };
                self.run_exchange(running, guest, source).await
            }
        }
    }

    async fn memory(&self) -> Option<ByteSize> {
        None
    }

    /// It has no processor to take away: between calls there is nothing of it.
    async fn pause(&self) {}

    async fn resume(&self) {}

    /// Between calls there is nothing that could end by itself.
    async fn ended(&self) {
        self.stopped.wait().await;
    }

    fn has_ended(&self) -> bool {
        self.stopped.initialized()
    }

    async fn stop(&self) {
        // It may have been stopped before.
        let _ = self.stopped.set(());
        let relay = self.relay.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(relay) = relay {
            relay.abort();
            let _ = relay.await;
        }
    }
}

impl Drop for WasmInstance {
    fn drop(&mut self) {
        let relay = self.relay.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(relay) = relay {
            relay.abort();
        }
    }
}

impl Running {
    fn end(self, fault: Option<Fault>, usage: Usage) -> CallEnd {
        let (logs, logs_truncated) = self.logs.finish();
        CallEnd { logs, logs_truncated, usage, reusable: true, fault }
    }

    fn done(self, result: Result<Reply, Fault>, usage: Usage) -> Invoked {
        Invoked::Done { result, end: self.end(None, usage) }
    }

    fn failed(self, error: &wasmtime::Error, starved: bool, usage: Usage) -> Invoked {
        let (logs, logs_truncated) = self.logs.finish();
        let fault = match error.downcast_ref::<BodyBroke>() {
            Some(BodyBroke(error)) => body_broke(error),
            None => fault::of(error, starved, last_words(&logs)),
        };
        let end = CallEnd { logs, logs_truncated, usage, reusable: true, fault: None };
        Invoked::Done { result: Err(fault), end }
    }

    /// An answer that is complete, with its guest at its end. `too_long`: how long it is, where it is a result that was not kept to its end.
    fn whole(self, mut exchange: Exchange, too_long: Option<u64>, spent: &Spent) -> Invoked {
        let Some(ended) = exchange.ended.take() else {
            return self.done(Err(platform("the function's end was not seen")), usage(spent, None));
        };
        let usage = usage(spent, Some(ended.memory));
        if let Err(error) = &ended.outcome {
            return self.failed(error, ended.starved, usage);
        }
        let body = exchange.whole.split().freeze();
        let wanted = self.wanted;
        let too_long = too_long.map(|size| answer::too_large(size, wanted.max_result, &body));
        let result = match &exchange.source {
            Source::Stdout(_) => too_long.map_or_else(|| answer::of_bytes(body, wanted), Err),
            Source::Http { head: Head::Here(_), .. } => {
                match (exchange.broken.take(), exchange.take_head()) {
                    (None, Some((status, headers))) => {
                        too_long.map_or_else(|| http_reply(status, headers, body, wanted), Err)
                    }
                    (why, _) => Err(developer(&why.unwrap_or_default())),
                }
            }
            Source::Http { head: Head::Refused(code), .. } => {
                Err(developer(&format!("the function answered with the error {code}")))
            }
            Source::Http { .. } => {
                Err(developer("the function ended without a response: it has to call response-outparam.set"))
            }
        };
        self.done(result, usage)
    }
}

/// A call that came as JSON and is answered with JSON gets a JSON result; any other the HTTP response.
fn http_reply(
    status: http::StatusCode,
    mut headers: http::HeaderMap,
    body: Bytes,
    wanted: Wanted,
) -> Result<Reply, Fault> {
    if wanted.json && status.is_success() && answer::is_object_or_array(&body) {
        return answer::json(body, wanted.max_result);
    }
    outcome::is_final(status)?;
    answer::remove_hop_by_hop(&mut headers);
    Ok(Reply { head: ReplyHead::Http { status, headers }, body })
}

/// The request's body did not come to its end.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct BodyBroke(BodyError);

fn ended(store: &Store<State>, outcome: wasmtime::Result<()>) -> Ended {
    let limits = &store.data().limits;
    Ended { outcome, memory: limits.used(), starved: limits.refused }
}

fn fault_of(cut: Cut) -> Fault {
    match cut {
        Cut::Deadline => Fault::Deadline,
        Cut::Lost => platform("the thread that ran the function ended; the server's log says why"),
    }
}

fn body_broke(error: &BodyError) -> Fault {
    platform(&format!("the request's body did not come to its end: {error}"))
}

fn platform(cause: &str) -> Fault {
    Fault::Platform { cause: cause.to_owned() }
}

fn developer(message: &str) -> Fault {
    Fault::Developer { message: message.to_owned() }
}

/// The last line of stderr with something in it.
fn last_words(logs: &[flint_model::LogLine]) -> Option<String> {
    let lines = logs.iter().rev().filter(|line| line.stream == LogStream::Stderr);
    lines.map(|line| line.text.trim()).find(|text| !text.is_empty()).map(str::to_owned)
}

fn usage(spent: &Spent, memory: Option<usize>) -> Usage {
    usage_of(spent.so_far(), memory)
}

fn usage_of(cpu: Duration, memory: Option<usize>) -> Usage {
    Usage {
        cpu_us: Some(cpu.as_micros() as u64),
        memory_peak: memory.map(|bytes| ByteSize::bytes(bytes as u64)),
    }
}
