//! Parses base paths and path templates.

use crate::ControllerError;

/// Maximum length of a path.
const LONGEST: usize = 1024;

/// Methods that an API may have.
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "patch", "head", "options"];

/// A base path as it is stored: `/`, or without the slashes at its end.
pub(super) fn base_path(text: &str) -> Result<String, ControllerError> {
    let trimmed = text.trim_end_matches('/');
    let path = if trimmed.is_empty() && text.starts_with('/') { "/" } else { trimmed };
    check("base path", path)?;
    match path.contains(['{', '}']) {
        true => Err(invalid("base path", path, "parameters stand in the path below it")),
        false => Ok(path.to_owned()),
    }
}

/// Checks a template: a segment in braces matches any segment.
pub(super) fn check_template(path: &str) -> Result<(), ControllerError> {
    check("path", path)?;
    let mut names = Vec::new();
    for segment in path.split('/') {
        match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(name) if name.is_empty() || name.contains(['{', '}']) || names.contains(&name) => {
                return Err(invalid("path", path, "each parameter has a name of its own, as in /books/{id}"));
            }
            Some(name) => names.push(name),
            None if segment.contains(['{', '}']) => {
                return Err(invalid("path", path, "a parameter is a whole segment, as in /books/{id}"));
            }
            None => {}
        }
    }
    Ok(())
}

/// Checks that an API may have this method.
pub(super) fn check_method(method: &str) -> Result<(), ControllerError> {
    match METHODS.contains(&method) {
        true => Ok(()),
        false => Err(ControllerError::Invalid(format!(
            "'{method}' is not a method of an API: it is one of {}",
            METHODS.join(", ")
        ))),
    }
}

/// Checks common to both.
fn check(what: &str, path: &str) -> Result<(), ControllerError> {
    let segments = || path.strip_prefix('/').unwrap_or_default().split('/');
    let why = if !path.starts_with('/') {
        "it begins with /"
    } else if path.len() > LONGEST {
        "it is too long"
    } else if path.chars().any(|c| c.is_control() || c.is_whitespace() || "?#%\\\"".contains(c)) {
        "it has a character that is not allowed"
    } else if path != "/" && segments().any(|segment| segment == "." || segment == "..") {
        "it leads elsewhere"
    } else if path.contains("//") {
        "it has an empty segment"
    } else {
        return Ok(());
    };
    Err(invalid(what, path, why))
}

fn invalid(what: &str, path: &str, why: &str) -> ControllerError {
    let shown: String = path.chars().take(80).collect();
    ControllerError::Invalid(format!("'{shown}' cannot be the {what} of an API: {why}."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_paths_begin_with_a_slash_and_end_without_one() {
        for (text, path) in [("/", "/"), ("//", "/"), ("/a", "/a"), ("/a/b/", "/a/b"), ("/ä", "/ä")] {
            assert_eq!(base_path(text).unwrap(), path);
        }
        for bad in
            ["", "a", "/a//b", "/a b", "/a?x", "/a#x", "/a%20", "/{a}", "/..", "/a/./b", "/a\n", "API name"]
        {
            assert!(base_path(bad).is_err(), "{bad:?}");
        }
        assert!(base_path(&format!("/{}", "x".repeat(1024))).is_err());
    }

    #[test]
    fn a_parameter_is_a_whole_segment_with_a_name_of_its_own() {
        for good in ["/", "/a", "/a/", "/{id}", "/books/{id}/pages/{page}"] {
            assert!(check_template(good).is_ok(), "{good}");
        }
        for bad in ["", "a", "/{}", "/{a}/{a}", "/x{a}", "/{a}x", "/{", "/{{a}}", "//"] {
            assert!(check_template(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn methods_are_those_of_web_actions() {
        assert!(
            check_method("get").is_ok() && check_method("trace").is_err() && check_method("GET").is_err()
        );
    }
}
