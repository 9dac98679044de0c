//! What a path below `/api/v1/web` names.

use flint_model::{EntityName, FunctionPath, NamespaceName};

use super::Projection;
use crate::parse::percent_decode;

/// A web action, the form of its answer, and the rest of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The action.
    pub path: FunctionPath,
    /// What the extension says, `.http` when there is none.
    pub projection: Projection,
    /// What follows the action, with its slash, as it came.
    pub rest: &'a str,
}

/// Where web actions are.
const ROOT: &str = "/api/v1/web/";

/// The package of actions that are in none.
const NO_PACKAGE: &str = "default";

/// Reads a path; `None` when it cannot name an action.
pub fn target(path: &str) -> Option<Target<'_>> {
    let (namespace, below) = path.strip_prefix(ROOT)?.split_once('/')?;
    let (package, below) = below.split_once('/')?;
    let (name, rest) = below.split_at(below.find('/').unwrap_or(below.len()));
    let (namespace, package, name) =
        (percent_decode(namespace)?, percent_decode(package)?, percent_decode(name)?);
    let (name, projection) = Projection::split(&name);
    let package = match package.as_ref() {
        NO_PACKAGE => None,
        package => Some(EntityName::parse(package).ok()?),
    };
    let namespace = NamespaceName::parse(&namespace).ok()?;
    let path = FunctionPath { namespace, package, name: EntityName::parse(name).ok()? };
    Some(Target { path, projection, rest })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(path: &str) -> Option<(String, Projection, String)> {
        let path = format!("/api/v1/web/{path}");
        let target = target(&path)?;
        Some((target.path.to_string(), target.projection, target.rest.to_owned()))
    }

    #[test]
    fn a_path_names_an_action_a_form_and_a_rest() {
        for (path, action, projection, rest) in [
            ("guest/default/f", "guest/f", Projection::Http, ""),
            ("guest/default/f.http", "guest/f", Projection::Http, ""),
            ("guest/p/f.json", "guest/p/f", Projection::Json, ""),
            ("guest/p/f.html/", "guest/p/f", Projection::Html, "/"),
            ("guest/p/f.svg/a%20b//c.json", "guest/p/f", Projection::Svg, "/a%20b//c.json"),
            ("guest/p/f.text", "guest/p/f", Projection::Text, ""),
            ("guest/p/f.v1.json", "guest/p/f.v1", Projection::Json, ""),
            ("a%20b/R%26D/x%2Ejson", "a b/R&D/x", Projection::Json, ""),
            ("guest/p/f.xml", "guest/p/f.xml", Projection::Http, ""),
            ("guest/p/fjson", "guest/p/fjson", Projection::Http, ""),
        ] {
            assert_eq!(read(path), Some((action.into(), projection, rest.into())), "{path}");
        }
    }

    #[test]
    fn what_cannot_be_an_action_is_none() {
        for path in [
            "",
            "guest",
            "guest/",
            "guest/default",
            "guest/default/",
            "guest//f",
            "/default/f",
            "guest/p/.json",
            "guest/p/%2f",
            "guest/%zz/f",
            "guest/../f",
        ] {
            assert_eq!(read(path), None, "{path}");
        }
        assert_eq!(target("/api/v1/namespaces/_/actions"), None);
    }

    proptest! {
        #[test]
        fn no_path_panics(path in "[/a-z%.0-9]*") {
            let _ = read(&path);
        }
    }
}
