//! Protects a server that accepts the well-known guest key from web pages in local browsers: the key is
//! public, and the API allows every origin. Requests from, or to the name of, another site are refused.
//! Without a key they may do in OpenWhisk's API what anybody may, as browsers are told: send preflight
//! requests (CORS) and call web actions.

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::Response,
};

use super::refusal;

const MESSAGE: &str = "while the guest key works, only this machine's own pages and tools may ask";
const HINT: &str = "call the server as 127.0.0.1 or localhost; for other sites and names let it listen on another address, where keys are your own";

/// The refusal in the front's format, unless the request is from this machine itself.
pub(super) fn refusal(headers: &HeaderMap, native: bool) -> Option<Response> {
    if !native && !headers.contains_key(header::AUTHORIZATION) {
        return None;
    }
    let origin = headers.get(header::ORIGIN).filter(|origin| !is_local_origin(origin));
    // With a foreign name that resolves to this machine, that site's pages would count as same-origin (DNS
    // rebinding).
    let host = headers.get(header::HOST).filter(|host| !is_local_host(host));
    origin.or(host)?;
    Some(refusal::refusal(StatusCode::FORBIDDEN, "foreign_origin", MESSAGE, HINT, native))
}

fn is_local_origin(origin: &HeaderValue) -> bool {
    let uri = origin.to_str().ok().and_then(|text| text.parse::<Uri>().ok());
    uri.and_then(|uri| uri.host().map(is_local_name)).unwrap_or(false)
}

fn is_local_host(host: &HeaderValue) -> bool {
    let Ok(text) = host.to_str() else { return false };
    // The common case, made fast since every request passes here.
    if text.parse::<std::net::SocketAddr>().is_ok_and(|address| address.ip().is_loopback()) {
        return true;
    }
    text.parse::<axum::http::uri::Authority>().is_ok_and(|authority| is_local_name(authority.host()))
}

fn is_local_name(name: &str) -> bool {
    let name = name.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(name: header::HeaderName, value: &'static str) -> bool {
        refusal(&HeaderMap::from_iter([(name, HeaderValue::from_static(value))]), true).is_some()
    }

    #[test]
    fn only_this_machines_pages_and_tools_may_ask() {
        assert!(refusal(&HeaderMap::new(), false).is_none());
        for local in
            ["http://127.0.0.1:3233", "http://localhost", "http://[::1]:80", "https://app.localhost:1"]
        {
            assert!(!is_refused(header::ORIGIN, local), "{local}");
        }
        for foreign in
            ["https://example.com", "null", "http://127.0.0.1.example.com", "http://localhost.evil", "?"]
        {
            assert!(is_refused(header::ORIGIN, foreign), "{foreign}");
        }
        for local in ["127.0.0.1:3233", "localhost:3233", "[::1]:3233", "guest.localhost"] {
            assert!(!is_refused(header::HOST, local), "{local}");
        }
        for foreign in ["rebound.example:3233", "127.0.0.1.nip.io", "10.0.0.1"] {
            assert!(is_refused(header::HOST, foreign), "{foreign}");
        }
    }

    #[test]
    fn without_a_key_pages_of_other_sites_may_do_what_anybody_may() {
        let mut headers = HeaderMap::from_iter([
            (header::ORIGIN, HeaderValue::from_static("https://example.com")),
            (header::HOST, HeaderValue::from_static("rebound.example:3233")),
        ]);
        assert!(refusal(&headers, false).is_none());
        assert!(refusal(&headers, true).is_some(), "metrics are not for everybody");
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Basic YTpi"));
        assert!(refusal(&headers, false).is_some());
    }
}
