//! Activation records: reading.

use flint_model::{Activation, ActivationId, NamespaceName};
use flint_store::{ActivationQuery, CallState, Page};

use crate::{Caller, Controller, ControllerError, functions::own};

impl Controller {
    /// One record of a namespace.
    pub async fn activation(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        id: ActivationId,
    ) -> Result<Activation, ControllerError> {
        own(caller, namespace, || format!("{namespace}/{id}"))?;
        let found = self.stores.activations.get(namespace, id).await?;
        found.filter(|record| record.start >= caller.namespace.created).ok_or(ControllerError::NotFound)
    }

    /// The state of an accepted call that has no record yet or is a dead letter.
    pub async fn accepted_call(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        id: ActivationId,
    ) -> Result<CallState, ControllerError> {
        own(caller, namespace, || format!("{namespace}/{id}"))?;
        self.stores.queue.find(namespace, id).await?.ok_or(ControllerError::NotFound)
    }

    /// Records of a namespace, latest first. Without `with_logs` their `logs` are empty.
    pub async fn activations(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        query: &ActivationQuery,
        page: Page,
        with_logs: bool,
    ) -> Result<Vec<Activation>, ControllerError> {
        own(caller, namespace, || namespace.to_string())?;
        Ok(self.stores.activations.list(namespace, &own_of(caller, query), page, with_logs).await?)
    }

    /// The number of such records.
    pub async fn count_activations(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        query: &ActivationQuery,
    ) -> Result<usize, ControllerError> {
        own(caller, namespace, || namespace.to_string())?;
        Ok(self.stores.activations.count(namespace, &own_of(caller, query)).await?)
    }
}

/// The log files records under the namespace's name: records older than the namespace belong to a deleted one
/// of the same name.
fn own_of(caller: &Caller, query: &ActivationQuery) -> ActivationQuery {
    ActivationQuery { since: query.since.max(Some(caller.namespace.created)), ..query.clone() }
}
