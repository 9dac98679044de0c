//! Headers that belong to one connection and are nobody else's.

use http::{HeaderMap, HeaderName, header::CONNECTION};

const NAMES: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Removes them, those included that `Connection` names.
pub(super) fn remove(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(',').filter_map(|name| name.trim().parse().ok()))
        .collect();
    for name in &named {
        headers.remove(name);
    }
    for name in NAMES {
        headers.remove(*name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connections_own_are_removed() {
        let mut headers = HeaderMap::new();
        for (name, value) in
            [("connection", "close, X-Hop"), ("x-hop", "1"), ("te", "trailers"), ("x-mine", "2")]
        {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        remove(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-mine"]);
    }
}
