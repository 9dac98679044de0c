//! Which calls may share instances.

use flint_model::{Function, FunctionPath, NamespaceName};

/// Calls with equal keys may be served by the same instances: one revision of one function on one namespace's account, with the same
/// environment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InstanceKey {
    /// On whose account.
    pub namespace: NamespaceName,
    /// Which function.
    pub path: FunctionPath,
    /// Which revision of it.
    pub revision: u64,
    /// Which of the environments that it is called with: see [`crate::Job::variant`].
    pub variant: u64,
}

impl InstanceKey {
    /// The key of calls of `function` on the account of `namespace`.
    pub fn new(namespace: &NamespaceName, function: &Function, variant: u64) -> Self {
        let (path, revision) = (function.path.clone(), function.revision);
        Self { namespace: namespace.clone(), path, revision, variant }
    }
}
