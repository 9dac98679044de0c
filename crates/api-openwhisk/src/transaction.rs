//! Transaction ids: one per request, in every response.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use flint_model::hex;
use http::{HeaderMap, HeaderName};

/// The header with the id.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum length of a caller's own id.
const LONGEST: usize = 128;

/// The caller's own id if it is valid, otherwise a new one of 32 hex digits. `sid_` marks the system's own
/// ids.
pub(crate) fn of(headers: &HeaderMap) -> Arc<str> {
    let own = headers.get(HEADER).and_then(|value| value.to_str().ok());
    let fits = |id: &&str| {
        !id.is_empty()
            && id.len() <= LONGEST
            && !id.starts_with("sid_")
            && id
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':'))
    };
    own.filter(fits).map_or_else(generate, Arc::from)
}

/// Unique within a server and very likely across servers. It identifies a request in logs and is no secret,
/// so a counter behind a keyed hash suffices.
fn generate() -> Arc<str> {
    static KEYS: LazyLock<(RandomState, RandomState)> = LazyLock::new(Default::default);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let id = u128::from(KEYS.0.hash_one(number)) << 64 | u128::from(KEYS.1.hash_one(number));
    String::from_utf8_lossy(&hex(id)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_id_is_passed_on_when_it_is_one() {
        let of = |id: &str| of(&HeaderMap::from_iter([(HEADER, id.parse().unwrap())])).to_string();
        assert_eq!(of("abc-1"), "abc-1");
        for id in ["", "sid_1", "a b", "\"", &"x".repeat(129)] {
            let new = of(id);
            assert!(new.len() == 32 && new.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}: {new}");
        }
        assert_ne!(super::of(&HeaderMap::new()), super::of(&HeaderMap::new()));
    }
}
