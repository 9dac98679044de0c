//! Dead letters: calls that failed for good, for their namespace to inspect, redrive and remove.

use std::{sync::Arc, time::Duration};

use flint_model::{ActivationId, FunctionPath, NamespaceName, Timestamp};
use flint_store::{DeadLetter, DeadLetterUsage, LetterQuery, Page, QueuedCall, Redrive};

use crate::{
    Caller, Controller, ControllerError,
    asynchronous::policy,
    callable::Callable,
    functions::own,
    resolve::{Callee, Right},
};

/// Letters removed in one transaction.
const BATCH: usize = 500;

/// Maximum number of letters redriven by one request.
const MOST: usize = 1000;

/// Shortest and longest interval between searches for expired letters.
const LOOK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

/// A redriven letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redriven {
    /// The letter's activation.
    pub letter: ActivationId,
    /// The new call's activation.
    pub activation: ActivationId,
}

/// The outcome of redriving several letters.
#[derive(Debug, Default)]
pub struct RedrivenAll {
    /// Letters that became calls.
    pub redriven: Vec<Redriven>,
    /// The error that ended it early.
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

    /// Their number and size.
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

    /// Accepts a letter's call again, under its function's present retry policy. It counts as a call of its
    /// namespace. Once this returns, the call is durable; a letter is redriven at most once, even by
    /// concurrent requests.
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

    /// Redrives up to `limit` letters selected by `query`, oldest first, up to the first that is refused.
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
                    // Redriven or removed by somebody else meanwhile.
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
        // A letter whose function is gone stays a letter.
        let resolved =
            self.resolve(caller, &call.path, Right::Activate).await.map_err(|error| match error {
                ControllerError::NotFound => ControllerError::NoSuch(call.path.to_string()),
                error => error,
            })?;
        let activation = ActivationId::generate();
        let resolved = resolved.pick(activation);
        // So does one that its caller may not call, or that its function does not take any more: it would end as
        // a call, and be lost.
        match &resolved.callee {
            Callee::Function(callable) => self.check_taken(callable, call).await?,
            Callee::Sequence(sequence) => self.may_call_components(caller, sequence).await?,
        }
        let place = self.admit(caller)?;
        let redrive = Redrive {
            activation,
            policy: policy::policy(&resolved, &self.config.asynchronous),
            transaction,
            at: self.stores.clock.now(),
        };
        // Kept first: the call may be leased at once, and needs its key.
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

    /// Refuses a letter whose arguments set a parameter that has become final.
    async fn check_taken(&self, callable: &Callable, call: &QueuedCall) -> Result<(), ControllerError> {
        if !callable.defaults.has_fixed() {
            return Ok(());
        }
        // Lists do not have the arguments.
        let letter = self.stores.dead_letters.get(&call.namespace, call.activation).await?;
        let letter = letter.ok_or(ControllerError::NotFound)?;
        callable.defaults.merge(letter.call.arguments).map(drop)
    }

    /// Removes a letter; [`ControllerError::NotFound`] when there is none.
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

    /// Removes all letters of a namespace, or those of one function; returns how many.
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

    /// Removes letters as they expire.
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
