//! Rotates the encryption key of secrets.

use std::sync::Arc;

use flint_model::SealedSecret;

use super::{Keyring, SecretKey};
use crate::{Controller, ControllerError};

/// Secrets per batch.
const BATCH: usize = 256;

/// The result of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// The id of the new key.
    pub key: String,
    /// Number of re-encrypted secrets.
    pub resealed: usize,
    /// Number of secrets that no loaded key decrypts; they are left as they are.
    pub lost: usize,
    /// Whether earlier keys were deleted.
    pub retired: bool,
}

impl Controller {
    /// Loads the keys, and re-encrypts with the first what is encrypted with another: this rotates a key that
    /// the server cannot change itself.
    pub(crate) async fn take_up_keys(self: &Arc<Self>) -> Result<(), ControllerError> {
        let keys = match self.keyring.ask(|source| source.load()).await {
            Ok(keys) => keys,
            Err(error) => {
                tracing::error!(%error, "functions that have secrets cannot be called");
                return Ok(());
            }
        };
        let first = keys.first().cloned();
        self.keyring.set(keys);
        let Some(key) = first else { return Ok(()) };
        let (resealed, lost) = self.reseal_with(&key).await?;
        if resealed > 0 {
            tracing::info!(key = key.id(), resealed, "secrets are encrypted with the first key now");
        }
        if lost > 0 {
            tracing::error!(
                lost,
                "secrets are encrypted with a key that is not here: functions that have them cannot be called"
            );
        }
        Ok(())
    }

    /// Creates a new key, re-encrypts every secret with it, and deletes earlier keys once none needs them. If
    /// the server dies at any point, the stored keys still decrypt all secrets.
    pub async fn rotate_secret_key(self: &Arc<Self>) -> Result<Rotated, ControllerError> {
        let controller = Arc::clone(self);
        let rotating = async move {
            let keyring = &controller.keyring;
            let _alone = keyring.writing.write().await;
            // A server that has not started has not loaded them.
            keyring.set(keyring.ask(|source| source.load()).await?);
            if keyring.keys().is_empty() {
                return Err(ControllerError::Conflicting(
                    "there is no key yet: the first `flint secret set` makes it".to_owned(),
                ));
            }
            let key = keyring.ask(|source| source.renew()).await?;
            let mut keys = keyring.keys();
            keys.insert(0, key.clone());
            keyring.set(keys);
            let (resealed, lost) = controller.reseal_with(&key).await?;
            let retired = lost == 0;
            if retired {
                keyring.ask(|source| source.retire()).await?;
                keyring.set(vec![key.clone()]);
            }
            tracing::info!(key = key.id(), resealed, lost, retired, "the key of secrets was changed");
            Ok(Rotated { key: key.id().to_owned(), resealed, lost, retired })
        };
        self.detached(rotating).await
    }

    /// Re-encrypts with `key` all secrets under other keys; returns their number, and how many no key decrypts.
    async fn reseal_with(&self, key: &SecretKey) -> Result<(usize, usize), ControllerError> {
        let (mut resealed, mut lost) = (0, 0);
        let mut after: Option<SealedSecret> = None;
        loop {
            let mut secrets = self.stores.secrets.all_secrets(after.as_ref(), BATCH).await?;
            for secret in secrets.iter().filter(|secret| secret.key != key.id()) {
                let Some(value) = self.keyring.open(secret) else {
                    lost += 1;
                    continue;
                };
                let sealed = Keyring::seal(key, &secret.namespace, &secret.name, &value)?;
                let anew = SealedSecret { key: key.id().to_owned(), sealed, ..secret.clone() };
                // A secret deleted meanwhile is not counted.
                resealed += usize::from(self.stores.secrets.reseal(&anew).await?);
            }
            if secrets.len() < BATCH {
                return Ok((resealed, lost));
            }
            after = secrets.pop();
        }
    }
}
