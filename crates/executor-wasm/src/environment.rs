//! What a guest finds in its environment beside what was granted to it.

use flint_executor::{Body, Call};

/// Names and values.
pub(crate) type Variables = Vec<(String, String)>;

/// What makes an environment of the start's variables and a call.
pub(crate) type Tell = fn(&[(String, String)], &Call) -> Variables;

/// The start's variables, and the activation's.
pub(crate) fn of(start: &[(String, String)], call: &Call) -> Variables {
    let mut variables = start.to_vec();
    let own = [
        ("__OW_ACTIVATION_ID", call.activation.to_string()),
        ("__OW_TRANSACTION_ID", call.transaction.to_string()),
        ("__OW_DEADLINE", call.deadline_at.as_millis().to_string()),
    ];
    variables.extend(own.map(|(name, value)| (name.to_owned(), value)));
    if let Some(key) = &call.api_key {
        variables.push(("__OW_API_KEY".to_owned(), key.to_string()));
    }
    variables
}

/// Headers that would pass for what the platform says itself, or for a proxy that a library sends requests to (`Http_Proxy`).
const NOT_HEADERS: [&str; 4] = ["method", "path", "query", "proxy"];

/// The same with the request's: `Http_Method`, `Http_Path`, `Http_Query`, `Http_ContentLength`, `Http_<Header>` as OpenFaaS'
/// classic watchdog names them.
pub(crate) fn with_request(start: &[(String, String)], call: &Call) -> Variables {
    let mut variables = of(start, call);
    let mut add = |name: &str, value: String| variables.push((name.to_owned(), value));
    if let Body::Full(bytes) = &call.body {
        add("Http_ContentLength", bytes.len().to_string());
    }
    match &call.head {
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
                let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
                add(&variable(name.as_str()), values.join(", "));
            }
        }
    }
    // Programs read it as C strings.
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
        assert_eq!(variable("host"), "Http_Host");
    }
}
