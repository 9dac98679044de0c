//! What a program learns of its request from the environment: the variables of OpenFaaS' classic watchdog.

use flint_executor::{Body, Call};

/// Headers that would pass for what the platform says itself, or for a proxy that a library sends requests to (`Http_Proxy`).
const NOT_HEADERS: [&str; 4] = ["method", "path", "query", "proxy"];

/// `Http_Method`, `Http_Path`, `Http_Query`, `Http_ContentLength`, `Http_<Header>` (`Http_Content_Type`), and the activation's.
pub(super) fn of(call: &Call) -> Vec<(String, String)> {
    let mut variables = vec![
        ("__OW_ACTIVATION_ID".to_owned(), call.activation.to_string()),
        ("__OW_TRANSACTION_ID".to_owned(), call.transaction.to_string()),
        ("__OW_DEADLINE".to_owned(), call.deadline_at.as_millis().to_string()),
    ];
    if let Some(key) = &call.api_key {
        variables.push(("__OW_API_KEY".into(), key.to_string()));
    }
    if let Body::Full(bytes) = &call.body {
        variables.push(("Http_ContentLength".into(), bytes.len().to_string()));
    }
    let Some(head) = &call.head else {
        variables.push(("Http_Method".into(), "POST".into()));
        variables.push(("Http_Path".into(), "/".into()));
        variables.push(("Http_Content_Type".into(), "application/json".into()));
        return variables;
    };
    variables.push(("Http_Method".into(), head.method.to_string()));
    variables.push(("Http_Path".into(), head.path.clone()));
    if !head.query.is_empty() {
        variables.push(("Http_Query".into(), head.query.clone()));
    }
    for name in head.headers.keys().filter(|name| !NOT_HEADERS.contains(&name.as_str())) {
        let values: Vec<_> =
            head.headers.get_all(name).iter().map(|v| String::from_utf8_lossy(v.as_bytes())).collect();
        variables.push((variable(name.as_str()), values.join(", ")));
    }
    // The kernel takes no NUL in the environment.
    variables.retain(|(_, value)| !value.contains('\0'));
    variables
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
    use super::*;

    #[test]
    fn headers_are_written_as_the_watchdog_does() {
        assert_eq!(variable("content-type"), "Http_Content_Type");
        assert_eq!(variable("x-b3-traceid"), "Http_X_B3_Traceid");
        assert_eq!(variable("host"), "Http_Host");
    }
}
