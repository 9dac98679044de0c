//! A journal of compositions that is told late of an attempt at the second step that it has.

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use flint_model::{ActivationId, Attempt};
use flint_store::{CompositionStep, Compositions, Lease, StoreError};

/// Stands before a real journal.
pub struct LateJournal {
    journal: Mutex<Option<Arc<dyn Compositions>>>,
    /// What is told late: `begin` or `fail`.
    late: &'static str,
    /// Held while it is not told.
    gate: tokio::sync::Mutex<()>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// The steps, as they were reached.
    steps: Vec<ActivationId>,
    /// Whether what is told late has been asked for.
    asked: bool,
    /// What the journal answered to that.
    answer: Option<bool>,
}

impl LateJournal {
    /// One that is told late that an attempt begins (`begin`) or failed (`fail`).
    pub fn of(late: &'static str) -> Arc<Self> {
        let gate = tokio::sync::Mutex::default();
        Arc::new(Self { journal: Mutex::default(), late, gate, seen: Mutex::default() })
    }

    /// It is not told until what is given back is dropped.
    pub async fn hold(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.gate.lock().await
    }

    /// Whether there is something to tell.
    pub fn is_asked(&self) -> bool {
        self.seen().asked
    }

    /// What the journal answered when it was told.
    pub fn answer(&self) -> Option<bool> {
        self.seen().answer
    }

    pub(super) fn stand_before(&self, journal: Arc<dyn Compositions>) {
        *self.journal.lock().unwrap() = Some(journal);
    }

    fn journal(&self) -> Arc<dyn Compositions> {
        self.journal.lock().unwrap().clone().unwrap()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// Waits if this is what is told late; whether it is.
    async fn tell(&self, method: &str, step: ActivationId) -> bool {
        let late = method == self.late && self.seen().steps.get(1) == Some(&step);
        if late {
            self.seen().asked = true;
            drop(self.gate.lock().await);
        }
        late
    }
}

#[async_trait]
impl Compositions for LateJournal {
    async fn reach(&self, lease: Lease, step: ActivationId, state: Bytes) -> Result<(), StoreError> {
        self.seen().steps.push(step);
        self.journal().reach(lease, step, state).await
    }

    async fn begin(&self, lease: Lease, step: ActivationId) -> Result<bool, StoreError> {
        let late = self.tell("begin", step).await;
        let begun = self.journal().begin(lease, step).await?;
        if late {
            self.seen().answer = Some(begun);
        }
        Ok(begun)
    }

    async fn fail(&self, lease: Lease, step: ActivationId, failed: Attempt) -> Result<bool, StoreError> {
        let late = self.tell("fail", step).await;
        let written = self.journal().fail(lease, step, failed).await?;
        if late {
            self.seen().answer = Some(written);
        }
        Ok(written)
    }

    async fn take_up(&self, lease: Lease) -> Result<Option<CompositionStep>, StoreError> {
        self.journal().take_up(lease).await
    }
}
