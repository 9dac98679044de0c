//! What a namespace may take of what all share: three quarters, so that it leaves others something.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use flint_model::NamespaceName;

use crate::budget::Budget;

/// A namespace with functions.
pub(crate) struct Tenant {
    /// The memory of its instances.
    pub(crate) memory: Budget,
}

/// The namespaces with functions. Keeps nothing of others.
pub(crate) struct Tenants {
    memory: usize,
    engines: usize,
    held: Mutex<HashMap<NamespaceName, Weak<Tenant>>>,
}

impl Tenants {
    /// With so much memory for all of them, on so many engines.
    pub(crate) fn new(memory: usize, engines: usize) -> Self {
        Self { memory, engines, held: Mutex::default() }
    }

    pub(crate) fn of(&self, namespace: &NamespaceName) -> Arc<Tenant> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tenant) = held.get(namespace).and_then(Weak::upgrade) {
            return tenant;
        }
        held.retain(|_, tenant| tenant.strong_count() > 0);
        let tenant = Arc::new(Tenant { memory: Budget::new(share(self.memory), self.engines) });
        held.insert(namespace.clone(), Arc::downgrade(&tenant));
        tenant
    }
}

/// What one namespace may have of this: all but a quarter.
const fn share(all: usize) -> usize {
    all - all / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_kept_while_they_have_functions() {
        let tenants = Tenants::new(800, 1);
        let [a, b] = ["a", "b"].map(|name| name.parse().unwrap());
        let first = tenants.of(&a);
        assert!(Arc::ptr_eq(&first, &tenants.of(&a)) && !Arc::ptr_eq(&first, &tenants.of(&b)));
        assert!(first.memory.take(0, 600) && !first.memory.take(0, 1));
        drop(first);
        drop(tenants.of(&b));
        assert_eq!(tenants.held.lock().unwrap().len(), 1);
    }
}
