//! API keys of calls that wait on disk, where keys are never written.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use flint_model::{ActivationId, NamespaceName};

/// Maximum number of keys. A call beyond that runs without its key, like one accepted by an earlier run of
/// the server.
const MOST: usize = 100_000;

/// Keys by call, each with the call's namespace.
#[derive(Default)]
pub(crate) struct Keys(Mutex<HashMap<ActivationId, (NamespaceName, Arc<str>)>>);

impl Keys {
    /// Keeps the key of a call that waits on disk from now on.
    pub(crate) fn keep(&self, call: ActivationId, namespace: &NamespaceName, key: Option<Arc<str>>) {
        let Some(key) = key else { return };
        let mut keys = self.keys();
        if keys.len() < MOST {
            keys.insert(call, (namespace.clone(), key));
        }
    }

    /// Takes the key of a call that is held now, or over.
    pub(crate) fn take(&self, call: ActivationId) -> Option<Arc<str>> {
        self.keys().remove(&call).map(|(_, key)| key)
    }

    /// Drops the keys of a deleted namespace's calls.
    pub(super) fn forget(&self, namespace: &NamespaceName) {
        self.keys().retain(|_, (of, _)| of != namespace);
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<ActivationId, (NamespaceName, Arc<str>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_kept_for_one_taking_and_bounded() {
        let (keys, id) = (Keys::default(), ActivationId::generate());
        let guest = "guest".parse().unwrap();
        keys.keep(id, &guest, Some("k".into()));
        assert_eq!((keys.take(id).as_deref(), keys.take(id)), (Some("k"), None));
        for number in 0..MOST as u128 + 10 {
            keys.keep(ActivationId::from_u128(number), &guest, Some("k".into()));
        }
        assert_eq!(keys.keys().len(), MOST);
    }
}
