//! A call as the HTTP request that a function which speaks HTTP gets.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Uri,
    header::{CONTENT_TYPE, EXPECT, HOST},
};

use crate::{Body, Call, remove_hop_by_hop};

/// What the function is told about its call.
const ACTIVATION: HeaderName = HeaderName::from_static("x-flint-activation-id");
const DEADLINE: HeaderName = HeaderName::from_static("x-flint-deadline-ms");
const TRANSACTION: HeaderName = HeaderName::from_static("x-flint-transaction-id");

impl Call {
    /// The request; of a call that came from none, a POST of its JSON to `/`. `host` is who answers, as far as the caller did not say.
    ///
    /// # Errors
    /// A path and a query that are not a URI's.
    pub fn into_request(self, host: HeaderValue) -> Result<Request<Body>, String> {
        let (method, target, mut headers) = match self.head {
            Some(head) => {
                let head = *head;
                let path = if head.path.starts_with('/') { head.path } else { format!("/{}", head.path) };
                let target = if head.query.is_empty() { path } else { format!("{path}?{}", head.query) };
                let mut headers = head.headers;
                remove_hop_by_hop(&mut headers);
                // Whoever took the request from the caller has answered it.
                headers.remove(EXPECT);
                (head.method, target, headers)
            }
            None => {
                let mut headers = HeaderMap::with_capacity(8);
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                (Method::POST, "/".to_owned(), headers)
            }
        };
        let target = target
            .parse::<Uri>()
            .map_err(|error| format!("the path and query '{target}' are not a URI: {error}"))?;
        // A host that is no text would be an error of the function's own.
        if headers.get(HOST).is_none_or(|host| host.to_str().is_err()) {
            headers.insert(HOST, host);
        }
        let own = [
            (ACTIVATION, self.activation.to_string()),
            (DEADLINE, self.deadline_at.as_millis().to_string()),
            (TRANSACTION, self.transaction.to_string()),
        ];
        for (name, value) in own {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        }
        let mut request = Request::new(self.body);
        *request.method_mut() = method;
        *request.uri_mut() = target;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bytes::Bytes;
    use flint_model::{ActivationId, ByteSize, Timestamp};

    use super::*;
    use crate::CallHead;

    const LOCAL: HeaderValue = HeaderValue::from_static("local");

    fn call(head: Option<CallHead>) -> Call {
        Call {
            activation: ActivationId::generate(),
            transaction: "t".into(),
            deadline: Instant::now(),
            deadline_at: Timestamp::from_millis(7),
            head: head.map(Box::new),
            body: Body::Full(Bytes::from_static(b"{}")),
            api_key: None,
            max_result: ByteSize::mib(1),
            max_logs: ByteSize::mib(1),
        }
    }

    fn head(path: &str, query: &str, headers: &[(&'static str, &[u8])]) -> CallHead {
        let headers = headers.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value).expect("a header's value"))
        });
        let (path, query) = (path.to_owned(), query.to_owned());
        CallHead { method: Method::PUT, path, query, headers: headers.collect() }
    }

    #[test]
    fn a_call_without_a_request_is_a_post_of_its_json() {
        let call = call(None);
        let activation = call.activation.to_string();
        let request = call.into_request(LOCAL).unwrap();
        assert_eq!((request.method(), request.uri().to_string()), (&Method::POST, "/".to_owned()));
        let mut headers: Vec<_> =
            request.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        headers.sort_unstable();
        let expected = [
            ("content-type", "application/json"),
            ("host", "local"),
            ("x-flint-activation-id", &*activation),
            ("x-flint-deadline-ms", "7"),
            ("x-flint-transaction-id", "t"),
        ];
        assert_eq!(headers, expected);
        assert!(matches!(request.body(), Body::Full(bytes) if bytes == "{}"));
    }

    #[test]
    fn a_request_is_the_callers_but_for_what_is_not_the_functions() {
        let theirs: &[(&str, &[u8])] = &[
            ("connection", b"x-hop"),
            ("x-hop", b"1"),
            ("expect", b"100-continue"),
            ("x-flint-deadline-ms", b"never"),
            ("host", b"example.com"),
            ("x-mine", b"\xff"),
        ];
        let request = call(Some(head("a/b", "q=1", theirs))).into_request(LOCAL).unwrap();
        assert_eq!((request.method(), request.uri().to_string()), (&Method::PUT, "/a/b?q=1".to_owned()));
        let headers = request.headers();
        assert!(["connection", "x-hop", "expect"].iter().all(|name| !headers.contains_key(*name)));
        assert_eq!(headers["x-flint-deadline-ms"], "7");
        assert_eq!(headers["host"], "example.com");
        assert_eq!(headers["x-mine"].as_bytes(), b"\xff");
    }

    #[test]
    fn a_host_is_text_and_a_target_a_uri() {
        let request = call(Some(head("/", "", &[("host", b"\xff")]))).into_request(LOCAL).unwrap();
        assert_eq!(request.headers()["host"], "local");
        let refused = call(Some(head("/a b", "", &[]))).into_request(LOCAL).unwrap_err();
        assert!(refused.contains("'/a b'"), "{refused}");
    }
}
