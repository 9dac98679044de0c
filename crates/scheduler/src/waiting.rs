//! A waiting call and a placed call; both may be dropped at any moment without losing an instance or a place.

use std::sync::Arc;

use flint_executor::StartFailure;
use flint_invoker::{InstanceKey, Lease, Refusal};
use tokio::{sync::oneshot, time::Instant};

use crate::{Scheduler, queue::Ticket};

/// What a waiting call receives.
pub(crate) enum Grant {
    /// An instance; the call counts as running once this is sent.
    Instance(Lease),
    /// Nothing.
    Refused(Refusal),
    /// The failure of the start made for it.
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
            // The sender is dropped only with the scheduler.
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
        // An instance may have been granted in the same moment.
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
    /// When it got the instance.
    pub(crate) since: Instant,
    /// `None` once the call is over.
    pub(crate) lease: Option<Lease>,
}

/// Measurements of a call, for its function's averages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    /// Service time.
    pub(crate) service: std::time::Duration,
    /// CPU time it used.
    pub(crate) cpu: Option<std::time::Duration>,
    /// Whether it was its instance's first call.
    pub(crate) first: bool,
}

impl Placed {
    /// Ends the call and returns the instance.
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
