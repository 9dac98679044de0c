//! The state of one call: the data of its store.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Instant,
};

use wasmtime::{Engine, Store};

use crate::{
    WasmConfig,
    host::{AsHost, Host, LogSink},
    interrupt::{self, Turn},
    limits::Limits,
};

/// Most bytes that a guest passes to the host at a time: twice the limit of any host function.
const MOST_HANDED: usize = 16 << 20;

/// Most handles among a call's components and the host, and most streams and tasks of WASI 0.3, since they
/// take the server's memory.
const MOST_HANDLES: usize = 10_000;

/// The data of every store, whatever the contract. Host functions reach what they need through it: WASI and
/// the capabilities by [`AsHost`], `flint.log` by [`Self::logs`].
pub(crate) struct State {
    /// The instance's limits and its usage.
    pub(crate) limits: Limits,
    /// Collects the call's log lines; the WASI context's streams have clones of it.
    pub(crate) logs: LogSink,
    /// Until when it may compute before it gives way.
    pub(crate) turn: Turn,
    host: Host,
}

impl AsHost for State {
    fn host(&mut self) -> &mut Host {
        &mut self.host
    }
}

/// The state of a running call that is shared with code outside its store.
#[derive(Debug)]
pub(crate) struct Pace {
    deadline: Instant,
    overstayed: AtomicBool,
}

impl Pace {
    pub(crate) fn until(deadline: Instant) -> Arc<Self> {
        Arc::new(Self { deadline, overstayed: AtomicBool::new(false) })
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// It has computed for longer than a tick.
    pub(crate) fn overstay(&self) {
        self.overstayed.store(true, Ordering::Relaxed);
    }

    /// Whether it has computed for longer than a tick.
    pub(crate) fn overstayed(&self) -> bool {
        self.overstayed.load(Ordering::Relaxed)
    }

    /// Yields the thread if so.
    pub(crate) async fn give_way(&self) {
        if self.overstayed() {
            step_aside().await;
        }
    }
}

/// Yields the thread, and could go on at once. Who yields by tokio's `yield_now` is woken later, like who waits for
/// something, and lines up for its next turn after all others ([`crate::drive`]).
pub(crate) async fn step_aside() {
    let mut stepped = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut stepped, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A store for one call.
pub(crate) fn store(
    engine: &Engine,
    config: &WasmConfig,
    limits: Limits,
    logs: LogSink,
    host: Host,
    turn: Turn,
) -> Store<State> {
    let mut store = Store::new(engine, State { limits, logs, turn, host });
    store.limiter(|state| &mut state.limits);
    store.set_hostcall_fuel(MOST_HANDED);
    store.set_max_component_handles(MOST_HANDLES);
    if let Some(table) = store.concurrent_resource_table() {
        table.set_max_capacity(MOST_HANDLES);
    }
    interrupt::interrupt(&mut store);
    if config.fuel > 0 {
        // Only fails if fuel is not counted.
        let _ = store.set_fuel(config.fuel);
    }
    store
}
