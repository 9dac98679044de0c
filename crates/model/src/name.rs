//! Names of namespaces, packages and functions.
//!
//! The rules and the texts of the errors are those of the OpenWhisk API, which clients match on.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

/// The longest name, in characters.
const MAX_LENGTH: usize = 256;

/// Why a text is not a name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NameError {
    /// An entity name with a character that is not allowed, or an empty one.
    #[error("The name of the entity contains illegal characters.")]
    EntityCharacters,
    /// An entity name of more than 256 characters. (The spelling is what clients know.)
    #[error("Name segement longer than allowed: {0} > 256.")]
    EntityLength(usize),
    /// A namespace name with a character that is not allowed, or an empty one.
    #[error("The namespace contains illegal characters.")]
    NamespaceCharacters,
    /// A namespace name of more than 256 characters.
    #[error("Namespace longer than allowed: {0} > 256.")]
    NamespaceLength(usize),
    /// Not `/namespace/name` or `/namespace/package/name`.
    #[error(
        "The fully qualified name of the entity must contain at least the namespace and the name of the entity."
    )]
    Path,
}

/// `[A-Za-z0-9_]`, then any of those and `@ .&-`, not ending in a space.
fn has_legal_characters(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let inner = |c: char| word(c) || "@ .&-".contains(c);
    text.chars().next().is_some_and(word) && text.chars().all(inner) && !text.ends_with(' ')
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $characters:ident, $length:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the rules of names.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                let length = text.chars().count();
                if length > MAX_LENGTH {
                    Err(NameError::$length(length))
                } else if !has_legal_characters(text) {
                    Err(NameError::$characters)
                } else {
                    Ok(Self(text.into()))
                }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

name_type! {
    /// The name of a function, package, trigger or rule within its namespace.
    EntityName, EntityCharacters, EntityLength
}

name_type! {
    /// The name of a namespace, the owner of everything in it.
    NamespaceName, NamespaceCharacters, NamespaceLength
}

/// Where a function is found: `namespace/[package/]name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FunctionPath {
    /// The owner.
    pub namespace: NamespaceName,
    /// The package, when the function is in one.
    pub package: Option<EntityName>,
    /// The function's own name.
    pub name: EntityName,
}

impl FunctionPath {
    /// A function outside any package.
    pub fn new(namespace: NamespaceName, name: EntityName) -> Self {
        Self { namespace, package: None, name }
    }

    /// The package that the function is in.
    pub fn package_path(&self) -> Option<EntityPath> {
        let package = self.package.clone()?;
        Some(EntityPath::new(self.namespace.clone(), package))
    }

    /// `[package/]name`, without the namespace.
    pub fn local(&self) -> String {
        match &self.package {
            Some(package) => format!("{package}/{}", self.name),
            None => self.name.to_string(),
        }
    }
}

impl FromStr for FunctionPath {
    type Err = NameError;

    /// Reads `namespace/name`, `namespace/package/name`, each with or without a leading slash.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut segments = text.strip_prefix('/').unwrap_or(text).split('/');
        let namespace = NamespaceName::parse(segments.next().unwrap_or_default())?;
        let first = EntityName::parse(segments.next().ok_or(NameError::Path)?)?;
        match (segments.next(), segments.next()) {
            (None, _) => Ok(Self { namespace, package: None, name: first }),
            (Some(name), None) => {
                Ok(Self { namespace, package: Some(first), name: EntityName::parse(name)? })
            }
            (Some(_), Some(_)) => Err(NameError::Path),
        }
    }
}

impl TryFrom<String> for FunctionPath {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<FunctionPath> for String {
    fn from(path: FunctionPath) -> Self {
        path.to_string()
    }
}

impl fmt::Display for FunctionPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.local())
    }
}

/// Where a package, trigger or rule is found: `namespace/name`. None of them is ever in a package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EntityPath {
    /// The owner.
    pub namespace: NamespaceName,
    /// The entity's own name.
    pub name: EntityName,
}

impl EntityPath {
    /// The path of `name` in `namespace`.
    pub fn new(namespace: NamespaceName, name: EntityName) -> Self {
        Self { namespace, name }
    }
}

impl FromStr for EntityPath {
    type Err = NameError;

    /// Reads `namespace/name`, with or without a leading slash.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse()? {
            FunctionPath { namespace, package: None, name } => Ok(Self { namespace, name }),
            FunctionPath { package: Some(_), .. } => Err(NameError::Path),
        }
    }
}

impl TryFrom<String> for EntityPath {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<EntityPath> for String {
    fn from(path: EntityPath) -> Self {
        path.to_string()
    }
}

impl fmt::Display for EntityPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_never_in_a_package_has_two_segments() {
        let path: EntityPath = "/guest/nightly".parse().unwrap();
        assert_eq!((path.namespace.as_str(), path.name.as_str()), ("guest", "nightly"));
        assert_eq!(path.to_string().parse(), Ok(path));
        for bad in ["guest", "guest/a/b", "/", "guest/"] {
            assert!(bad.parse::<EntityPath>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_follow_the_rules_of_openwhisk() {
        for good in ["a", "_", "resize", "a b", "x@y.z", "R&D-2", "9lives"] {
            assert!(EntityName::parse(good).is_ok(), "{good}");
        }
        for bad in ["", " a", "a ", "-a", ".a", "a/b", "é", "a\n", "a\0", ".."] {
            assert_eq!(EntityName::parse(bad), Err(NameError::EntityCharacters), "{bad:?}");
        }
        assert!(EntityName::parse(&"x".repeat(256)).is_ok());
        assert_eq!(EntityName::parse(&"x".repeat(257)), Err(NameError::EntityLength(257)));
    }

    #[test]
    fn paths_have_two_or_three_segments() {
        let path: FunctionPath = "/guest/images/resize".parse().unwrap();
        assert_eq!(
            (path.to_string().as_str(), path.local().as_str()),
            ("guest/images/resize", "images/resize")
        );
        assert_eq!("guest/resize".parse::<FunctionPath>().unwrap().package, None);
        for bad in ["", "/", "guest", "guest/a/b/c", "guest//b", "guest/../b"] {
            assert!(bad.parse::<FunctionPath>().is_err(), "{bad}");
        }
    }
}
