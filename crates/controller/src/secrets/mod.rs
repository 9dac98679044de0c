//! Secrets of a namespace: values given to functions at a call and never shown, encrypted at rest.

mod config;
mod given;
mod keys;
mod rotate;
mod seal;

use std::sync::{Arc, PoisonError, RwLock};

use flint_model::{NamespaceName, SealedSecret, SecretName, Timestamp};
use flint_store::StoreError;

use crate::{Caller, Controller, ControllerError, functions::own};

pub use config::SecretsConfig;
pub use keys::{NoSecretKeys, SecretKey, SecretKeys};
pub use rotate::Rotated;

pub(crate) use given::{Given, Lacks};

/// The loaded keys.
#[derive(Debug)]
pub(crate) struct Keyring {
    source: Arc<dyn SecretKeys>,
    /// The first one encrypts.
    keys: RwLock<Vec<SecretKey>>,
    /// Held while the first key is created.
    creating: tokio::sync::Mutex<()>,
    /// Read lock while a value is encrypted and written, write lock while the key is replaced: no value is
    /// left encrypted with a deleted key.
    pub(super) writing: tokio::sync::RwLock<()>,
}

impl Keyring {
    pub(crate) fn new(source: Arc<dyn SecretKeys>) -> Self {
        Self { source, keys: RwLock::default(), creating: Default::default(), writing: Default::default() }
    }

    pub(super) fn keys(&self) -> Vec<SecretKey> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set(&self, keys: Vec<SecretKey>) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Calls the key storage on a blocking thread, since it may have to wait for a disk.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&dyn SecretKeys) -> Result<T, String> + Send + 'static,
    ) -> Result<T, ControllerError> {
        let source = Arc::clone(&self.source);
        let asked = tokio::task::spawn_blocking(move || what(&*source)).await;
        asked
            .map_err(|error| ControllerError::Internal(format!("asking for the key of secrets: {error}")))?
            .map_err(ControllerError::Conflicting)
    }

    /// Decrypts a secret, if its key is loaded.
    pub(super) fn open(&self, secret: &SealedSecret) -> Option<Vec<u8>> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let key = keys.iter().find(|key| key.id() == secret.key)?;
        seal::open(key, &secret.namespace, &secret.name, &secret.sealed)
    }

    /// Encrypts a value with `key`.
    pub(super) fn seal(
        key: &SecretKey,
        namespace: &NamespaceName,
        name: &SecretName,
        value: &[u8],
    ) -> Result<Vec<u8>, ControllerError> {
        seal::seal(key, namespace, name, value)
            .ok_or_else(|| ControllerError::Internal("the system gives no random numbers".to_owned()))
    }
}

impl Controller {
    /// Creates or replaces a secret. Calls that begin from now on get the new value. The first secret of a
    /// server creates its key.
    pub async fn set_secret(
        self: &Arc<Self>,
        caller: &Caller,
        namespace: &NamespaceName,
        name: SecretName,
        value: &[u8],
    ) -> Result<SealedSecret, ControllerError> {
        own(caller, namespace, || format!("{namespace}/{name}"))?;
        let allowed = self.config.secrets.max_size.as_u64();
        crate::merge::check_size("secret", value.len() as u64, self.config.secrets.max_size)?;
        if std::str::from_utf8(value).is_err() || value.contains(&0) {
            return Err(ControllerError::Invalid(format!(
                "a secret is text without NUL, up to {allowed} bytes: encode anything else, for example in base64"
            )));
        }
        let (controller, caller) = (Arc::clone(self), caller.clone());
        let (namespace, value) = (namespace.clone(), value.to_vec());
        let writing = async move {
            let _writing = controller.keyring.writing.read().await;
            let key = controller.first_key().await?;
            let sealed = Keyring::seal(&key, &namespace, &name, &value)?;
            let (key, updated) = (key.id().to_owned(), Timestamp::now());
            let secret = SealedSecret { namespace, name, revision: 0, key, sealed, updated };
            let revision = controller.write_secret(&caller, &secret).await?;
            tracing::info!(namespace = %secret.namespace, secret = %secret.name, "secret set");
            Ok(SealedSecret { revision, ..secret })
        };
        self.detached(writing).await
    }

    async fn write_secret(
        self: &Arc<Self>,
        caller: &Caller,
        secret: &SealedSecret,
    ) -> Result<u64, ControllerError> {
        let _namespace = self.hold_namespace(caller.account()).await?;
        let most = self.config.secrets.per_namespace;
        let revision = self.stores.secrets.put_secret(secret, most).await.map_err(|error| match error {
            StoreError::TooMany { allowed } => ControllerError::Conflicting(format!(
                "the namespace has {allowed} secrets, which is the most it may have: remove one, or raise secrets.per_namespace"
            )),
            other => other.into(),
        })?;
        self.forget_secrets(&secret.namespace);
        Ok(revision)
    }

    /// The secrets of a namespace in order of name, with encrypted values.
    pub async fn secrets(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
    ) -> Result<Vec<SealedSecret>, ControllerError> {
        own(caller, namespace, || namespace.to_string())?;
        Ok(self.stores.secrets.secrets(namespace).await?)
    }

    /// Whether a secret's key is loaded.
    pub fn can_open(&self, secret: &SealedSecret) -> bool {
        self.keyring.open(secret).is_some()
    }

    /// Deletes a secret. Functions that refer to it cannot be called until it is created again, or they are
    /// deployed without it.
    pub async fn delete_secret(
        self: &Arc<Self>,
        caller: &Caller,
        namespace: &NamespaceName,
        name: &SecretName,
    ) -> Result<(), ControllerError> {
        own(caller, namespace, || format!("{namespace}/{name}"))?;
        let (controller, caller) = (Arc::clone(self), caller.clone());
        let (namespace, name) = (namespace.clone(), name.clone());
        let deleting = async move {
            let _namespace = controller.hold_namespace(caller.account()).await?;
            if !controller.stores.secrets.delete_secret(&namespace, &name).await? {
                return Err(ControllerError::NoSuch(name.to_string()));
            }
            controller.forget_secrets(&namespace);
            tracing::info!(%namespace, secret = %name, "secret deleted");
            Ok(())
        };
        self.detached(deleting).await
    }

    /// The encryption key, created if there is none and nothing was encrypted yet.
    async fn first_key(&self) -> Result<SecretKey, ControllerError> {
        if let Some(key) = self.keyring.keys().first() {
            return Ok(key.clone());
        }
        // A concurrent request finds the key of the first one.
        let _one = self.keyring.creating.lock().await;
        if let Some(key) = self.keyring.keys().first() {
            return Ok(key.clone());
        }
        if let Some(there) = self.stores.secrets.all_secrets(None, 1).await?.first() {
            return Err(ControllerError::Conflicting(format!(
                "there are secrets that are encrypted with key {}, which this server does not have: the operator gives it back (secrets.key_file, secrets.key_env) and restarts the server",
                there.key
            )));
        }
        let key = self.keyring.ask(|source| source.create()).await?;
        tracing::info!(key = key.id(), "made the key of secrets");
        self.keyring.set(vec![key.clone()]);
        Ok(key)
    }
}
