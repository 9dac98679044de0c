//! A call that waits, and a call that has got its instance. Both can be dropped at any moment without anything being lost.

use std::sync::Arc;

use flint_executor::StartFailure;
use flint_invoker::{InstanceKey, Lease, Refusal};
use tokio::{sync::oneshot, time::Instant};

use crate::{Scheduler, queue::Ticket};

/// What a waiting call gets in the end.
pub(crate) enum Grant {
    /// An instance; the call counts as running from the moment this is sent.
    Instance(Lease),
    /// Nothing.
    Refused(Refusal),
    /// A start that failed.
    NotStarted(StartFailure),
}

/// Why a waiting call got no instance.
pub(crate) enum Unplaced {
    Refused(Refusal),
    NotStarted(StartFailure),
}

/// A call that waits.
pub(crate) struct Waiting {
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) key: Arc<InstanceKey>,
    pub(crate) ticket: Ticket,
    pub(crate) grant: oneshot::Receiver<Grant>,
    pub(crate) over: bool,
}

impl Waiting {
    pub(crate) async fn granted(mut self) -> Result<Placed, Unplaced> {
        let grant = (&mut self.grant).await;
        self.over = true;
        match grant {
            Ok(Grant::Instance(lease)) => Ok(Placed {
                scheduler: Arc::clone(&self.scheduler),
                key: Arc::clone(&self.key),
                ticket: self.ticket,
                since: Instant::now(),
                lease: Some(lease),
            }),
            Ok(Grant::Refused(refusal)) => Err(Unplaced::Refused(refusal)),
            Ok(Grant::NotStarted(failure)) => Err(Unplaced::NotStarted(failure)),
            // Its queue is gone, and that is so only when the scheduler is.
            Err(_) => Err(Unplaced::Refused(Refusal::ShuttingDown)),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.scheduler.leave(&self.key, self.ticket);
        // It may have been given an instance in the same moment.
        self.grant.close();
        if let Ok(Grant::Instance(lease)) = self.grant.try_recv() {
            self.scheduler.finish(&self.key, self.ticket, lease, None);
        }
    }
}

/// A call that has an instance.
pub(crate) struct Placed {
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) key: Arc<InstanceKey>,
    pub(crate) ticket: Ticket,
    /// When it got it.
    pub(crate) since: Instant,
    /// Taken when the call is over.
    pub(crate) lease: Option<Lease>,
}

/// What a call has shown about its function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    /// How long it ran.
    pub(crate) service: std::time::Duration,
    /// CPU time it used.
    pub(crate) cpu: Option<std::time::Duration>,
    /// It was its instance's first.
    pub(crate) first: bool,
}

impl Placed {
    /// The call is over.
    pub(crate) fn finish(mut self, shown: Shown) {
        if let Some(lease) = self.lease.take() {
            self.scheduler.finish(&self.key, self.ticket, lease, Some(shown));
        }
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.scheduler.finish(&self.key, self.ticket, lease, None);
        }
    }
}
