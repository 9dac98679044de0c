//! Interrupts running code: it gives way to others at each tick, and ends at the first after its deadline.
//!
//! wasmtime looks at the epoch where a function begins and a loop goes round. One function can call its host
//! a hundred thousand times without either, so each return to it from the host is looked at as well.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use wasmtime::{CallHook, CallHookHandler, Result, Store, StoreContextMut, UpdateDeadline};

use crate::{
    state::{Pace, State, step_aside},
    ticker::Clock,
};

/// The time limit passed while the guest was computing.
#[derive(Debug, thiserror::Error)]
#[error("the time limit has passed")]
pub(crate) struct DeadlinePassed;

/// The time that a guest may compute until it gives way: it ends with the tick.
pub(crate) struct Turn {
    pace: Arc<Pace>,
    clock: Clock,
    /// The tick; `None` from when wasmtime made the guest give way until it goes on.
    began: Option<u64>,
}

impl Turn {
    pub(crate) fn new(pace: Arc<Pace>, clock: Clock) -> Self {
        let began = Some(clock.now());
        Self { pace, clock, began }
    }

    fn begin(&mut self) {
        self.began = Some(self.clock.now());
    }

    fn is_over(&mut self) -> bool {
        // One reading: the clock goes on between two.
        let now = self.clock.now();
        *self.began.get_or_insert(now) != now
    }

    /// The guest is to give way, or to end.
    fn end(&mut self) -> Result<()> {
        self.pace.overstay();
        self.began = None;
        if Instant::now() >= self.pace.deadline() { Err(DeadlinePassed.into()) } else { Ok(()) }
    }
}

/// Has the store's guest interrupted.
pub(crate) fn interrupt(store: &mut Store<State>) {
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|mut store| {
        store.data_mut().turn.end()?;
        Ok(UpdateDeadline::Yield(1))
    });
    store.call_hook_async(AfterHostCalls);
}

/// Looks at the clock whenever the host, or a function of wasmtime's own such as `memory.grow`, returns to the
/// guest.
struct AfterHostCalls;

impl CallHookHandler<State> for AfterHostCalls {
    /// What `async_trait` makes of an `async fn` would allocate memory for each of four events a host call; a
    /// future without fields takes none.
    fn handle_call_event<'hook, 'store, 'event>(
        &'hook self,
        mut store: StoreContextMut<'store, State>,
        event: CallHook,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'event>>
    where
        'hook: 'event,
        'store: 'event,
        Self: 'event,
    {
        if !matches!(event, CallHook::ReturningFromHost) || !store.data_mut().turn.is_over() {
            return Box::pin(GoOn);
        }
        Box::pin(async move {
            store.data_mut().turn.end()?;
            step_aside().await;
            store.data_mut().turn.begin();
            store.set_epoch_deadline(1);
            Ok(())
        })
    }
}

struct GoOn;

impl Future for GoOn {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wasmtime::{Config, Engine};

    use super::*;
    use crate::ticker::Ticker;

    #[test]
    fn a_turn_ends_with_the_tick_unless_the_guest_has_just_given_way() {
        let engine = Engine::new(Config::new().epoch_interruption(true)).unwrap();
        let ticker = Ticker::start(&engine).unwrap();
        let _beat = ticker.during();
        let clock = ticker.clock();
        let next_tick = || {
            let now = clock.now();
            while clock.now() == now {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let pace = Pace::until(Instant::now() + Duration::from_secs(60));
        let mut turn = Turn::new(Arc::clone(&pace), ticker.clock());
        next_tick();
        assert!(turn.is_over() && !pace.overstayed());
        turn.end().unwrap();
        assert!(pace.overstayed());
        next_tick();
        assert!(!turn.is_over());
        next_tick();
        assert!(turn.is_over());
        let mut late = Turn::new(Pace::until(Instant::now()), ticker.clock());
        assert!(late.end().unwrap_err().downcast_ref::<DeadlinePassed>().is_some());
    }

    #[test]
    fn what_goes_on_takes_no_memory() {
        assert_eq!((size_of::<GoOn>(), size_of::<AfterHostCalls>()), (0, 0));
    }
}
