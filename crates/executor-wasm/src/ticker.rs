//! The clock that interrupts running code: it yields to others at each tick, and ends at the first tick after
//! its deadline.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use wasmtime::Engine;

/// The time between two ticks.
pub(crate) const TICK: Duration = Duration::from_millis(10);
/// After so many ticks without a call the thread sleeps.
const PATIENCE: u32 = 100;

/// A thread that increments an engine's epoch while there are calls.
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
#[repr(align(128))]
struct Shared {
    /// Number of calls begun so far.
    calls: AtomicU64,
    /// Number of calls in progress.
    running: AtomicU64,
    ticks: AtomicU64,
    asleep: AtomicBool,
    closing: AtomicBool,
}

/// A call in progress.
pub(crate) struct Beat(Arc<Shared>);

/// Counts the ticks.
pub(crate) struct Clock(Arc<Shared>);

impl Clock {
    /// The number of ticks so far.
    pub(crate) fn now(&self) -> u64 {
        self.0.ticks.load(Ordering::Relaxed)
    }
}

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (beat, engine) = (Arc::clone(&shared), engine.clone());
        let thread = thread::Builder::new().name("wasm-ticker".into()).spawn(move || beat.run(&engine))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Ticks at least until the result is dropped.
    pub(crate) fn during(&self) -> Beat {
        let shared = &self.shared;
        shared.running.fetch_add(1, Ordering::SeqCst);
        shared.calls.fetch_add(1, Ordering::Relaxed);
        // A thread that has just checked and is about to sleep either sees `running` or is woken here.
        if shared.asleep.load(Ordering::SeqCst)
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
        Beat(Arc::clone(shared))
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock(Arc::clone(&self.shared))
    }

    /// Number of calls in progress.
    pub(crate) fn running(&self) -> usize {
        self.shared.running.load(Ordering::SeqCst) as usize
    }
}

impl Shared {
    fn run(&self, engine: &Engine) {
        let (mut quiet, mut seen) = (0, 0);
        while !self.closing.load(Ordering::Relaxed) {
            thread::sleep(TICK);
            engine.increment_epoch();
            self.ticks.fetch_add(1, Ordering::Relaxed);
            let calls = self.calls.load(Ordering::Relaxed);
            let busy = self.running.load(Ordering::SeqCst) > 0 || calls != seen;
            (quiet, seen) = (if busy { 0 } else { quiet + 1 }, calls);
            if quiet >= PATIENCE {
                self.asleep.store(true, Ordering::SeqCst);
                while self.running.load(Ordering::SeqCst) == 0 && !self.closing.load(Ordering::Relaxed) {
                    thread::park();
                }
                self.asleep.store(false, Ordering::SeqCst);
                quiet = 0;
            }
        }
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It notices `closing` within a tick.
            let _ = thread.join();
        }
    }
}
