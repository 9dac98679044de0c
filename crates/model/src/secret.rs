//! Secrets: what functions are given at a call that nobody is shown.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Annotations, NamespaceName, Timestamp};

/// The longest name, in characters.
const MAX_LENGTH: usize = 64;

/// Variables that say where and as what a function runs.
const RESERVED: &str = "__OW_";

/// Why something is not a secret's name, or no binding of one.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SecretError {
    /// A name with a character that is not allowed, or one that is empty or too long.
    #[error(
        "'{0}' cannot be the name of a secret: a letter or _, then letters, digits, _ and -, up to {most} characters",
        most = MAX_LENGTH
    )]
    Name(String),
    /// What is to be its variable in the environment is none.
    #[error(
        "'{0}' cannot be the variable of a secret: a letter or _, then letters, digits and _, up to {most} characters, not beginning with {reserved}",
        most = MAX_LENGTH,
        reserved = RESERVED
    )]
    Variable(String),
    /// Two secrets for one variable.
    #[error("two secrets are to be the variable {0}: name another one for one of them, as NAME=VARIABLE")]
    Twice(String),
    /// More than a function may have.
    #[error("{0} secrets are more than a function may have, which is {max}", max = SecretBinding::MOST)]
    TooMany(usize),
    /// Something else where bindings should be.
    #[error("the annotation '{annotation}' is not understood: {0} is no list of texts like 'db' or 'db=DB_PASSWORD'", annotation = SecretBinding::ANNOTATION)]
    NoList(String),
}

/// The name of a secret within its namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretName(Arc<str>);

/// A letter or `_`, then what `inner` allows too.
fn is_word(text: &str, inner: fn(u8) -> bool) -> bool {
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || inner(byte);
    begins && text.len() <= MAX_LENGTH && text.bytes().all(inner)
}

impl SecretName {
    /// Checks the rules of names.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        match is_word(text, |byte| byte == b'-') {
            true => Ok(Self(text.into())),
            false => Err(SecretError::Name(text.to_owned())),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SecretName {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl TryFrom<String> for SecretName {
    type Error = SecretError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<SecretName> for String {
    fn from(name: SecretName) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A secret as it is kept: encrypted.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedSecret {
    /// Whose it is.
    pub namespace: NamespaceName,
    /// What functions call it.
    pub name: SecretName,
    /// Counts every write, as with functions. It stays when the same value is encrypted with another key.
    pub revision: u64,
    /// The id of the key that it is encrypted with.
    pub key: String,
    /// Nonce, encrypted value, tag.
    pub sealed: Vec<u8>,
    /// When its value was set.
    pub updated: Timestamp,
}

impl fmt::Debug for SealedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SealedSecret({}/{} revision {}, key {})",
            self.namespace, self.name, self.revision, self.key
        )
    }
}

/// A secret that a function is given, and the variable of its environment that it is given in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretBinding {
    /// Which secret of the function's namespace.
    pub secret: SecretName,
    /// Which variable.
    pub variable: String,
}

impl SecretBinding {
    /// The annotation that has a function's bindings: a list of `name` or `name=VARIABLE`.
    pub const ANNOTATION: &'static str = "flint-secrets";

    /// The most that a function may have.
    pub const MOST: usize = 32;

    /// Those that annotations name.
    pub fn of(annotations: &Annotations) -> Result<Vec<Self>, SecretError> {
        let list = match annotations.get(Self::ANNOTATION) {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(list)) => list.as_slice(),
            Some(one @ Value::String(_)) => std::slice::from_ref(one),
            Some(other) => return Err(SecretError::NoList(other.to_string())),
        };
        if list.len() > Self::MOST {
            return Err(SecretError::TooMany(list.len()));
        }
        let mut bindings: Vec<Self> = Vec::with_capacity(list.len());
        for one in list {
            let text = one.as_str().ok_or_else(|| SecretError::NoList(one.to_string()))?;
            let binding: Self = text.parse()?;
            if bindings.iter().any(|other| other.variable == binding.variable) {
                return Err(SecretError::Twice(binding.variable));
            }
            bindings.push(binding);
        }
        Ok(bindings)
    }
}

impl FromStr for SecretBinding {
    type Err = SecretError;

    /// Reads `name=VARIABLE`, or `name`, whose variable is the name in capitals with `_` for `-`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, variable) = match text.split_once('=') {
            Some((name, variable)) => (name, variable.to_owned()),
            None => (text, text.to_ascii_uppercase().replace('-', "_")),
        };
        let secret = SecretName::parse(name)?;
        match is_word(&variable, |_| false) && !variable.starts_with(RESERVED) {
            true => Ok(Self { secret, variable }),
            false => Err(SecretError::Variable(variable)),
        }
    }
}

impl TryFrom<String> for SecretBinding {
    type Error = SecretError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<SecretBinding> for String {
    fn from(binding: SecretBinding) -> Self {
        binding.to_string()
    }
}

impl fmt::Display for SecretBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.secret, self.variable)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(value: Value) -> Result<Vec<String>, SecretError> {
        let mut annotations = Annotations::default();
        annotations.set(SecretBinding::ANNOTATION, value);
        Ok(SecretBinding::of(&annotations)?.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_secret_is_the_variable_of_its_name_unless_another_is_named() {
        assert_eq!(
            of(json!(["db-pass", "token=API_TOKEN"])),
            Ok(vec!["db-pass=DB_PASS".into(), "token=API_TOKEN".into()])
        );
        assert_eq!(of(json!("db")), Ok(vec!["db=DB".into()]));
        assert_eq!(of(json!(null)), Ok(Vec::new()));
        assert_eq!(SecretBinding::of(&Annotations::default()), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_binding_is_named() {
        for bad in ["", "-a", "1a", "a b", "a/b", "ä", &"x".repeat(65)] {
            assert!(matches!(of(json!([bad])), Err(SecretError::Name(_))), "{bad}");
        }
        for bad in ["a=", "a=B-C", "a=1", "a=__OW_API_KEY", "a=B C", "__ow_x"] {
            assert!(matches!(of(json!([bad])), Err(SecretError::Variable(_))), "{bad}");
        }
        assert_eq!(of(json!(["a", "b=A"])), Err(SecretError::Twice("A".into())));
        assert_eq!(of(json!(vec!["a"; 33])), Err(SecretError::TooMany(33)));
        assert!(matches!(of(json!({"A": "a"})), Err(SecretError::NoList(_))));
        assert!(matches!(of(json!([1])), Err(SecretError::NoList(_))));
    }
}
