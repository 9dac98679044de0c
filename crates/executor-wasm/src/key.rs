//! What compiled code is kept under: the code's digest, and whatever else decides what is made of it.

use flint_model::Function;

/// What the code of `function` is kept under as it was deployed.
pub(crate) fn as_deployed(function: &Function) -> String {
    function.code.digest.to_string()
}

/// What it is kept under as its initialiser left it. An initialiser sees how much memory there is, the time, and a seed for hash maps. So what it leaves is of
/// one memory limit, and no other namespace comes to it.
pub(crate) fn initialised(function: &Function) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&function.limits.memory.as_u64().to_le_bytes());
    hasher.update(function.path.namespace.as_str().as_bytes());
    format!("{}-image-{}", function.code.digest, &hasher.finalize().to_hex()[..32])
}

/// All that may be kept for it.
pub(crate) fn all(function: &Function) -> [String; 2] {
    [as_deployed(function), initialised(function)]
}
