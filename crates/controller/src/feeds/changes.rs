//! Collects which feeds were written since the last time they were asked for.

use std::{
    collections::HashSet,
    mem,
    sync::{Mutex, PoisonError},
};

use flint_model::{EntityPath, NamespaceName};
use tokio::sync::Notify;

/// Feeds to look at again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changed {
    /// Those of these triggers.
    pub(crate) triggers: HashSet<EntityPath>,
    /// All of these namespaces.
    pub(crate) namespaces: HashSet<NamespaceName>,
}

/// The collector.
#[derive(Default)]
pub(crate) struct Changes {
    changed: Mutex<Changed>,
    told: Notify,
}

impl Changes {
    pub(crate) fn tell(&self, trigger: &EntityPath) {
        self.add(|changed| {
            changed.triggers.insert(trigger.clone());
        });
    }

    pub(crate) fn tell_namespace(&self, namespace: &NamespaceName) {
        self.add(|changed| {
            changed.namespaces.insert(namespace.clone());
        });
    }

    fn add(&self, add: impl FnOnce(&mut Changed)) {
        add(&mut self.changed.lock().unwrap_or_else(PoisonError::into_inner));
        self.told.notify_one();
    }

    /// Waits for changes, and takes them.
    pub(crate) async fn next(&self) -> Changed {
        self.told.notified().await;
        mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn what_has_changed_is_told_once() {
        let changes = Changes::default();
        assert_eq!(changes.next().now_or_never(), None);
        let (trigger, namespace) = ("guest/t".parse().unwrap(), NamespaceName::parse("gone").unwrap());
        changes.tell(&trigger);
        changes.tell(&trigger);
        changes.tell_namespace(&namespace);
        let told = Changed { triggers: HashSet::from([trigger]), namespaces: HashSet::from([namespace]) };
        assert_eq!(changes.next().now_or_never(), Some(told));
        assert_eq!(changes.next().now_or_never(), None);
    }
}
