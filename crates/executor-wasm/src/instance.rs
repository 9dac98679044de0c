//! An instance. Only the code exists between calls: each call has its own memory, tables and globals.

use std::sync::{Arc, Mutex, PoisonError, atomic::Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use flint_executor::{Body, BodyError, Call, CallEnd, Fault, Instance, Invoked};
use flint_gate::DirectGate;
use flint_model::{ByteSize, InstanceId, LogStream, NamespaceName, Usage};
use flint_runtimes::outcome;
use futures_util::future::select_all;
use tokio::{
    sync::{SetOnce, oneshot},
    task::JoinHandle,
    time::timeout_at,
};
use wasmtime::Store;

use crate::{
    answer::{self, Wanted},
    breach::Breach,
    contracts::{self, Code, CoreModule, Given, Long},
    drive::{Metered, Spent, Work},
    environment,
    exchange::{Begun, Ended, Exchange, Head, Patience, Source, WHOLE},
    executor::House,
    held::{Held, Places},
    host::{CallSeed, Host, LogSink},
    interrupt::Turn,
    lane,
    limits::{Limits, Starved},
    prepare::Artefact,
    purse::Purse,
    running::{Running, fault_of, platform, usage},
    settled::Settled,
    shelf::Loaded,
    state::{self, Pace, State},
    stdio::{Inlet, Outlet},
    streaming::stream,
    tenant::Tenant,
};

/// A function ready to be called, which takes no memory until then.
pub(crate) struct WasmInstance {
    id: InstanceId,
    house: Arc<House>,
    artefact: Arc<Artefact>,
    /// The start's variables for the guest's environment.
    environment: Vec<(String, String)>,
    /// Its access to the API.
    gate: Option<Arc<DirectGate>>,
    /// The namespace whose calls it serves, if that is not the function's.
    guest: Option<Arc<Tenant>>,
    relay: Mutex<Option<JoinHandle<()>>>,
    stopped: SetOnce<()>,
}

/// How far the call of a core module has come.
enum Ran {
    Over {
        /// The result; or why it is none.
        bytes: wasmtime::Result<Result<Bytes, Fault>>,
        memory: usize,
        starved: Starved,
    },
    /// Its result is passed on out of its memory.
    Pours(Long, Store<State>, Held),
}

impl WasmInstance {
    pub(crate) fn new(
        id: InstanceId,
        house: Arc<House>,
        artefact: Arc<Artefact>,
        environment: Vec<(String, String)>,
        gate: Option<Arc<DirectGate>>,
        guest: Option<Arc<Tenant>>,
    ) -> Self {
        let (relay, stopped) = (Mutex::new(None), SetOnce::new());
        Self { id, house, artefact, environment, gate, guest, relay, stopped }
    }

    /// Takes places in the pool, waiting if necessary: on this thread's engine, or on one that has some. Loads
    /// the code there, unless it is. If that would have to wait for room, engines that have the code go before.
    async fn enter(&self, pace: &Pace) -> Result<Held, Fault> {
        let settled = &self.artefact.settled;
        let own = lane::of_this_thread() % settled.len();
        let (before, from_own) = settled.split_at(own);
        let mut in_turn = from_own.iter().chain(before);
        let places = match in_turn.find_map(|settled| Places::at_once(settled, self.guest.as_ref())) {
            Some(places) => places,
            None => self.wait(pace).await?,
        };
        if let Some(code) = places.settled.loaded() {
            return Ok(Held { code, places });
        }
        if !places.settled.has_room(self.guest.as_ref())
            && let Some(held) = self.where_loaded()
        {
            return Ok(held);
        }
        // Boxed, since its state is large and most calls have none.
        let code = Box::pin(load(&places.settled, self.guest.as_ref(), pace)).await?;
        Ok(Held { code, places })
    }

    /// Takes places on any engine that has the code loaded, if they are free.
    fn where_loaded(&self) -> Option<Held> {
        self.artefact.settled.iter().find_map(|settled| {
            let code = settled.loaded()?;
            Some(Held { code, places: Places::at_once(settled, self.guest.as_ref())? })
        })
    }

    /// Waits for places on any engine.
    async fn wait(&self, pace: &Pace) -> Result<Places, Fault> {
        let (settled, crowd) = (&self.artefact.settled, &self.house.crowd);
        crowd.waited.fetch_add(1, Ordering::Relaxed);
        let places = settled.iter().map(|settled| Box::pin(Places::in_turn(settled, self.guest.as_ref())));
        match timeout_at(pace.deadline().into(), select_all(places)).await {
            Ok((Some(places), ..)) => Ok(places),
            Ok((None, ..)) => Err(platform("the server is shutting down")),
            Err(_) => {
                crowd.refused.fetch_add(1, Ordering::Relaxed);
                let instances: u32 = settled.iter().map(|settled| settled.ground.size.instances).sum();
                let guest = self.guest.as_ref();
                let whose = match settled.iter().any(|settled| settled.is_short_of_share(guest)) {
                    true => "the namespace's three quarters of the",
                    false => "all",
                };
                Err(platform(&format!(
                    "{whose} {instances} Wasm instances were in use until the time limit passed; the pool is bounded by {}",
                    settled[0].ground.size.bound
                )))
            }
        }
    }

    /// The namespace that its calls are charged to.
    fn whose(&self) -> &NamespaceName {
        self.guest.as_ref().map_or(&self.artefact.namespace, |guest| &guest.namespace)
    }

    /// The environment that `tell` makes, for a guest that can read it.
    fn environment(&self, held: &Held, call: &Call, tell: environment::Tell) -> environment::Variables {
        if held.places.settled.reads_environment { tell(&self.environment, call) } else { Vec::new() }
    }

    fn store(&self, settled: &Arc<Settled>, call: CallSeed, pace: &Arc<Pace>) -> Store<State> {
        let Settled { ground, grants, .. } = &**settled;
        let config = &self.house.config;
        let logs = call.logs.clone();
        let purse = || Purse::new(settled, self.guest.clone());
        let host = Host::new(&ground.services, grants, call)
            .charged_to(self.guest.clone())
            .paying_out_of(grants.has_files().then(purse));
        let turn = Turn::new(Arc::clone(pace), ground.ticker.clock());
        let limits = Limits::new(self.artefact.memory, config.table_elements as usize, Some(purse()));
        state::store(&ground.engine, config, limits, logs, host, turn)
    }

    async fn run_core(&self, code: Arc<CoreModule>, running: Running, held: Held, mut call: Call) -> Invoked {
        let body = std::mem::replace(&mut call.body, Body::Full(Bytes::new()));
        let body = match body {
            Body::Full(body) => body,
            stream => {
                let whole = stream.collect(self.artefact.memory as u64);
                match timeout_at(running.pace.deadline().into(), whole).await {
                    Ok(Ok(body)) => body,
                    Ok(Err(error)) => return running.done(Err(Fault::Request(error)), Usage::default()),
                    Err(_) => return running.done(Err(Fault::Request(BodyError::Late)), Usage::default()),
                }
            }
        };
        let seed = CallSeed {
            stdin: Box::new(Inlet::new(Body::Full(Bytes::new()), Breach::default())),
            stdout: Box::new(running.logs.stream(LogStream::Stdout)),
            logs: running.logs.clone(),
            env: self.environment(&held, &call, environment::of),
            gate: None,
        };
        let store = self.store(&held.places.settled, seed, &running.pace);
        let Wanted { json, max_result } = running.wanted;
        let longest = if json { max_result } else { max_result.max(WHOLE as u64) };
        let (work, spent) = Metered::new(Box::pin(async move {
            let (held, mut store) = (held, store);
            let bytes = match code.run(&mut store, &body, longest).await {
                Ok(Given::Long(long)) if !json => return Ran::Pours(long, store, held),
                Ok(Given::Long(long)) => {
                    Ok(Err(outcome::too_large(long.size(), max_result, long.bytes(&store))))
                }
                Ok(Given::Bytes(bytes)) => Ok(Ok(bytes)),
                Err(error) => Err(error),
            };
            let limits = &store.data().limits;
            Ran::Over { bytes, memory: limits.used(), starved: limits.starved }
        }));
        let driven = self.house.long.drive(Box::pin(work), &running.pace, self.whose()).await;
        let (bytes, memory, starved) = match driven {
            Ok(Ran::Over { bytes, memory, starved }) => (bytes, memory, starved),
            Ok(Ran::Pours(long, store, held)) => {
                let outlet = Outlet::default();
                let source = Source::Stdout(outlet.clone());
                let guest = Box::pin(async move {
                    let (_held, mut store) = (held, store);
                    let outcome = long.pour(&mut store, outlet).await;
                    ended(&store, outcome)
                });
                return self.run_exchange(running, guest, source, spent).await;
            }
            Err(cut) => return running.done(Err(fault_of(cut)), usage(&spent, None)),
        };
        let (wanted, usage) = (running.wanted, usage(&spent, Some(memory)));
        match bytes {
            Ok(Ok(bytes)) if json => running.done(outcome::json(bytes, max_result), usage),
            Ok(Ok(bytes)) => running.done(answer::of_bytes(bytes, wanted), usage),
            Ok(Err(fault)) => running.done(Err(fault), usage),
            Err(error) => running.failed(&error, starved, usage),
        }
    }

    /// `before` is what the call has spent so far.
    async fn run_exchange(
        &self,
        running: Running,
        guest: Work<Ended>,
        source: Source,
        before: Spent,
    ) -> Invoked {
        let patience = match (&source, running.wanted.json) {
            // A program's answer has no head; its type is known at its end.
            (Source::Stdout(_), _) | (Source::Http { .. }, true) => Patience { bytes: WHOLE, waits: false },
            (Source::Http { .. }, false) => Patience { bytes: WHOLE, waits: true },
        };
        let Wanted { json, max_result } = running.wanted;
        let most = usize::try_from(max_result).unwrap_or(usize::MAX).max(WHOLE);
        let mut exchange = Exchange::new(guest, Arc::clone(&running.pace), source);
        let begin = async move {
            let mut begun = exchange.begin(patience).await;
            if json && begun == Begun::Streams && exchange.may_succeed() {
                begun = exchange.whole_json(most).await;
            }
            (begun, exchange)
        };
        let (work, spent) = Metered::after(before, Box::pin(begin));
        match self.house.long.drive(Box::pin(work), &running.pace, self.whose()).await {
            Err(cut) => running.done(Err(fault_of(cut)), usage(&spent, None)),
            Ok((Begun::Whole, exchange)) => running.whole(exchange, None, &spent),
            Ok((Begun::TooLong(size), exchange)) => running.whole(exchange, Some(size), &spent),
            Ok((Begun::Streams, exchange)) => {
                let (house, whose) = (&self.house, self.whose().clone());
                stream(house, &self.relay, whose, running, exchange, spent)
            }
        }
    }
}

#[async_trait]
impl Instance for WasmInstance {
    fn id(&self) -> InstanceId {
        self.id
    }

    async fn invoke(&self, call: Call) -> Invoked {
        let running = Running {
            logs: LogSink::new(call.max_logs),
            pace: Pace::until(call.deadline),
            wanted: Wanted { json: call.head.is_none(), max_result: call.max_result.as_u64() },
            breach: Breach::default(),
        };
        if self.stopped.initialized() {
            let fault = platform("the instance was stopped before the call");
            return Invoked::Done { result: Err(fault), end: CallEnd::default() };
        }
        let held = match self.enter(&running.pace).await {
            Ok(held) => held,
            Err(fault) => return running.done(Err(fault), Usage::default()),
        };
        match &held.code.code {
            Code::Core(code) => self.run_core(Arc::clone(code), running, held, call).await,
            Code::Program(program) => {
                let program = Arc::clone(program);
                let env = self.environment(&held, &call, environment::with_request);
                let (inlet, outlet) = (Inlet::new(call.body, running.breach.clone()), Outlet::default());
                let (stdin, stdout) = (Box::new(inlet), Box::new(outlet.clone()));
                let gate = self.gate.clone();
                let seed = CallSeed { stdin, stdout, logs: running.logs.clone(), env, gate };
                let store = self.store(&held.places.settled, seed, &running.pace);
                let guest = Box::pin(async move {
                    let (_held, mut store) = (held, store);
                    let outcome = program.run(&mut store).await;
                    ended(&store, outcome)
                });
                self.run_exchange(running, guest, Source::Stdout(outlet), Spent::default()).await
            }
            Code::Http(component) => {
                let component = Arc::clone(component);
                let env = self.environment(&held, &call, environment::of);
                let request = match contracts::request(call, running.breach.clone()) {
                    Ok(request) => request,
                    Err(cause) => return running.done(Err(platform(&cause)), Usage::default()),
                };
                let seed = CallSeed {
                    stdin: Box::new(Inlet::new(Body::Full(Bytes::new()), Breach::default())),
                    stdout: Box::new(running.logs.stream(LogStream::Stdout)),
                    logs: running.logs.clone(),
                    env,
                    gate: self.gate.clone(),
                };
                let store = self.store(&held.places.settled, seed, &running.pace);
                let (respond, responded) = oneshot::channel();
                let guest = Box::pin(async move {
                    let (_held, mut store) = (held, store);
                    let outcome = component.handle(&mut store, request, respond).await;
                    ended(&store, outcome)
                });
                let source = Source::Http { head: Head::Awaited(responded), body: None };
                self.run_exchange(running, guest, source, Spent::default()).await
            }
        }
    }

    async fn memory(&self) -> Option<ByteSize> {
        None
    }

    /// Between calls nothing runs that could be paused.
    async fn pause(&self) {}

    async fn resume(&self) {}

    /// Between calls nothing runs that could end by itself.
    async fn ended(&self) {
        self.stopped.wait().await;
    }

    fn has_ended(&self) -> bool {
        self.stopped.initialized()
    }

    async fn stop(&self) {
        // It may have been stopped already.
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

/// Loads code on an engine that has not run it lately.
async fn load(settled: &Settled, guest: Option<&Arc<Tenant>>, pace: &Pace) -> Result<Arc<Loaded>, Fault> {
    match timeout_at(pace.deadline().into(), settled.load(guest)).await {
        Ok(loaded) => loaded.map_err(|error| platform(&error.to_string())),
        Err(_) => Err(platform("the function's code was not loaded before the time limit passed")),
    }
}

fn ended(store: &Store<State>, outcome: wasmtime::Result<()>) -> Ended {
    let limits = &store.data().limits;
    Ended { outcome, memory: limits.used(), starved: limits.starved }
}
