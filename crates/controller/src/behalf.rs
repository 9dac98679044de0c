//! Callers without a request: on whose behalf something is called that was accepted, or set up, earlier.

use flint_model::NamespaceName;

use crate::{Caller, Controller, ControllerError};

impl Controller {
    /// Whoever the subject of a namespace is, without a key: for what the namespace's owner arranged when there was one. With this
    /// caller, [`Self::invoke`] is what a request of that subject is, throttles included. `None` when there is no such
    /// namespace any more, or it is blocked.
    pub async fn caller_of(
        &self,
        namespace: &NamespaceName,
        subject: &str,
    ) -> Result<Option<Caller>, ControllerError> {
        let catalog = &*self.stores.catalog;
        self.credentials.subject(namespace, subject, catalog, &self.config.limits, &self.accounts).await
    }

    /// Whether an operator has blocked a namespace, or deleted it: then nothing more is called for it.
    pub(crate) async fn is_blocked(&self, namespace: &NamespaceName) -> bool {
        matches!(self.owner(namespace).await, Ok(None))
    }

    /// A namespace as a caller of its own: what is open to everybody runs on its account. `None` when there is none of that
    /// name or it is blocked.
    pub async fn owner(&self, namespace: &NamespaceName) -> Result<Option<Caller>, ControllerError> {
        let catalog = &*self.stores.catalog;
        self.credentials.owner(namespace, catalog, &self.config.limits, &self.accounts).await
    }
}
