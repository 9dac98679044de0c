//! Environment variables that tell a program about its call.

use crate::{Body, Call};

/// Headers whose variable would be taken for one of the platform's own, or (`Http_Proxy`) for a proxy that a
/// library sends requests to.
const NOT_HEADERS: [&str; 4] = ["method", "path", "query", "proxy"];

impl Call {
    /// The activation's variables, named as in OpenWhisk.
    pub fn variables(&self) -> Vec<(String, String)> {
        let mut variables = vec![
            ("__OW_ACTIVATION_ID".to_owned(), self.activation.to_string()),
            ("__OW_TRANSACTION_ID".to_owned(), self.transaction.to_string()),
            ("__OW_DEADLINE".to_owned(), self.deadline_at.as_millis().to_string()),
        ];
        variables.extend(self.api_key.as_ref().map(|key| ("__OW_API_KEY".to_owned(), key.to_string())));
        variables
    }

    /// The request's variables, named as in OpenFaaS' classic watchdog: `Http_Method`, `Http_Path`,
    /// `Http_Query`, `Http_ContentLength`, `Http_<Header>` (`Http_Content_Type`).
    pub fn request_variables(&self) -> Vec<(String, String)> {
        let mut variables = Vec::new();
        let mut add = |name: &str, value: String| variables.push((name.to_owned(), value));
        if let Body::Full(bytes) = &self.body {
            add("Http_ContentLength", bytes.len().to_string());
        }
        match &self.head {
            None => {
                add("Http_Method", "POST".into());
                add("Http_Path", "/".into());
                add("Http_Content_Type", "application/json".into());
            }
            Some(head) => {
                add("Http_Method", head.method.to_string());
                add("Http_Path", head.path.clone());
                if !head.query.is_empty() {
                    add("Http_Query", head.query.clone());
                }
                for name in head.headers.keys().filter(|name| !NOT_HEADERS.contains(&name.as_str())) {
                    let values = head.headers.get_all(name).iter();
                    let values: Vec<_> =
                        values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
                    add(&variable(name.as_str()), values.join(", "));
                }
            }
        }
        // Environment strings end at a NUL.
        variables.retain(|(_, value)| !value.contains('\0'));
        variables
    }
}

/// `content-type` → `Http_Content_Type`.
fn variable(header: &str) -> String {
    let parts = header.split('-').map(|part| {
        let mut letters = part.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    });
    format!("Http_{}", parts.collect::<Vec<_>>().join("_"))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use flint_model::{ActivationId, ByteSize, Timestamp};
    use http::{HeaderMap, HeaderName, HeaderValue, Method};

    use super::*;
    use crate::CallHead;

    #[test]
    fn headers_are_written_as_the_watchdog_does() {
        assert_eq!(variable("content-type"), "Http_Content_Type");
        assert_eq!(variable("x-b3-traceid"), "Http_X_B3_Traceid");
        assert_eq!(variable("host"), "Http_Host");
    }

    #[test]
    fn no_header_passes_for_what_the_platform_says_or_for_a_proxy() {
        let headers: HeaderMap = ["host", "method", "path", "query", "proxy"]
            .map(|name| (HeaderName::from_static(name), HeaderValue::from_static("theirs")))
            .into_iter()
            .collect();
        let call = Call {
            activation: ActivationId::generate(),
            transaction: "t".into(),
            deadline: Instant::now(),
            deadline_at: Timestamp::now(),
            head: Some(Box::new(CallHead {
                method: Method::PUT,
                path: "/ours".into(),
                query: String::new(),
                headers,
            })),
            body: Body::Full(bytes::Bytes::from_static(b"four")),
            api_key: None,
            max_result: ByteSize::mib(1),
            max_logs: ByteSize::mib(1),
        };
        let expected = [
            ("Http_ContentLength", "4"),
            ("Http_Method", "PUT"),
            ("Http_Path", "/ours"),
            ("Http_Host", "theirs"),
        ];
        assert_eq!(
            call.request_variables(),
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }
}
