//! Another key.

use std::sync::Arc;

use flint_model::SealedSecret;

use super::{Keyring, SecretKey};
use crate::{Controller, ControllerError};

/// Secrets read at once.
const BATCH: usize = 256;

/// What came of another key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// The id of the key that encrypts now.
    pub key: String,
    /// Secrets that were encrypted anew.
    pub resealed: usize,
    /// Secrets that no key at hand opens; they are as they were.
    pub lost: usize,
    /// Earlier keys are forgotten.
    pub retired: bool,
}

impl Controller {
    /// Takes up the keys, and encrypts with the first what is encrypted with another: how a key is changed that the server cannot change itself.
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

    /// Makes another key, encrypts every secret with it, and forgets the earlier ones when none needs them any more. Whenever the server dies
    /// meanwhile, the keys that are kept open all secrets.
    pub async fn rotate_secret_key(self: &Arc<Self>) -> Result<Rotated, ControllerError> {
        let controller = Arc::clone(self);
        let rotating = async move {
            let keyring = &controller.keyring;
            let _alone = keyring.writing.write().await;
            // They are not taken up where nothing is called.
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

    /// Encrypts everything with `key` that is encrypted with another; how many that were, and how many no key opens.
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
                // Deleted meanwhile, it needs no key.
                resealed += usize::from(self.stores.secrets.reseal(&anew).await?);
            }
            if secrets.len() < BATCH {
                return Ok((resealed, lost));
            }
            after = secrets.pop();
        }
    }
}
