//! The server's runtimes.

use serde_json::Value;

use crate::failure::Failure;

/// The runtimes as the server lists them.
#[derive(Debug, Default)]
pub(crate) struct Kinds(Vec<Kind>);

#[derive(Debug)]
struct Kind {
    name: String,
    default: bool,
    requires_main: bool,
    /// What it lacks.
    unavailable: Option<String>,
}

impl Kinds {
    /// From `runtimes` in the response to `GET /`.
    pub(crate) fn of(runtimes: &Value) -> Self {
        let families = runtimes.as_object().into_iter().flatten();
        let kinds =
            families.flat_map(|(_, kinds)| kinds.as_array().into_iter().flatten()).filter_map(|kind| {
                Some(Kind {
                    name: kind["kind"].as_str()?.to_owned(),
                    default: kind["default"] == true,
                    requires_main: kind["requireMain"] == true,
                    unavailable: kind["unavailable"].as_str().map(str::to_owned),
                })
            });
        Self(kinds.collect())
    }

    /// The runtime that `asked` names: its name, its family, `family:default`, or a prefix of its version.
    pub(crate) fn resolve(&self, asked: &str, main: Option<&str>) -> Result<&str, Failure> {
        let name = asked.trim().to_ascii_lowercase();
        let (family, version) = match name.split_once(':') {
            Some((family, "default")) => (family, None),
            Some((family, version)) => (family, Some(version)),
            None => (name.as_str(), None),
        };
        let fits = |kind: &&Kind| {
            let (own, its) =
                kind.name.split_once(':').map_or((kind.name.as_str(), None), |(own, its)| (own, Some(its)));
            let begins = |asked: &str| {
                its.and_then(|its| its.strip_prefix(asked)).is_some_and(|rest| rest.starts_with('.'))
            };
            own == family && version.is_none_or(begins)
        };
        let exact = self.0.iter().find(|kind| kind.name == name);
        let found = exact.or_else(|| {
            self.0.iter().filter(fits).min_by_key(|kind| (!kind.default, kind.unavailable.is_some()))
        });
        let Some(kind) = found else {
            let mut names: Vec<_> = self.0.iter().map(|kind| kind.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            let same = names.iter().any(|name| name.split(':').next() == Some(family));
            let next = if same {
                format!("write runtime: {family}:default")
            } else {
                format!("it has {}", names.join(", "))
            };
            return Err(Failure::usage(format!("the server has no runtime '{asked}'")).hint(next));
        };
        if let Some(missing) = &kind.unavailable {
            return Err(Failure::usage(format!("the server's host cannot run {}: {missing}", kind.name))
                .hint("flint doctor --remote shows what it can run"));
        }
        if kind.requires_main && main.is_none_or(|main| main.trim().is_empty()) {
            return Err(Failure::usage(format!("actions of {} need their main", kind.name))
                .hint("write main: Class, or Class#method"));
        }
        Ok(&kind.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn runtimes_are_found_by_name_family_and_beginning_of_the_version() {
        let kind = |kind: &str, default| json!({"kind": kind, "default": default, "requireMain": kind.starts_with("java")});
        let kinds = Kinds::of(&json!({
            "nodejs": [kind("nodejs:18", false), kind("nodejs:20", true)],
            "python": [kind("python:3.11", true), kind("python:3.10", false)],
            "java": [kind("java:21", true)],
            "php": [{"kind": "php:8.2", "default": true, "unavailable": "install php-cli"}],
            "native": [kind("native", true)],
        }));
        for (asked, found) in [
            ("nodejs", "nodejs:20"),
            (" NodeJS:Default", "nodejs:20"),
            ("nodejs:18", "nodejs:18"),
            ("python:3", "python:3.11"),
            ("python:3.10", "python:3.10"),
            ("native", "native"),
        ] {
            assert_eq!(kinds.resolve(asked, None).unwrap(), found, "{asked}");
        }
        assert_eq!(kinds.resolve("java", Some("Hello")).unwrap(), "java:21");
        for (asked, message, hint) in [
            ("nodejs:6", "no runtime 'nodejs:6'", "nodejs:default"),
            ("cobol", "no runtime 'cobol'", "nodejs:18, nodejs:20"),
            ("java:default", "need their main", "main: Class"),
            ("php", "install php-cli", "doctor"),
        ] {
            let failure = kinds.resolve(asked, None).unwrap_err();
            assert!(
                failure.message.contains(message) && failure.hint.unwrap().contains(hint),
                "{asked}: {}",
                failure.message
            );
        }
    }
}
