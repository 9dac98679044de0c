//! Accepting a call.

use std::sync::Arc;

use bytes::Bytes;
use flint_model::Timestamp;
use flint_store::QueuedCall;

use super::state::Held;
use crate::{Answer, Controller, ControllerError, account::InFlight, call::Admitted};

impl Controller {
    /// Answers when the call is durable. It is then in this server's hands, or, where these are full, in the queue's.
    pub(crate) async fn accept(
        self: Arc<Self>,
        call: Admitted,
        arguments: Bytes,
        in_flight: InFlight,
    ) -> Result<Answer, ControllerError> {
        let Admitted { id, callable, namespace, subject, transaction, arrived, api_key, recorded, .. } = call;
        let config = &self.config.asynchronous;
        let room = self.accepted.room(arguments.len());
        let queued = QueuedCall {
            activation: id,
            namespace,
            subject: subject.as_ref().to_owned(),
            path: callable.function.path.clone(),
            arguments,
            transaction: transaction.as_ref().to_owned(),
            accepted: Timestamp::now(),
            max_attempts: config.max_attempts,
        };
        match room {
            Some(room) => {
                self.accepted.leased().insert(id);
                let accepted = self.stores.queue.enqueue(queued.clone(), &self.accepted.owner, config.lease);
                if let Err(error) = accepted.await {
                    self.accepted.leased().remove(&id);
                    return Err(error.into());
                }
                self.hold(Held {
                    call: queued,
                    attempt: 1,
                    earlier: Vec::new(),
                    arrived,
                    api_key,
                    recorded: Some(recorded),
                    in_flight,
                    room,
                });
            }
            None => {
                self.stores.queue.enqueue_due(queued).await?;
                in_flight.leave_counted();
                self.accepted.leave_one();
                self.accepted.hungry.notify_one();
            }
        }
        self.metrics.async_accepted();
        Ok(Answer::Accepted(id))
    }

    /// Puts a call into its namespace's line, and runs whoever's turn it is.
    pub(super) fn hold(self: &Arc<Self>, held: Held) {
        self.accepted.waiting().push(held.call.namespace.clone(), held);
        self.dispatch();
    }

    /// Starts waiting calls while there is room. Called whenever a call comes or ends, so no task has to wait for that.
    pub(super) fn dispatch(self: &Arc<Self>) {
        while !self.stopping.is_cancelled()
            && let Ok(running) = Arc::clone(&self.accepted.running).try_acquire_owned()
        {
            let Some(held) = self.accepted.waiting().pop() else { return };
            let controller = Arc::clone(self);
            self.calls.spawn(async move {
                controller.run_accepted(held).await;
                drop(running);
                controller.dispatch();
            });
        }
    }
}
