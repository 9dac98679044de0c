//! Dead letters: calls that failed for good, for their namespace to look at, to run again and to remove.

use std::{sync::Arc, time::Duration};

use flint_model::{ActivationId, FunctionPath, NamespaceName, Timestamp};
use flint_store::{DeadLetter, DeadLetterUsage, LetterQuery, Page, Redrive};

use crate::{Caller, Controller, ControllerError, asynchronous::policy, functions::own, resolve::Right};

/// Letters removed in one transaction.
const BATCH: usize = 500;

/// The most letters redriven by one request.
const MOST: usize = 1000;

/// How often old letters are looked for, at most and at least.
const LOOK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

/// A letter that is a call again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redriven {
    /// The activation that it was.
    pub letter: ActivationId,
    /// The activation that it is now.
    pub activation: ActivationId,
}

/// What came of redriving several.
#[derive(Debug, Default)]
pub struct RedrivenAll {
    /// Those that are calls again.
    pub redriven: Vec<Redriven>,
    /// What stopped it before all of them were.
    pub stopped: Option<ControllerError>,
}

impl Controller {
    /// Letters of a namespace, without their arguments.
    pub async fn dead_letters(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        query: &LetterQuery,
        page: Page,
    ) -> Result<Vec<DeadLetter>, ControllerError> {
        own(caller, namespace, || namespace.to_string())?;
        Ok(self.stores.dead_letters.list(namespace, query, page).await?)
    }

    /// How many there are, and what they take.
    pub async fn dead_letter_usage(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
    ) -> Result<DeadLetterUsage, ControllerError> {
        own(caller, namespace, || namespace.to_string())?;
        Ok(self.stores.dead_letters.usage(Some(namespace)).await?)
    }

    /// One letter.
    pub async fn dead_letter(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        letter: ActivationId,
    ) -> Result<DeadLetter, ControllerError> {
        own(caller, namespace, || format!("{namespace}/{letter}"))?;
        self.stores.dead_letters.get(namespace, letter).await?.ok_or(ControllerError::NotFound)
    }

    /// Accepts a letter's call again, with the policy that its function has now. It counts as a call of its namespace. Who is answered can rely on it; a letter
    /// is redriven once, whoever asks.
    pub async fn redrive(
        self: &Arc<Self>,
        caller: &Caller,
        namespace: &NamespaceName,
        letter: ActivationId,
        transaction: &str,
        api_key: Option<Arc<str>>,
    ) -> Result<Redriven, ControllerError> {
        let letter = self.dead_letter(caller, namespace, letter).await?;
        let (controller, caller) = (Arc::clone(self), caller.clone());
        let transaction = transaction.to_owned();
        let redriving = async move { controller.redrive_one(&caller, &letter, transaction, api_key).await };
        self.detached(redriving).await
    }

    /// The same for up to `limit` letters that `query` names, the oldest first. It stops at what refuses one of them.
    pub async fn redrive_some(
        self: &Arc<Self>,
        caller: &Caller,
        namespace: &NamespaceName,
        function: Option<FunctionPath>,
        limit: usize,
        transaction: &str,
        api_key: Option<Arc<str>>,
    ) -> Result<RedrivenAll, ControllerError> {
        let query = LetterQuery { function, oldest_first: true };
        let page = Page { skip: 0, limit: limit.min(MOST) };
        let letters = self.dead_letters(caller, namespace, &query, page).await?;
        let (controller, caller) = (Arc::clone(self), caller.clone());
        let transaction = transaction.to_owned();
        let redriving = async move {
            let mut all = RedrivenAll::default();
            for letter in letters {
                let (transaction, api_key) = (transaction.clone(), api_key.clone());
                match controller.redrive_one(&caller, &letter, transaction, api_key).await {
                    Ok(redriven) => all.redriven.push(redriven),
                    // Somebody else was quicker.
                    Err(ControllerError::NotFound) => {}
                    Err(error) => {
                        all.stopped = Some(error);
                        break;
                    }
                }
            }
            all
        };
        Ok(self.detached(redriving).await)
    }

    async fn redrive_one(
        self: &Arc<Self>,
        caller: &Caller,
        letter: &DeadLetter,
        transaction: String,
        api_key: Option<Arc<str>>,
    ) -> Result<Redriven, ControllerError> {
        let call = &letter.call;
        // A letter whose function is gone stays one.
        let resolved =
            self.resolve(caller, &call.path, Right::Activate).await.map_err(|error| match error {
                ControllerError::NotFound => ControllerError::NoSuch(call.path.to_string()),
                error => error,
            })?;
        let place = self.admit(caller)?;
        let activation = ActivationId::generate();
        let resolved = resolved.pick(activation);
        let redrive = Redrive {
            activation,
            policy: policy::policy(&resolved, &self.config.asynchronous),
            transaction,
            at: self.stores.clock.now(),
        };
        // Whoever leases it, which may be at once, finds its key.
        self.accepted.keys.keep(activation, &call.namespace, api_key);
        let redriven = self.stores.dead_letters.redrive(&call.namespace, call.activation, redrive).await;
        if !matches!(redriven, Ok(true)) {
            self.accepted.keys.take(activation);
            redriven?;
            return Err(ControllerError::NotFound);
        }
        self.accept_redriven(place);
        Ok(Redriven { letter: call.activation, activation })
    }

    /// Removes a letter; [`ControllerError::NotFound`] when there is no such one.
    pub async fn remove_dead_letter(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        letter: ActivationId,
    ) -> Result<(), ControllerError> {
        own(caller, namespace, || format!("{namespace}/{letter}"))?;
        match self.stores.dead_letters.remove(namespace, letter).await? {
            true => Ok(()),
            false => Err(ControllerError::NotFound),
        }
    }

    /// Removes all letters of a namespace, or those of one function; gives how many.
    pub async fn remove_dead_letters(
        &self,
        caller: &Caller,
        namespace: &NamespaceName,
        function: Option<&FunctionPath>,
    ) -> Result<usize, ControllerError> {
        own(caller, namespace, || namespace.to_string())?;
        let mut removed = 0;
        loop {
            let some = self.stores.dead_letters.remove_some(namespace, function, BATCH).await?;
            removed += some;
            if some < BATCH {
                return Ok(removed);
            }
        }
    }

    /// Removes letters as they grow too old.
    pub(crate) async fn expire_dead_letters(self: Arc<Self>) {
        let max_age = self.config.dead_letters.max_age;
        if max_age.is_zero() {
            return;
        }
        let look = (max_age / 100).clamp(LOOK.0, LOOK.1);
        loop {
            let now = self.stores.clock.now().as_millis();
            let before = now.saturating_sub(max_age.as_millis() as u64);
            match self.stores.dead_letters.expire(Timestamp::from_millis(before), BATCH).await {
                Ok(0) => {}
                Ok(expired) => {
                    tracing::info!(letters = expired, "dead letters have grown too old and are removed");
                    self.metrics.dead_letters_expired(expired as u64);
                    if expired == BATCH {
                        continue;
                    }
                }
                Err(error) => tracing::error!(%error, "old dead letters could not be removed"),
            }
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.stores.clock.until(Timestamp::from_millis(now + look.as_millis() as u64)) => {}
            }
        }
    }
}
