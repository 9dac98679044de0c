//! Interpolates `$NAME` and `${NAME}` in a manifest, from `--param`, the project's inputs, or the
//! environment.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    env,
};

use serde_json::Value;

/// The sources of variables.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    /// From the command line; takes precedence.
    given: BTreeMap<String, Value>,
    /// From the manifest.
    of_project: BTreeMap<String, Value>,
    /// Inputs of the manifest whose values are not known.
    unset: BTreeSet<String>,
    /// A copy of the process's environment, without names and values that are not UTF-8.
    environment: BTreeMap<String, String>,
    /// Those of `given` that were used.
    used: RefCell<BTreeSet<String>>,
}

/// Why a text could not be interpolated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Incomplete {
    pub(crate) what: String,
    pub(crate) next: String,
}

impl Variables {
    pub(crate) fn new(given: impl IntoIterator<Item = (String, Value)>) -> Self {
        let environment = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self { given: given.into_iter().collect(), environment: environment.collect(), ..Self::default() }
    }

    #[cfg(test)]
    pub(crate) fn of(environment: &[(&str, &str)]) -> Self {
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self { environment: environment.collect(), ..Self::default() }
    }

    #[cfg(test)]
    pub(crate) fn with_given(mut self, name: &str, value: Value) -> Self {
        self.given.insert(name.to_owned(), value);
        self
    }

    /// Adds an input of the manifest's project.
    pub(crate) fn add_of_project(&mut self, name: &str, value: Value) {
        self.of_project.insert(name.to_owned(), value);
    }

    /// Notes that an input of the manifest's project has no value, whatever the environment has.
    pub(crate) fn leave_unset(&mut self, name: &str) {
        self.unset.insert(name.to_owned());
    }

    /// The command line's value for an input of this name.
    pub(crate) fn given(&self, name: &str) -> Option<&Value> {
        let value = self.given.get(name)?;
        self.used.borrow_mut().insert(name.to_owned());
        Some(value)
    }

    /// Values of the command line that nothing used.
    pub(crate) fn unused(&self) -> Vec<&str> {
        let used = self.used.borrow();
        self.given.keys().filter(|name| !used.contains(*name)).map(String::as_str).collect()
    }

    fn text_of(&self, name: &str) -> Option<String> {
        let as_text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.given(name)
            .map(as_text)
            .or_else(|| self.of_project.get(name).map(as_text))
            .or_else(|| self.environment.get(name).filter(|_| !self.unset.contains(name)).cloned())
    }

    /// Interpolates a text. `$$NAME` and `$${NAME}` stand for `$NAME` and `${NAME}`; a `$` before anything
    /// else is literal.
    pub(crate) fn interpolate(&self, text: &str) -> Result<String, Incomplete> {
        let mut done = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            done.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(escaped) = rest.strip_prefix('$').filter(|after| begins_a_variable(after)) {
                // The name is copied as text, so that it is not interpreted again.
                let length =
                    escaped.strip_prefix('{').map_or(name_length(escaped), |name| 1 + name_length(name));
                done.push('$');
                done.push_str(&escaped[..length]);
                rest = &escaped[length..];
            } else if let Some(braced) = rest.strip_prefix('{') {
                let name = braced.split_once('}').map(|(name, _)| name);
                let Some(name) = name.filter(|name| !name.is_empty() && name_length(name) == name.len())
                else {
                    return Err(Incomplete {
                        what: "'${' begins a variable, and no name and '}' follow".to_owned(),
                        next: "write ${NAME}, or $${ for the characters themselves".to_owned(),
                    });
                };
                done.push_str(&self.value_of(name)?);
                rest = &braced[name.len() + 1..];
            } else if begins_a_variable(rest) {
                let (name, after) = rest.split_at(name_length(rest));
                done.push_str(&self.value_of(name)?);
                rest = after;
            } else {
                done.push('$');
            }
        }
        done.push_str(rest);
        Ok(done)
    }

    fn value_of(&self, name: &str) -> Result<String, Incomplete> {
        self.text_of(name).ok_or_else(|| Incomplete {
            what: format!("the variable {name} is not set"),
            next: format!(
                "export {name}=…, or give it with --param {name}=…; ${name} itself is written $${name}"
            ),
        })
    }
}

fn begins_a_variable(text: &str) -> bool {
    text.starts_with('{') || name_length(text) > 0
}

/// The length of the variable name at the start of a text.
fn name_length(text: &str) -> usize {
    let is_in_name = |(at, byte): (usize, u8)| {
        byte == b'_' || byte.is_ascii_alphabetic() || (at > 0 && byte.is_ascii_digit())
    };
    text.bytes().enumerate().take_while(|one| is_in_name(*one)).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn variables() -> Variables {
        Variables::of(&[("USER", "ann"), ("A1", "x"), ("EMPTY", ""), ("NESTED", "${USER}")])
    }

    #[test]
    fn variables_are_replaced_and_escapes_are_kept() {
        for (text, done) in [
            ("plain", "plain"),
            ("$USER", "ann"),
            ("${USER}_package", "ann_package"),
            ("http://${USER}@$A1/y", "http://ann@x/y"),
            ("$${USER} $$USER", "${USER} $USER"),
            ("[$EMPTY]", "[]"),
            ("$NESTED", "${USER}"),
            ("costs $5 or 5$", "costs $5 or 5$"),
            ("a$$b$$", "a$b$$"),
            ("$$$USER", "$$USER"),
            ("ü$USERü", "üannü"),
        ] {
            assert_eq!(variables().interpolate(text).as_deref(), Ok(done), "{text}");
        }
    }

    #[test]
    fn what_is_not_set_or_not_closed_is_named() {
        let what = |text| variables().interpolate(text).unwrap_err().what;
        assert_eq!(what("x ${NOBODY}"), "the variable NOBODY is not set");
        assert_eq!(what("$USERS"), "the variable USERS is not set");
        for open in ["${", "${USER", "${}", "${US ER}", "${1}"] {
            assert!(what(open).contains("begins a variable"), "{open}");
        }
    }

    #[test]
    fn the_command_line_goes_before_the_project_and_that_before_the_environment() {
        let mut variables = variables()
            .with_given("USER", json!("bob"))
            .with_given("N", json!(7))
            .with_given("LEFT", json!(1));
        variables.add_of_project("USER", json!("carl"));
        variables.add_of_project("A1", json!("project"));
        assert_eq!(variables.interpolate("$USER $A1 $N").as_deref(), Ok("bob project 7"));
        assert_eq!(variables.unused(), ["LEFT"]);
    }

    proptest! {
        #[test]
        fn a_text_without_dollars_stays_and_no_text_panics(text in "[^$]*", any in "[$ab{}_ü]{0,30}") {
            prop_assert_eq!(variables().interpolate(&text), Ok(text.clone()));
            let _ = variables().interpolate(&any);
        }

        #[test]
        fn an_escaped_variable_is_its_text(name in "[A-Za-z_][A-Za-z0-9_]{0,8}") {
            prop_assert_eq!(variables().interpolate(&format!("$${{{name}}}")), Ok(format!("${{{name}}}")));
            prop_assert_eq!(variables().interpolate(&format!("$${name}")), Ok(format!("${name}")));
        }
    }
}
