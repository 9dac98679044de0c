//! Nested calls: calls that functions make through the API and wait for.
//!
//! A function that waits for another one occupies a place in flight and the memory of its instance. Enough
//! such functions would leave neither for the calls that they wait for: a deadlock. A waiting activation
//! therefore *lends* its place: when none is free, a call that it makes runs on this place, one call at a
//! time. So the calls that run without waiting never exceed the namespace's limit. For memory see
//! `flint_invoker::NESTED_LEVELS`.
//!
//! The calling activation is recognised by its key: `__OW_API_KEY` contains the activation's id.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use flint_model::{ActivationId, ApiKey, NamespaceName};
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    Caller, Controller, ControllerError, Mode,
    call::Admitted,
    in_flight::{InFlight, Place},
};

/// Maximum nesting depth on one place, which ends endless recursion.
const DEEPEST: u32 = 16;

/// Running activations that may call back, by id.
#[derive(Debug, Default)]
pub(crate) struct Callers(Mutex<HashMap<ActivationId, Arc<Lender>>>);

/// A running activation.
#[derive(Debug)]
struct Lender {
    namespace: NamespaceName,
    /// Nesting depth: the length of the chain of callers that wait for it.
    nested: u32,
    place: Arc<Place>,
    /// Permit for the one call that borrows its place. Closed when the activation is over.
    turn: Arc<Semaphore>,
}

/// A guard: while it lives, its activation may make nested calls.
pub(crate) struct CallsBack {
    callers: Arc<Callers>,
    id: ActivationId,
}

impl Drop for CallsBack {
    fn drop(&mut self) {
        if let Some(gone) = self.callers.map().remove(&self.id) {
            gone.turn.close();
        }
    }
}

impl Callers {
    fn map(&self) -> MutexGuard<'_, HashMap<ActivationId, Arc<Lender>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The running activation of that namespace to which a key was given.
    fn who_has(&self, key: &str, namespace: &NamespaceName) -> Option<Arc<Lender>> {
        let id = ApiKey::without_activation(key).1?;
        self.map().get(&id).filter(|lender| lender.namespace == *namespace).cloned()
    }
}

impl Lender {
    /// Lends its place to a call that it waits for, once the place is free.
    async fn lend(&self, wait: Duration) -> Option<InFlight> {
        let turn = timeout(wait, Arc::clone(&self.turn).acquire_owned()).await.ok()?.ok()?;
        Some(InFlight::lent(Arc::clone(&self.place), turn))
    }
}

impl Controller {
    /// Admits a call on a place of its own, or on that of the activation that makes it and waits. Returns its
    /// nesting depth too. The time spent waiting for a place is taken off `mode`.
    pub(crate) async fn admit_from(
        &self,
        caller: &Caller,
        key: Option<&str>,
        mode: &mut Mode,
    ) -> Result<(InFlight, u32), ControllerError> {
        let lender = match (&*mode, key) {
            (Mode::Blocking { .. }, Some(key)) => self.callers.who_has(key, &caller.namespace.name),
            _ => None,
        };
        let Some(lender) = lender else { return Ok((self.admit(caller)?, 0)) };
        let nested = lender.nested + 1;
        // Admitted even while the server drains: the activation that waits for it could not end otherwise.
        let refused = match Self::count_in(caller) {
            Ok(place) => return Ok((place, nested)),
            Err(refused) => refused,
        };
        let may_borrow =
            nested <= DEEPEST && matches!(refused, ControllerError::Concurrency { allowed: 1.., .. });
        if may_borrow && let Mode::Blocking { wait } = mode {
            let began = Instant::now();
            let most = (*wait).min(self.config.limits.bounds.max_blocking_wait);
            if let Some(place) = Box::pin(lender.lend(most)).await {
                *wait = most.saturating_sub(began.elapsed());
                return Ok((place, nested));
            }
        }
        Err(self.throttled(caller, refused))
    }

    /// Registers a running call that may call back, until the guard is dropped.
    pub(crate) fn calls_back(&self, call: &Admitted) -> Option<CallsBack> {
        let lender = Lender {
            namespace: call.namespace.clone(),
            nested: call.nested,
            place: call.place.clone().filter(|_| call.api_key.is_some())?,
            turn: Arc::new(Semaphore::new(1)),
        };
        self.callers.map().insert(call.id, Arc::new(lender));
        Some(CallsBack { callers: Arc::clone(&self.callers), id: call.id })
    }
}
