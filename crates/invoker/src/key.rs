//! Which calls may share instances.

use std::{
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::LazyLock,
};

use flint_model::{Function, FunctionPath, NamespaceName};

/// Calls with equal keys may be served by the same instances: one revision of one function on one namespace's account, with the same
/// environment. To be made by [`Self::new`] and left as it is.
#[derive(Clone, Debug)]
pub struct InstanceKey {
    /// On whose account.
    pub namespace: NamespaceName,
    /// Which function.
    pub path: FunctionPath,
    /// Which revision of it.
    pub revision: u64,
    /// Which of the environments that it is called with: see [`crate::Job::key`]. 0 where there is but one.
    pub variant: u64,
    /// Of all that: each call looks it up several times.
    hash: u64,
}

/// Keyed, so that nobody chooses names that collide.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl InstanceKey {
    /// The key of calls of `function` on the account of `namespace`.
    pub fn new(namespace: &NamespaceName, function: &Function, variant: u64) -> Self {
        let (path, revision) = (function.path.clone(), function.revision);
        let hash = HASHER.hash_one((namespace, &path, revision, variant));
        Self { namespace: namespace.clone(), path, revision, variant, hash }
    }
}

impl PartialEq for InstanceKey {
    fn eq(&self, other: &Self) -> bool {
        let all = |key: &Self| (key.hash, key.revision, key.variant);
        all(self) == all(other) && self.namespace == other.namespace && self.path == other.path
    }
}

impl Eq for InstanceKey {}

impl Hash for InstanceKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}
