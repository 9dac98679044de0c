//! Namespaces and their keys: creating, changing, deleting.

use std::sync::Arc;

use flint_model::{
    ApiKey, EntityName, KeyId, KeyRecord, LimitBounds, Namespace, NamespaceLimits, NamespaceName, Timestamp,
};
use flint_store::{ActivationQuery, Page, StoreError};
use tokio::sync::RwLockReadGuard;
use uuid::Uuid;

use crate::{
    Controller, ControllerError,
    account::Account,
    credentials::{hash_secret, new_secret},
    system,
};

/// The well-known key of OpenWhisk's guest. It is public, and therefore valid on loopback only.
pub const GUEST_KEY: &str = "23bc46b1-71f6-4ed5-8c54-816aa4f8c502:\
                             123zO3xZCLrMN6v2BKK1dXYFpXlPkccOFqm12CdAsMgRU4VrNZ9lyGVCGuMDGIwP";
const GUEST: &str = "guest";
/// Stands for the caller's namespace in paths.
const CALLERS_OWN: &str = "_";

impl Controller {
    /// Creates the guest namespace and its key where allowed, and removes the key otherwise.
    pub(crate) async fn bring_guest(&self) -> Result<(), ControllerError> {
        let catalog = &self.stores.catalog;
        let key =
            ApiKey::parse(GUEST_KEY).ok_or_else(|| ControllerError::Internal("the guest key".into()))?;
        if !self.config.guest {
            catalog.delete_key(key.id).await?;
            return Ok(());
        }
        let name = NamespaceName::parse(GUEST)?;
        if catalog.namespace(&name).await?.is_none() {
            let guest = self.new_namespace(name.clone(), NamespaceLimits::default()).await?;
            catalog.put_namespace(&guest).await?;
        }
        if catalog.key(key.id).await?.is_none() {
            catalog.put_key(&record_of(&key, name, GUEST)).await?;
        }
        Ok(())
    }

    /// Whether any key exists besides the guest key.
    pub async fn has_own_keys(&self) -> Result<bool, ControllerError> {
        let guest = ApiKey::parse(GUEST_KEY).map(|key| key.id);
        for namespace in self.stores.catalog.namespaces().await? {
            let keys = self.stores.catalog.keys(&namespace.name).await?;
            if keys.iter().any(|key| Some(key.id) != guest) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Creates a namespace with a first key, which is shown only once.
    pub async fn create_namespace(
        self: &Arc<Self>,
        name: NamespaceName,
        limits: NamespaceLimits,
    ) -> Result<(Namespace, ApiKey), ControllerError> {
        self.create_namespace_for(name, limits, None).await
    }

    /// The same with a subject, who calls with the key; by default the namespace itself.
    pub async fn create_namespace_for(
        self: &Arc<Self>,
        name: NamespaceName,
        limits: NamespaceLimits,
        subject: Option<String>,
    ) -> Result<(Namespace, ApiKey), ControllerError> {
        // Checked before anything is written: a namespace whose key nobody was shown would be useless.
        check_new_namespace(&name, &limits, subject.as_deref(), &self.config.limits.bounds)?;
        self.keep_room(&limits);
        let controller = Arc::clone(self);
        let creating = async move {
            let changing = controller.namespaces.lock().await;
            if controller.stores.catalog.namespace(&name).await?.is_some() {
                return Err(ControllerError::Exists);
            }
            let namespace = controller.new_namespace(name.clone(), limits).await?;
            controller.stores.catalog.put_namespace(&namespace).await?;
            controller.invoker.keep_warm(&name, namespace.limits.keep_warm());
            drop(changing);
            let key = controller.create_key(&name, subject).await?;
            Ok((namespace, key))
        };
        self.detached(creating).await
    }

    /// A namespace created now, or, by a clock that was set back, after the last record of another one of its
    /// name: it is shown none of those.
    async fn new_namespace(
        &self,
        name: NamespaceName,
        limits: NamespaceLimits,
    ) -> Result<Namespace, ControllerError> {
        let (all, last) = (ActivationQuery::default(), Page { skip: 0, limit: 1 });
        let records = self.stores.activations.list(&name, &all, last, false).await?;
        let after = records.first().map_or(0, |record| record.start.as_millis() + 1);
        let created = Timestamp::now().max(Timestamp::from_millis(after));
        Ok(Namespace { name, limits, blocked: false, created })
    }

    /// The namespace of that name.
    pub async fn namespace(&self, name: &NamespaceName) -> Result<Namespace, ControllerError> {
        self.stores.catalog.namespace(name).await?.ok_or_else(|| ControllerError::NoSuch(name.to_string()))
    }

    /// Every namespace.
    pub async fn namespaces(&self) -> Result<Vec<Namespace>, ControllerError> {
        Ok(self.stores.catalog.namespaces().await?)
    }

    /// Deletes a namespace with its keys and contents.
    pub async fn delete_namespace(self: &Arc<Self>, name: &NamespaceName) -> Result<(), ControllerError> {
        let (controller, name) = (Arc::clone(self), name.clone());
        let deleting = async move {
            // Writes in progress finish first and are deleted too; later ones meet a closed account.
            let _changing = controller.namespaces.lock().await;
            let _structure = controller.structure.write().await;
            let catalog = &controller.stores.catalog;
            let functions = catalog.function_revisions(&name, None).await?;
            if !catalog.delete_namespace(&name).await? {
                return Err(ControllerError::NoSuch(name.to_string()));
            }
            // In this order: a concurrent authentication has the old account, or is checked again.
            controller.credentials.forget_all();
            controller.accounts.close(&name);
            controller.accepted.forget(&name);
            controller.background.forget(&name);
            controller.invoker.keep_warm(&name, None);
            controller.forget_namespace(&name);
            controller.tables.forget(&name);
            controller.triggers.remove_where(|path, _| path.namespace == name);
            controller.feeding.tell_namespace(&name);
            for (function, revision) in functions {
                controller.invoker.forget(&function, revision, &[]);
            }
            controller.invoker.leave(&name);
            controller.metrics.forget_namespace(name.as_str());
            Ok(())
        };
        self.detached(deleting).await
    }

    /// Keeps a namespace from being deleted while something is written for it; refused when it was deleted,
    /// even if one of its name exists again.
    pub(crate) async fn hold_namespace(
        &self,
        account: &Account,
    ) -> Result<RwLockReadGuard<'_, ()>, ControllerError> {
        let held = self.structure.read().await;
        account.check_open()?;
        Ok(held)
    }

    /// Replaces a namespace's limits.
    pub async fn set_limits(
        self: &Arc<Self>,
        name: &NamespaceName,
        limits: NamespaceLimits,
    ) -> Result<Namespace, ControllerError> {
        check_limits(&limits, &self.config.limits.bounds)?;
        self.keep_room(&limits);
        self.change_namespace(name, |namespace| namespace.limits = limits).await
    }

    /// Records the largest arguments of a namespace's calls, for which room is kept.
    fn keep_room(&self, limits: &NamespaceLimits) {
        self.accepted.may_bring(limits.bounds(&self.config.limits.bounds).max_payload);
    }

    /// Applies all namespaces' limits on arguments and on instances kept warm, and learns how old they are.
    pub(crate) async fn look_at_namespaces(&self) -> Result<(), ControllerError> {
        self.accepted.may_bring(self.config.limits.bounds.max_payload);
        for namespace in self.stores.catalog.namespaces().await? {
            self.keep_room(&namespace.limits);
            self.invoker.keep_warm(&namespace.name, namespace.limits.keep_warm());
            self.accounts.of(&namespace.name).learn_created(namespace.created);
        }
        Ok(())
    }

    /// Blocks a namespace's keys, or unblocks them.
    pub async fn set_blocked(
        self: &Arc<Self>,
        name: &NamespaceName,
        blocked: bool,
    ) -> Result<Namespace, ControllerError> {
        self.change_namespace(name, move |namespace| namespace.blocked = blocked).await
    }

    async fn change_namespace(
        self: &Arc<Self>,
        name: &NamespaceName,
        change: impl FnOnce(&mut Namespace) + Send + 'static,
    ) -> Result<Namespace, ControllerError> {
        let (controller, name) = (Arc::clone(self), name.clone());
        let changing = async move {
            let _changing = controller.namespaces.lock().await;
            let mut namespace = controller.namespace(&name).await?;
            change(&mut namespace);
            controller.stores.catalog.put_namespace(&namespace).await?;
            controller.invoker.keep_warm(&namespace.name, namespace.limits.keep_warm());
            controller.credentials.forget_all();
            // Retries are admitted without a caller whose request would carry the limit.
            let limits = controller.effective_limits(&namespace);
            controller.accounts.of(&name).allow(limits.concurrent_invocations);
            Ok(namespace)
        };
        self.detached(changing).await
    }

    /// Creates a key, which is shown only once. Its subject is the namespace unless given.
    pub async fn create_key(
        &self,
        namespace: &NamespaceName,
        subject: Option<String>,
    ) -> Result<ApiKey, ControllerError> {
        let subject = subject.unwrap_or_else(|| namespace.to_string());
        EntityName::parse(&subject)?;
        let key = ApiKey { id: KeyId(Uuid::new_v4()), secret: new_secret()? };
        match self.stores.catalog.put_key(&record_of(&key, namespace.clone(), &subject)).await {
            Ok(()) => Ok(key),
            Err(StoreError::Conflict) => Err(ControllerError::NoSuch(namespace.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    /// The keys of a namespace, without their secrets.
    pub async fn keys(&self, namespace: &NamespaceName) -> Result<Vec<KeyRecord>, ControllerError> {
        self.namespace(namespace).await?;
        Ok(self.stores.catalog.keys(namespace).await?)
    }

    /// Deletes a key of a namespace.
    pub async fn delete_key(
        self: &Arc<Self>,
        namespace: &NamespaceName,
        id: KeyId,
    ) -> Result<(), ControllerError> {
        let (controller, namespace) = (Arc::clone(self), namespace.clone());
        let deleting = async move {
            let no_such = || ControllerError::NoSuch(id.to_string());
            let catalog = &controller.stores.catalog;
            let key = catalog.key(id).await?.ok_or_else(no_such)?;
            if key.namespace != namespace || !catalog.delete_key(id).await? {
                return Err(no_such());
            }
            controller.credentials.forget_all();
            Ok(())
        };
        self.detached(deleting).await
    }
}

/// Whether a server with these bounds creates a namespace of this name, if there is none yet.
pub fn check_new_namespace(
    name: &NamespaceName,
    limits: &NamespaceLimits,
    subject: Option<&str>,
    server: &LimitBounds,
) -> Result<(), ControllerError> {
    if name.as_str() == CALLERS_OWN {
        let text = format!("'{name}' is no name for a namespace: in a path it means the caller's own.");
        return Err(ControllerError::Invalid(text));
    }
    if name.as_str() == system::NAMESPACE {
        let text = format!("The namespace '{name}' is the server's own.");
        return Err(ControllerError::Conflicting(text));
    }
    check_limits(limits, server)?;
    if let Some(subject) = subject {
        EntityName::parse(subject)?;
    }
    Ok(())
}

fn check_limits(limits: &NamespaceLimits, server: &LimitBounds) -> Result<(), ControllerError> {
    limits.check(server).map_err(|contrary| ControllerError::Invalid(contrary.to_string()))
}

fn record_of(key: &ApiKey, namespace: NamespaceName, subject: &str) -> KeyRecord {
    KeyRecord {
        id: key.id,
        secret: hash_secret(&key.secret),
        namespace,
        subject: subject.to_owned(),
        created: Timestamp::now(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_key_is_well_formed() {
        assert_eq!(ApiKey::parse(GUEST_KEY).unwrap().expose(), GUEST_KEY);
    }
}
