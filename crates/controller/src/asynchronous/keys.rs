//! API keys of calls that wait on disk, where keys are never written.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use flint_model::ActivationId;

/// The most keys kept; a call beyond them is run without, as one is that an earlier life of the server accepted.
const MOST: usize = 100_000;

/// Keys that this life of the server knows.
#[derive(Default)]
pub(crate) struct Keys(Mutex<HashMap<ActivationId, Arc<str>>>);

impl Keys {
    /// The call waits on disk from now on.
    pub(crate) fn keep(&self, call: ActivationId, key: Option<Arc<str>>) {
        let Some(key) = key else { return };
        let mut keys = self.keys();
        if keys.len() < MOST {
            keys.insert(call, key);
        }
    }

    /// The call is in this server's hands, or over.
    pub(crate) fn take(&self, call: ActivationId) -> Option<Arc<str>> {
        self.keys().remove(&call)
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<ActivationId, Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_kept_for_one_taking_and_bounded() {
        let (keys, id) = (Keys::default(), ActivationId::generate());
        keys.keep(id, Some("k".into()));
        assert_eq!((keys.take(id).as_deref(), keys.take(id)), (Some("k"), None));
        for number in 0..MOST as u128 + 10 {
            keys.keep(ActivationId::from_u128(number), Some("k".into()));
        }
        assert_eq!(keys.keys().len(), MOST);
    }
}
