//! Which calls may share instances.

use flint_model::{Function, FunctionPath, NamespaceName};

/// Calls with equal keys may be served by the same instances: one revision of one function on one namespace's account.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InstanceKey {
    /// On whose account.
    pub namespace: NamespaceName,
    /// Which function.
    pub path: FunctionPath,
    /// Which revision of it.
    pub revision: u64,
}

impl InstanceKey {
    /// The key of calls of `function` on the account of `namespace`.
    pub fn new(namespace: &NamespaceName, function: &Function) -> Self {
        Self { namespace: namespace.clone(), path: function.path.clone(), revision: function.revision }
    }
}
