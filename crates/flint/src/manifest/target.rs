//! Parses names of actions as manifests write them.

use std::fmt;

/// The location of an action.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) namespace: String,
    pub(crate) package: Option<String>,
    pub(crate) name: String,
}

impl Target {
    /// Parses `text`, found in a package (`None`: in none) of the namespace `own`: a bare name is in the same
    /// package, `_` stands for the namespace, and `default` for no package.
    pub(crate) fn parse(text: &str, package: Option<&str>, own: &str) -> Result<Self, String> {
        let parts: Vec<_> = text.strip_prefix('/').unwrap_or(text).split('/').collect();
        let (namespace, package, name) = match (text.starts_with('/'), parts.as_slice()) {
            (false, [name]) => ("_", package, *name),
            (false, [package, name]) => ("_", Some(*package), *name),
            (true, [namespace, name]) => (*namespace, None, *name),
            (_, [namespace, package, name]) => (*namespace, Some(*package), *name),
            _ => return Err(format!("'{text}' is not the name of an action")),
        };
        let package = package.filter(|package| *package != "default");
        let legal = |name: &str| flint_model::EntityName::parse(name).is_ok();
        if !legal(name) || !package.is_none_or(legal) || !(namespace == "_" || legal(namespace)) {
            return Err(format!("'{text}' is not the name of an action"));
        }
        let namespace = if namespace == "_" { own } else { namespace };
        Ok(Self {
            namespace: namespace.to_owned(),
            package: package.map(str::to_owned),
            name: name.to_owned(),
        })
    }

    /// `[package/]name`.
    pub(crate) fn local(&self) -> String {
        local(self.package.as_deref(), &self.name)
    }
}

/// `[package/]name`.
pub(crate) fn local(package: Option<&str>, name: &str) -> String {
    package.map_or_else(|| name.to_owned(), |package| format!("{package}/{name}"))
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/{}", self.namespace, self.local())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_relative_to_package_and_namespace() {
        for (text, full) in [
            ("a", "/guest/p/a"),
            ("q/a", "/guest/q/a"),
            ("default/a", "/guest/a"),
            ("/_/a", "/guest/a"),
            ("/_/q/a", "/guest/q/a"),
            ("/other/q/a", "/other/q/a"),
            ("other/q/a", "/other/q/a"),
            ("/guest/default/a", "/guest/a"),
            ("a b", "/guest/p/a b"),
        ] {
            let target = Target::parse(text, Some("p"), "guest").map(|target| target.to_string());
            assert_eq!(target.as_deref(), Ok(full), "{text}");
        }
        assert_eq!(Target::parse("a", None, "guest").unwrap().to_string(), "/guest/a");
        for bad in ["", "/", "/a", "a/", "/a/b/c/d", "a/b/c/d", "a//b", "a?"] {
            assert!(Target::parse(bad, None, "guest").is_err(), "{bad}");
        }
    }
}
