//! The API gateway: managing APIs (`wsk api`, the SDK's `routes`) and serving them.

mod document;
mod management;
mod request;
mod serve;

pub(crate) use management::{manage, verb};
pub use request::{CreateApi, create_api};
pub(crate) use serve::serve;

/// The path prefix of APIs: `/api/v1/gateway/NAMESPACE/BASE_PATH/PATH`.
const ROOT: &str = "/api/v1/gateway/";

/// The URL of a namespace's APIs. `host` is the server's base URL.
fn url_of(host: &str, namespace: &str, base_path: &str) -> String {
    let base_path = if base_path == "/" { "" } else { base_path };
    format!("{host}{ROOT}{}{}", encoded(namespace), encoded(base_path))
}

/// Percent-encodes text for a path, except `/`.
fn encoded(text: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b'@' | b'&' => {
                out.push(char::from(byte));
            }
            // Writing to a String cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_has_a_url_of_its_own() {
        let url = |namespace, base_path| url_of("http://h:1", namespace, base_path);
        assert_eq!(url("guest", "/hello"), "http://h:1/api/v1/gateway/guest/hello");
        assert_eq!(url("guest", "/"), "http://h:1/api/v1/gateway/guest");
        assert_eq!(url("a b", "/ä/b"), "http://h:1/api/v1/gateway/a%20b/%C3%A4/b");
    }
}
