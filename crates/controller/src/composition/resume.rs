//! Starts accepted compositions from the queue, or resumes them from the journal.

use std::sync::Arc;

use flint_store::CompositionStep;

use super::{
    enter::object_of,
    progress::Progress,
    run::{Composition, CompositionEnd},
};
use crate::{Controller, ControllerError, asynchronous::Held, resolve::Resolved};

/// Where a composition starts or resumes.
pub(crate) enum Beginning<'a> {
    /// From the beginning, with the called action.
    First(&'a Resolved),
    /// From a step in the journal.
    Step(CompositionStep),
}

impl Controller {
    /// Runs an accepted composition.
    pub(crate) async fn compose_accepted(
        self: &Arc<Self>,
        held: &Held,
        beginning: Beginning<'_>,
        recorded: bool,
    ) -> Result<CompositionEnd, ControllerError> {
        let place = held.api_key.is_some().then(|| held.in_flight.share());
        let call = &held.call;
        let whose = Composition {
            id: call.activation,
            lease: held.lease,
            namespace: call.namespace.clone(),
            account: held.in_flight.account().number,
            created: held.in_flight.account().created(),
            subject: call.subject.as_str().into(),
            transaction: call.transaction.as_str().into(),
            api_key: held.api_key.clone(),
            place,
            nested: 0,
            arrived: held.arrived,
            recorded,
            accepted: Some(Arc::new(call.clone())),
        };
        let (progress, earlier) = match beginning {
            Beginning::Step(step) => {
                let progress: Progress = serde_json::from_slice(&step.state).map_err(|error| {
                    let id = whose.id;
                    ControllerError::Internal(format!(
                        "the journal of composition {id} is unreadable: {error}"
                    ))
                })?;
                tracing::info!(activation = %whose.id, function = %call.path, "a composition goes on");
                (progress, Some(step.earlier))
            }
            Beginning::First(composition) => {
                let arguments = object_of(&call.arguments)?;
                (self.beginning_of(&whose, &call.path, composition, arguments), None)
            }
        };
        Ok(self.run_composition(&whose, progress, earlier).await)
    }
}
