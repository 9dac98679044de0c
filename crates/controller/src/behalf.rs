//! Callers without a request: those on whose behalf an earlier request accepted or set up a call.

use flint_model::NamespaceName;

use crate::{Caller, Controller, ControllerError};

impl Controller {
    /// The subject of a namespace, without a key: for calls that its owner arranged with one earlier. With
    /// this caller, [`Self::invoke`] acts as for a request of that subject, throttles included. `None` when
    /// the namespace is gone or blocked.
    pub async fn caller_of(
        &self,
        namespace: &NamespaceName,
        subject: &str,
    ) -> Result<Option<Caller>, ControllerError> {
        let catalog = &*self.stores.catalog;
        self.credentials.subject(namespace, subject, catalog, &self.config.limits, &self.accounts).await
    }

    /// Whether a namespace is blocked or deleted, so that nothing more is called for it.
    pub(crate) async fn is_blocked(&self, namespace: &NamespaceName) -> bool {
        matches!(self.owner(namespace).await, Ok(None))
    }

    /// A namespace as its own caller: actions open to everybody run on its account. `None` when it is gone or
    /// blocked.
    pub async fn owner(&self, namespace: &NamespaceName) -> Result<Option<Caller>, ControllerError> {
        let catalog = &*self.stores.catalog;
        self.credentials.owner(namespace, catalog, &self.config.limits, &self.accounts).await
    }
}
