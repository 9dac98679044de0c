//! Resolves a runtime as users write it to one that Flint has.

use flint_executor::RuntimeKind;
use flint_model::Kind;

use crate::ControllerError;

/// Finds the runtime that `asked` names: its full name, its family (`nodejs`, `nodejs:default`) or a prefix
/// of its version (`python:3`). Among several, the family's default is preferred, then one that this host
/// has.
pub(crate) fn resolve<'a>(asked: &str, kinds: &'a [RuntimeKind]) -> Result<&'a RuntimeKind, ControllerError> {
    let name = asked.trim().to_ascii_lowercase();
    if let Some(exact) = kinds.iter().find(|runtime| runtime.kind.as_str() == name) {
        return Ok(exact);
    }
    let (family, version) = match name.split_once(':') {
        Some((family, "default")) => (family, None),
        Some((family, version)) => (family, Some(version)),
        None => (name.as_str(), None),
    };
    let fits = |runtime: &&RuntimeKind| {
        runtime.kind.family() == family && version.is_none_or(|asked| begins(&runtime.kind, asked))
    };
    kinds
        .iter()
        .filter(fits)
        .min_by_key(|runtime| (!runtime.default, runtime.state.is_err()))
        .ok_or_else(|| ControllerError::UnknownKind { asked: asked.trim().to_owned(), valid: names(kinds) })
}

/// Whether `allowed`, as an operator writes it, covers this runtime: its full name, its family, its family's
/// default, or a prefix of its version.
pub(crate) fn allows(allowed: &str, kind: &Kind, kinds: &[RuntimeKind]) -> bool {
    let name = allowed.trim().to_ascii_lowercase();
    match name.split_once(':') {
        _ if name == kind.as_str() => true,
        Some((family, "default")) => {
            family == kind.family() && kinds.iter().any(|runtime| runtime.default && runtime.kind == *kind)
        }
        Some((family, version)) => family == kind.family() && begins(kind, version),
        None => name == kind.family(),
    }
}

/// Whether `version` is a prefix of a runtime's version.
fn begins(kind: &Kind, version: &str) -> bool {
    kind.version().and_then(|own| own.strip_prefix(version)).is_some_and(|rest| rest.starts_with('.'))
}

/// All names, without duplicates, in order.
fn names(kinds: &[RuntimeKind]) -> Vec<String> {
    let mut names: Vec<_> = kinds.iter().map(|runtime| runtime.kind.to_string()).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds() -> Vec<RuntimeKind> {
        let kind = |name: &str, default, there| RuntimeKind {
            kind: name.parse().unwrap(),
            default,
            requires_main: name.starts_with("java"),
            state: if there { Ok("found".to_owned()) } else { Err("missing".to_owned()) },
        };
        vec![
            kind("nodejs:20", true, true),
            kind("nodejs:18", false, false),
            kind("python:3.11", false, true),
            kind("python:3.10", true, true),
            kind("java:21", true, true),
            kind("native", true, true),
        ]
    }

    #[test]
    fn runtimes_are_found_by_name_family_and_beginning_of_the_version() {
        let kinds = kinds();
        for (asked, found) in [
            ("nodejs:20", "nodejs:20"),
            ("nodejs:18", "nodejs:18"),
            (" NodeJS:Default ", "nodejs:20"),
            ("nodejs", "nodejs:20"),
            ("python:3", "python:3.10"),
            ("python:3.11", "python:3.11"),
            ("python:default", "python:3.10"),
            ("native", "native"),
        ] {
            assert_eq!(resolve(asked, &kinds).unwrap().kind.as_str(), found, "{asked}");
        }
    }

    #[test]
    fn an_operator_may_write_what_is_allowed_as_users_write_what_they_want() {
        let kinds = kinds();
        for (allowed, meant) in [
            ("nodejs:20", "nodejs:20"),
            ("NodeJS:20", "nodejs:20"),
            ("nodejs", "nodejs:18, nodejs:20"),
            ("nodejs:default", "nodejs:20"),
            ("python:3", "python:3.10, python:3.11"),
            ("python:3.1", ""),
            ("native", "native"),
            ("node", ""),
            ("nodejs:", ""),
            ("", ""),
        ] {
            let all = kinds.iter().map(|runtime| &runtime.kind);
            let mut found: Vec<_> =
                all.filter(|kind| allows(allowed, kind, &kinds)).map(Kind::as_str).collect();
            found.sort_unstable();
            assert_eq!(found.join(", "), meant, "{allowed}");
        }
    }

    #[test]
    fn an_unknown_runtime_is_answered_with_those_there_are() {
        let kinds = kinds();
        for asked in ["nodejs:14", "cobol", "nodejs:2", "", "nodejs:", "python:3.1"] {
            assert!(resolve(asked, &kinds).is_err(), "{asked}");
        }
        let text = resolve("x", &kinds).unwrap_err().to_string();
        assert_eq!(
            text,
            "The specified runtime 'x' is not supported by this platform. Valid values are: 'java:21', 'native', \
             'nodejs:18', 'nodejs:20', 'python:3.10', 'python:3.11'."
        );
    }
}
