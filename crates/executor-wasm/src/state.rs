//! What belongs to one call: the data of its store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use wasmtime::{Engine, Store, UpdateDeadline};

use crate::{
    WasmConfig,
    host::{AsHost, Host, LogSink},
    limits::Limits,
};

/// The most that a guest hands to the host at once, in bytes: twice what any of its functions takes.
const MOST_HANDED: usize = 16 << 20;

/// The most handles that the components of a call hold of each other's and the host's things, and the most streams and tasks of WASI 0.3: the server's memory.
const MOST_HANDLES: usize = 10_000;

/// The data of every store, whatever the contract. Host functions reach what they need through it: WASI and the capabilities by
/// [`AsHost`], `flint.log` by [`Self::logs`].
pub(crate) struct State {
    /// What the instance may use, and what it used.
    pub(crate) limits: Limits,
    /// Where the call's log lines go; clones of it are in the WASI context's streams.
    pub(crate) logs: LogSink,
    host: Host,
}

impl AsHost for State {
    fn host(&mut self) -> &mut Host {
        &mut self.host
    }
}

/// What is known of a running call outside its store.
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

    /// Whether it has computed for longer than a tick.
    pub(crate) fn overstayed(&self) -> bool {
        self.overstayed.load(Ordering::Relaxed)
    }

    /// Then lets others have the thread.
    pub(crate) async fn give_way(&self) {
        if self.overstayed() {
            tokio::task::yield_now().await;
        }
    }
}

/// The time limit passed while the guest computed.
#[derive(Debug, thiserror::Error)]
#[error("the time limit has passed")]
pub(crate) struct DeadlinePassed;

/// A store for one call.
pub(crate) fn store(
    engine: &Engine,
    config: &WasmConfig,
    memory: usize,
    logs: LogSink,
    host: Host,
    pace: &Arc<Pace>,
) -> Store<State> {
    let limits = Limits::new(memory, config.table_elements as usize);
    let mut store = Store::new(engine, State { limits, logs, host });
    store.limiter(|state| &mut state.limits);
    store.set_hostcall_fuel(MOST_HANDED);
    store.set_max_component_handles(MOST_HANDLES);
    if let Some(table) = store.concurrent_resource_table() {
        table.set_max_capacity(MOST_HANDLES);
    }
    store.set_epoch_deadline(1);
    let pace = Arc::clone(pace);
    store.epoch_deadline_callback(move |_| {
        pace.overstayed.store(true, Ordering::Relaxed);
        if Instant::now() >= pace.deadline {
            return Err(DeadlinePassed.into());
        }
        Ok(UpdateDeadline::Yield(1))
    });
    if config.fuel > 0 {
        // Only fails where fuel is not counted.
        let _ = store.set_fuel(config.fuel);
    }
    store
}
