//! A gate, as the API sees it: whose calls its sandbox serves, and until when.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use flint_model::{ActivationId, NamespaceName};
use tokio::sync::Notify;

/// The gate of one sandbox. It lives as long as the sandbox; dropping this handle does not close it.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Bound>);

#[derive(Debug, Default)]
struct Bound {
    members: Mutex<Members>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Members {
    /// The namespaces for which the sandbox works now, and how often each was admitted.
    namespaces: HashMap<NamespaceName, usize>,
    /// The deadlines of calls that may end before the sandbox does.
    running: HashMap<ActivationId, Instant>,
}

/// Admits a namespace's key until it is dropped.
#[derive(Debug)]
pub struct Admission {
    gate: Gate,
    namespace: NamespaceName,
}

/// Bounds the requests of an activation by its deadline until it is dropped.
#[derive(Debug)]
pub struct Running {
    gate: Gate,
    activation: ActivationId,
}

impl Gate {
    /// A gate that admits nobody yet.
    pub(crate) fn closed() -> Self {
        Self(Arc::default())
    }

    /// Admits a namespace, because the sandbox works for it from now on.
    pub fn admit(&self, namespace: NamespaceName) -> Admission {
        *self.members().namespaces.entry(namespace.clone()).or_default() += 1;
        self.0.changed.notify_one();
        Admission { gate: self.clone(), namespace }
    }

    /// Whether the sandbox works for any namespace. Before that, nothing that it does is done for anybody.
    pub fn is_open(&self) -> bool {
        !self.members().namespaces.is_empty()
    }

    /// Whether the sandbox works for this namespace.
    pub fn admits(&self, namespace: &NamespaceName) -> bool {
        self.members().namespaces.contains_key(namespace)
    }

    /// Registers a call whose sandbox may outlive its deadline.
    pub fn running(&self, activation: ActivationId, deadline: Instant) -> Running {
        self.members().running.insert(activation, deadline);
        Running { gate: self.clone(), activation }
    }

    /// The deadline of this activation's requests, if it may come before the sandbox's end.
    pub fn deadline(&self, activation: ActivationId) -> Option<Instant> {
        self.members().running.get(&activation).copied()
    }

    /// The namespace to which its connections are charged: the one that is admitted most often.
    pub(crate) fn account(&self) -> Option<NamespaceName> {
        let members = self.members();
        members.namespaces.iter().max_by_key(|(_, count)| **count).map(|(namespace, _)| namespace.clone())
    }

    /// How many admissions share its connections, at least one.
    pub(crate) fn members_now(&self) -> usize {
        self.members().namespaces.values().sum::<usize>().max(1)
    }

    /// Resolves when an admission is added or dropped. For a single waiter.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.0.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut members = self.gate.members();
        if let Some(count) = members.namespaces.get_mut(&self.namespace) {
            *count -= 1;
            if *count == 0 {
                members.namespaces.remove(&self.namespace);
            }
        }
        drop(members);
        self.gate.0.changed.notify_one();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.gate.members().running.remove(&self.activation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_open_to_those_for_whom_the_sandbox_works_as_long_as_it_does() {
        let (gate, one, other) = (Gate::closed(), NamespaceName::parse("one"), NamespaceName::parse("other"));
        let (one, other) = (one.expect("a name"), other.expect("a name"));
        assert!(!gate.is_open() && !gate.admits(&one));
        assert_eq!((gate.members_now(), gate.account()), (1, None));
        let first = gate.admit(one.clone());
        let second = gate.admit(one.clone());
        assert!(gate.is_open() && gate.admits(&one) && !gate.admits(&other));
        let third = gate.admit(other.clone());
        assert_eq!((gate.members_now(), gate.account()), (3, Some(one.clone())));
        drop((first, third));
        assert!(gate.admits(&one) && !gate.admits(&other));
        drop(second);
        assert!(!gate.is_open() && !gate.admits(&one));
    }

    #[test]
    fn a_calls_deadline_is_known_while_it_runs() {
        let (gate, id, at) = (Gate::closed(), ActivationId::generate(), Instant::now());
        let running = gate.running(id, at);
        assert_eq!((gate.deadline(id), gate.deadline(ActivationId::generate())), (Some(at), None));
        drop(running);
        assert_eq!(gate.deadline(id), None);
    }
}
