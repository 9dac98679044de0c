//! Namespace hosts: `NAMESPACE.HOST/PACKAGE/ACTION` is a web action of the namespace, `/` its page
//! `public/index.html`.

use http::{HeaderMap, Uri, header::HOST, uri::Authority};

/// The index page of a host.
const INDEX: &str = "/public/index.html";

/// The web action path of a request to a namespace's host. `hosts` are the domains, in lower case, whose
/// subdomains are namespaces.
pub fn web_path(uri: &Uri, headers: &HeaderMap, hosts: &[String]) -> Option<String> {
    if hosts.is_empty() {
        return None;
    }
    let host: Authority = match uri.authority() {
        Some(authority) => authority.clone(),
        None => headers.get(HOST)?.to_str().ok()?.parse().ok()?,
    };
    let name = host.host().trim_end_matches('.').to_ascii_lowercase();
    let namespace = hosts.iter().find_map(|host| {
        let namespace = name.strip_suffix(host.as_str())?.strip_suffix('.')?;
        // Deeper subdomains do not exist, unless another host is one.
        (!namespace.is_empty() && !namespace.contains('.')).then_some(namespace)
    })?;
    let path = if matches!(uri.path(), "/" | "") { INDEX } else { uri.path() };
    Some(format!("/api/v1/web/{namespace}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(host: &str, uri: &str) -> Option<String> {
        let headers = HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
        web_path(&uri.parse().unwrap(), &headers, &["localhost".into(), "faas.example.com".into()])
    }

    #[test]
    fn a_name_below_a_host_is_a_namespace() {
        for (host, uri, expected) in [
            ("guest.localhost:3233", "/p/a.json/x?q=1", "/api/v1/web/guest/p/a.json/x"),
            ("Guest.FaaS.example.com", "/", "/api/v1/web/guest/public/index.html"),
            ("guest.faas.example.com.", "/v1/functions", "/api/v1/web/guest/v1/functions"),
            ("localhost", "http://guest.localhost/a/b", "/api/v1/web/guest/a/b"),
        ] {
            assert_eq!(path(host, uri).as_deref(), Some(expected), "{host}");
        }
    }

    #[test]
    fn a_host_may_be_below_another_one_in_any_order() {
        let mut hosts = ["example.com".to_owned(), "faas.example.com".to_owned()];
        for _ in 0..2 {
            for (host, namespace) in [("guest.faas.example.com", "guest"), ("team.example.com", "team")] {
                let headers = HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
                let path = web_path(&"/p/a".parse().unwrap(), &headers, &hosts);
                assert_eq!(path, Some(format!("/api/v1/web/{namespace}/p/a")), "{host}");
            }
            hosts.reverse();
        }
    }

    #[test]
    fn other_hosts_are_the_apis() {
        for host in [
            "localhost",
            "localhost:3233",
            "faas.example.com",
            "a.b.localhost",
            ".localhost",
            "guestlocalhost",
            "example.com",
            "127.0.0.1",
        ] {
            assert_eq!(path(host, "/p/a"), None, "{host}");
        }
        let headers = HeaderMap::from_iter([(HOST, "guest.localhost".parse().unwrap())]);
        assert_eq!(web_path(&"/".parse().unwrap(), &headers, &[]), None, "off unless a host is named");
        assert_eq!(web_path(&"/".parse().unwrap(), &HeaderMap::new(), &["localhost".into()]), None);
    }
}
