//! Reads inputs.

use serde_json::Value;

use super::Reader;
use crate::manifest::{
    inputs::{Input, LONG_FORM, Sort},
    problems::meant,
    yaml::{Content, Entry, Node},
};

impl Reader<'_> {
    /// The inputs at a key.
    pub(super) fn inputs(&mut self, node: &Node, key: &str) -> Vec<Input> {
        let entries = self.map(node, key).unwrap_or_default();
        entries.iter().filter_map(|entry| self.input(entry, &format!("{key}.{}", entry.key))).collect()
    }

    /// The inputs under `inputs` and its synonym `parameters`.
    pub(super) fn inputs_of(&mut self, node: &Node, key: &str) -> Vec<Input> {
        let mut inputs: Vec<Input> = Vec::new();
        for name in ["inputs", "parameters"] {
            let Some(node) = node.get(name) else { continue };
            for input in self.inputs(node, &format!("{key}.{name}")) {
                if inputs.iter().any(|other| other.name == input.name) {
                    let key = format!("{key}.{name}.{}", input.name);
                    self.problems.error(
                        input.line,
                        &key,
                        "it stands under 'inputs' and under 'parameters'",
                        "keep one of them",
                    );
                }
                inputs.push(input);
            }
        }
        inputs
    }

    fn input(&mut self, entry: &Entry, key: &str) -> Option<Input> {
        let input =
            |sort, value, init| Input { name: entry.key.clone(), line: entry.line, sort, value, init };
        match &entry.value.content {
            Content::Scalar { text, value: Value::String(_) } if Sort::as_value(text).is_some() => {
                let sort = Sort::as_value(text)?;
                Some(input(Some(sort), Some(sort.zero()), false))
            }
            Content::Map(fields) if self.is_long_form(fields, key) => {
                let (sort, value, init) = self.long_form(&entry.value, key)?;
                Some(input(sort, value, init))
            }
            _ if entry.value.is_null() => Some(input(None, Some("".into()), false)),
            _ => {
                let value = self.value(&entry.value, key);
                Some(input(None, Some(value), false))
            }
        }
    }

    fn is_long_form(&mut self, fields: &[Entry], key: &str) -> bool {
        let is_known = |entry: &&Entry| LONG_FORM.contains(&entry.key.as_str());
        let (known, other): (Vec<_>, Vec<_>) = fields.iter().partition(is_known);
        // Either a value that looks like the long form, or a typing error: only the user knows.
        if let (Some(odd), true) = (
            other.first(),
            known.iter().any(|entry| matches!(entry.key.as_str(), "type" | "value" | "default")),
        ) {
            let next = match meant(&odd.key, LONG_FORM) {
                Some(one) => format!("did you mean '{one}'?"),
                None => "write it as value: {…} to say so".to_owned(),
            };
            let what = format!("it is taken for an object, because of its key '{}'", odd.key);
            self.problems.warn(odd.line, key, what, &next);
        }
        !known.is_empty() && other.is_empty()
    }

    /// Type, value, and whether it is for the environment.
    fn long_form(&mut self, node: &Node, key: &str) -> Option<(Option<Sort>, Option<Value>, bool)> {
        let sort = match node.get("type").filter(|node| !node.is_null()) {
            None => None,
            Some(node) => {
                let name = self.text(node, &format!("{key}.type"))?;
                let sort = Sort::named(&name);
                if sort.is_none() {
                    self.problems.error(
                        node.line,
                        &format!("{key}.type"),
                        format!("'{name}' is not a type"),
                        "write string, integer, float, boolean or json",
                    );
                    return None;
                }
                sort
            }
        };
        let init = match node.get("init") {
            Some(node) => self.flag(node, &format!("{key}.init"))?,
            None => false,
        };
        let required = match node.get("required") {
            Some(node) => self.flag(node, &format!("{key}.required"))?,
            None => false,
        };
        let said = ["value", "default"]
            .into_iter()
            .find_map(|name| Some((name, node.get(name).filter(|node| !node.is_null())?)));
        let value = match said {
            Some((name, node)) => {
                let key = format!("{key}.{name}");
                let value = self.value(node, &key);
                match sort.map_or(Ok(value.clone()), |sort| sort.of(value)) {
                    Ok(value) => Some(value),
                    Err(why) => {
                        self.problems.error(node.line, &key, why, "change the value or the type");
                        None
                    }
                }
            }
            None if required => None,
            None => Some(sort.unwrap_or(Sort::Text).zero()),
        };
        Some((sort, value, init))
    }
}
