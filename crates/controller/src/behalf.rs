//! Callers without a request: on whose behalf something is called that was accepted, or set up, earlier.

use std::sync::Arc;

use flint_model::{Identity, KeyId, NamespaceName};
use uuid::Uuid;

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
        let found = self.stores.catalog.namespace(namespace).await?;
        Ok(found.filter(|namespace| !namespace.blocked).map(|namespace| {
            let identity =
                Identity { namespace: Arc::new(namespace), subject: subject.into(), key: KeyId(Uuid::nil()) };
            Caller::new(identity, &self.config.limits, &self.accounts)
        }))
    }

    /// A namespace as a caller of its own: what is open to everybody runs on its account. `None` when there is none of that
    /// name or it is blocked.
    pub async fn owner(&self, namespace: &NamespaceName) -> Result<Option<Caller>, ControllerError> {
        let catalog = &*self.stores.catalog;
        self.credentials.owner(namespace, catalog, &self.config.limits, &self.accounts).await
    }
}
