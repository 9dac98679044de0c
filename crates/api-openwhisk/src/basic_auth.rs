//! Extracts a key from HTTP Basic authentication, as OpenWhisk's clients send it.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, header::AUTHORIZATION};

/// Why a request has no key.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum NoKey {
    #[error("The resource requires authentication, which was not supplied with the request")]
    Missing,
    #[error("The supplied authentication is invalid")]
    Malformed,
}

/// The key in a request, `uuid:secret`.
pub(crate) fn key_of(headers: &HeaderMap) -> Result<String, NoKey> {
    let header = headers.get(AUTHORIZATION).ok_or(NoKey::Missing)?;
    let header = header.to_str().map_err(|_| NoKey::Malformed)?;
    let (scheme, encoded) = header.trim().split_once(' ').ok_or(NoKey::Malformed)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(NoKey::Malformed);
    }
    let decoded = STANDARD.decode(encoded.trim()).map_err(|_| NoKey::Malformed)?;
    String::from_utf8(decoded).map_err(|_| NoKey::Malformed)
}

/// The key in a header `Bearer uuid:secret`, as Flint's own API accepts it; `None` for other tokens.
pub(crate) fn bearer_of(headers: &HeaderMap) -> Option<String> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && token.contains(':')).then(|| token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_from_a_basic_header() {
        let key = |value: &str| key_of(&HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]));
        assert_eq!(key("Basic YTpi"), Ok("a:b".to_owned()));
        assert_eq!(key("basic  YTpi "), Ok("a:b".to_owned()));
        for bad in ["", "Basic", "Bearer YTpi", "Basic %%", "Basic //8="] {
            assert_eq!(key(bad), Err(NoKey::Malformed), "{bad}");
        }
        assert_eq!(key_of(&HeaderMap::new()), Err(NoKey::Missing));
        let bearer =
            |value: &str| bearer_of(&HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]));
        assert_eq!(bearer("bearer  a:b "), Some("a:b".to_owned()));
        for other in ["Bearer abc", "Basic YTpi", "Bearer"] {
            assert_eq!(bearer(other), None, "{other}");
        }
    }
}
