//! A cache of recent callers. Each call looks here, so a lookup is little more than a read of a hash table.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::{Duration, Instant},
};

use crate::Caller;

/// Maximum number of entries. At the limit expired ones are removed, or else all.
const MOST: usize = 10_000;

/// Callers by key, each for a limited time.
pub(crate) struct Remembered<K> {
    callers: RwLock<HashMap<K, (Caller, Instant)>>,
    ttl: Duration,
}

impl<K: Hash + Eq> Remembered<K> {
    /// With this time to live.
    pub(crate) fn new(ttl: Duration) -> Self {
        Self { callers: RwLock::default(), ttl }
    }

    pub(crate) fn get(&self, name: &K) -> Option<Caller> {
        let callers = self.read();
        let (caller, since) = callers.get(name)?;
        (since.elapsed() < self.ttl).then(|| caller.clone())
    }

    pub(crate) fn insert(&self, name: K, caller: Caller) {
        let mut callers = self.write();
        if callers.len() >= MOST {
            callers.retain(|_, (_, since)| since.elapsed() < self.ttl);
        }
        if callers.len() >= MOST {
            callers.clear();
        }
        callers.insert(name, (caller, Instant::now()));
    }

    pub(crate) fn forget(&self, name: &K) {
        self.write().remove(name);
    }

    pub(crate) fn forget_all(&self) {
        self.write().clear();
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<K, (Caller, Instant)>> {
        self.callers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<K, (Caller, Instant)>> {
        self.callers.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flint_model::{Identity, KeyId, Namespace};
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::{LimitsConfig, account::Accounts};

    fn caller() -> Caller {
        let namespace: Namespace = serde_json::from_value(json!({"name": "guest", "created": 1})).unwrap();
        let identity =
            Identity { namespace: Arc::new(namespace), subject: "guest".into(), key: KeyId(Uuid::nil()) };
        Caller::new(identity, &LimitsConfig::default(), &Accounts::default())
    }

    #[test]
    fn who_was_seen_is_known_until_the_time_is_over_or_it_is_forgotten() {
        let known = Remembered::new(Duration::from_secs(60));
        known.insert(1, caller());
        known.insert(2, caller());
        assert!(known.get(&1).is_some() && known.get(&3).is_none());
        known.forget(&1);
        assert!(known.get(&1).is_none() && known.get(&2).is_some());
        known.forget_all();
        assert!(known.get(&2).is_none());
        let short = Remembered::new(Duration::ZERO);
        short.insert(1, caller());
        assert!(short.get(&1).is_none());
    }

    #[test]
    fn no_more_than_so_many_are_remembered() {
        let (known, caller) = (Remembered::new(Duration::from_secs(60)), caller());
        for name in 0..3 * MOST {
            known.insert(name, caller.clone());
            assert!(known.read().len() <= MOST && known.get(&name).is_some());
        }
    }
}
