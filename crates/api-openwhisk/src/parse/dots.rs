//! Resolves dot segments in paths. wskdeploy reads a trigger's feed at `actions/../../NAMESPACE/actions/…`,
//! which OpenWhisk resolves.

use http::Uri;

/// `uri` with the `.` and `..` of its path resolved by RFC 3986 §5.2.4, before the path is interpreted.
/// Encoded ones are names.
pub fn without_dots(uri: Uri) -> Uri {
    let Some(path) = resolved(uri.path()) else { return uri };
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    let mut parts = uri.clone().into_parts();
    match target.try_into() {
        Ok(target) => parts.path_and_query = Some(target),
        // Impossible: a part of a valid path is one.
        Err(_) => return uri,
    }
    Uri::from_parts(parts).unwrap_or(uri)
}

/// The path without dot segments; `None` if it has none.
fn resolved(path: &str) -> Option<String> {
    let segments = path.strip_prefix('/')?;
    if !segments.split('/').any(|segment| matches!(segment, "." | "..")) {
        return None;
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut ends_in_dots = false;
    for segment in segments.split('/') {
        ends_in_dots = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            name => kept.push(name),
        }
    }
    if ends_in_dots {
        kept.push("");
    }
    Some(format!("/{}", kept.join("/")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn dots_lead_up_and_never_out() {
        for (given, expected) in [
            (
                "/api/v1/namespaces/_/actions/../../whisk.system/actions/alarms/x?a=..",
                "/api/v1/namespaces/whisk.system/actions/alarms/x?a=..",
            ),
            ("/a/./b", "/a/b"),
            ("/a/b/..", "/a/"),
            ("/a/b/.", "/a/b/"),
            ("/../../a", "/a"),
            ("/..", "/"),
            ("/a//../b", "/a/b"),
            ("/a//b/", "/a//b/"),
            ("/a/.b/..c/...", "/a/.b/..c/..."),
            ("/a/%2e%2e/b", "/a/%2e%2e/b"),
            ("/a?x=/../", "/a?x=/../"),
            ("http://host:1/a/../b?c", "http://host:1/b?c"),
            ("*", "*"),
        ] {
            assert_eq!(without_dots(given.parse().unwrap()).to_string(), expected, "{given}");
        }
    }
}
