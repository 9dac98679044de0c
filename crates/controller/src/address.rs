//! Where the store keeps code: every driver files it under its BLAKE3 hash, so the address is known before the code is stored.

use flint_model::Digest;

pub(crate) fn address(code: &[u8]) -> Digest {
    Digest::from_bytes(*blake3::hash(code).as_bytes())
}
