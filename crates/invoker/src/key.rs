//! The key that decides which calls may share instances.

use std::{
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::LazyLock,
};

use flint_model::{Function, FunctionPath, NamespaceName};

/// Calls with equal keys may share instances: one revision of one function on one namespace's account, with
/// the same environment. Made by [`Self::new`]; its fields must not be changed, since the hash covers them.
#[derive(Clone, Debug)]
pub struct InstanceKey {
    /// On whose account.
    pub namespace: NamespaceName,
    /// Which function.
    pub path: FunctionPath,
    /// Which revision of it.
    pub revision: u64,
    /// Tells environments of one function apart, see [`crate::Job::key`]; 0 when there is only one.
    pub variant: u64,
    /// Hash of the other fields, since each call looks the key up several times.
    hash: u64,
}

/// Keyed, so that nobody can choose names that collide.
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
