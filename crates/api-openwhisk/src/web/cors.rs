//! What pages of other sites may do with an answer.

use http::{
    HeaderMap, HeaderValue,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_REQUEST_HEADERS,
    },
};

const ANYBODY: HeaderValue = HeaderValue::from_static("*");
const METHODS: HeaderValue = HeaderValue::from_static("OPTIONS, GET, DELETE, POST, PUT, HEAD, PATCH");
const HEADERS: HeaderValue =
    HeaderValue::from_static("Authorization, Origin, X-Requested-With, Content-Type, Accept, User-Agent");

/// Who says it.
#[derive(Clone, Debug)]
pub(super) enum Cors {
    /// The platform: everything.
    Platform {
        /// The headers that a page may send: those that it asks for.
        allowed: HeaderValue,
    },
    /// The action (annotation `web-custom-options`).
    Action,
}

impl Cors {
    /// The platform's, for this request.
    pub(super) fn platform(request: &HeaderMap) -> Self {
        let allowed = request.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned().unwrap_or(HEADERS);
        Self::Platform { allowed }
    }

    /// Puts the headers on an answer. Two values of one would close what both mean to open, so the platform's replace the action's.
    pub(super) fn apply(self, headers: &mut HeaderMap) {
        let Self::Platform { allowed } = self else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANYBODY);
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_may_send_what_it_asks_for() {
        let asked =
            HeaderMap::from_iter([(ACCESS_CONTROL_REQUEST_HEADERS, HeaderValue::from_static("x-a, x-b"))]);
        for (request, allowed) in [(asked, "x-a, x-b"), (HeaderMap::new(), HEADERS.to_str().unwrap())] {
            let mut answer =
                HeaderMap::from_iter([(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("https://x"))]);
            Cors::platform(&request).apply(&mut answer);
            assert_eq!(answer[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
            assert_eq!(answer.get_all(ACCESS_CONTROL_ALLOW_ORIGIN).iter().count(), 1);
            assert_eq!(answer[ACCESS_CONTROL_ALLOW_HEADERS], allowed);
            assert_eq!(answer[ACCESS_CONTROL_ALLOW_METHODS], "OPTIONS, GET, DELETE, POST, PUT, HEAD, PATCH");
        }
        let mut answer = HeaderMap::new();
        Cors::Action.apply(&mut answer);
        assert!(answer.is_empty());
    }
}
