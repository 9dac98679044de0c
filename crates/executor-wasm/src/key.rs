//! The keys of compiled code in the cache: the code's digest, and everything else that decides the result.

use flint_model::Function;

/// The key of `function`'s code as it was deployed.
pub(crate) fn as_deployed(function: &Function) -> String {
    function.code.digest.to_string()
}

/// The key of its code after its initialiser. An initialiser can observe the memory limit, the time, and a
/// seed for hash maps, so its result is for one memory limit and one namespace only.
pub(crate) fn initialised(function: &Function) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&function.limits.memory.as_u64().to_le_bytes());
    hasher.update(function.path.namespace.as_str().as_bytes());
    format!("{}-image-{}", function.code.digest, &hasher.finalize().to_hex()[..32])
}

/// All keys of a function.
pub(crate) fn all(function: &Function) -> [String; 2] {
    [as_deployed(function), initialised(function)]
}
