//! The comparable properties of an entity, in one form for the manifest and the server.

use std::{collections::BTreeMap, fmt};

use serde_json::{Map, Value};

/// All properties in which two entities of the same type and name may differ.
pub(crate) type Facts = BTreeMap<Field, Value>;

/// A property.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Field {
    /// A property of every entity of its type.
    Own(&'static str),
    Limit(&'static str),
    /// A property of which only a digest is known.
    Digest(&'static str),
    Parameter(String),
    Annotation(String),
}

impl Field {
    /// Whether its values may be secret.
    pub(crate) fn is_private(&self) -> bool {
        matches!(self, Self::Parameter(_) | Self::Annotation(_))
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(name) | Self::Limit(name) | Self::Digest(name) => f.write_str(name),
            Self::Parameter(name) => write!(f, "input {name}"),
            Self::Annotation(name) => write!(f, "annotation {name}"),
        }
    }
}

/// A change of a property.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) field: Field,
    /// Absent: it does not exist yet.
    pub(crate) from: Option<Value>,
    /// Absent: it is to be removed.
    pub(crate) to: Option<Value>,
}

/// The changes from `old` to `new`.
pub(crate) fn diff(old: &Facts, new: &Facts) -> Vec<Change> {
    let change = |field: &Field| Change {
        field: field.clone(),
        from: old.get(field).cloned(),
        to: new.get(field).cloned(),
    };
    let mut fields: Vec<_> = new.keys().chain(old.keys().filter(|field| !new.contains_key(field))).collect();
    fields.sort();
    fields.into_iter().map(change).filter(|change| change.from != change.to).collect()
}

/// The annotation with the digest of properties that cannot be read from the server.
pub(crate) const DIGEST: &str = "flint-digest";
/// wskdeploy's annotation of the project that created an entity.
pub(crate) const MANAGED: &str = "whisk-managed";

/// The project in these annotations.
pub(crate) fn project_of(annotations: &Map<String, Value>) -> Option<&str> {
    annotations.get(MANAGED)?.get("projectName")?.as_str()
}

/// The digest of JSON with sorted keys.
pub(crate) fn digest(value: &Value) -> String {
    // 128 bits suffice to tell values apart, and are easier to read.
    blake3::hash(value.to_string().as_bytes()).to_hex()[..32].to_owned()
}

/// Adds annotations as properties, except those that nobody writes by hand.
pub(crate) fn add_annotations(facts: &mut Facts, annotations: &Map<String, Value>) {
    for (key, value) in annotations {
        let is_system = match key.as_str() {
            "exec" | "binding" | "feed" | MANAGED | DIGEST => true,
            // The server's default.
            "provide-api-key" => *value == Value::Bool(false),
            // Covered by the digest.
            "flint-retry" => annotations.contains_key(DIGEST),
            _ => false,
        };
        if !is_system {
            facts.insert(Field::Annotation(key.clone()), value.clone());
        }
    }
}

/// Adds parameters as properties. A parameter for the environment differs from one for calls.
pub(crate) fn add_parameters<'a>(
    facts: &mut Facts,
    parameters: impl IntoIterator<Item = (&'a str, &'a Value, bool)>,
) {
    for (key, value, init) in parameters {
        let value = if init { serde_json::json!({ "init": value }) } else { value.clone() };
        let name = if init { format!("{key} (environment)") } else { key.to_owned() };
        facts.insert(Field::Parameter(name), value);
    }
}

/// `[{"key": …, "value": …}]` as a map.
pub(crate) fn keyed(list: &Value) -> Map<String, Value> {
    let pairs = list.as_array().into_iter().flatten();
    pairs.filter_map(|pair| Some((pair["key"].as_str()?.to_owned(), pair["value"].clone()))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_differs_is_named_and_what_goes_too() {
        let facts = |fields: &[(Field, Value)]| fields.iter().cloned().collect::<Facts>();
        let old = facts(&[
            (Field::Own("kind"), json!("nodejs:18")),
            (Field::Limit("memory"), json!(256)),
            (Field::Parameter("token".into()), json!("a")),
        ]);
        let new = facts(&[
            (Field::Own("kind"), json!("nodejs:20")),
            (Field::Limit("memory"), json!(256)),
            (Field::Annotation("final".into()), json!(true)),
        ]);
        let changes = diff(&old, &new);
        let told: Vec<_> = changes.iter().map(|change| change.field.to_string()).collect();
        assert_eq!(told, ["kind", "input token", "annotation final"]);
        assert_eq!((changes[1].from.clone(), changes[1].to.clone()), (Some(json!("a")), None));
        assert!(changes[1].field.is_private() && !changes[0].field.is_private());
    }

    #[test]
    fn what_the_server_says_by_itself_is_no_fact() {
        let mut facts = Facts::new();
        let annotations = json!({"exec": "nodejs:20", "provide-api-key": false, "final": true, "whisk-managed": {"projectName": "p"},
            "binding": {}, "feed": "/a/b", "flint-retry": {}, "flint-digest": "x"});
        let annotations = annotations.as_object().unwrap();
        add_annotations(&mut facts, annotations);
        assert_eq!(facts.keys().collect::<Vec<_>>(), [&Field::Annotation("final".into())]);
        assert_eq!(project_of(annotations), Some("p"));
        add_annotations(&mut facts, json!({"provide-api-key": true, "flint-retry": {}}).as_object().unwrap());
        assert_eq!(facts.len(), 3);
    }

    prop_compose! {
        fn some_facts()(pairs in prop::collection::btree_map("[a-c]{1,2}", 0..3_i32, 0..5)) -> Facts {
            pairs.into_iter().map(|(key, value)| (Field::Parameter(key), json!(value))).collect()
        }
    }

    proptest! {
        #[test]
        fn carrying_out_the_changes_leaves_nothing_to_change(old in some_facts(), new in some_facts()) {
            let mut now = old.clone();
            for Change { field, to, .. } in diff(&old, &new) {
                match to {
                    Some(value) => now.insert(field, value),
                    None => now.remove(&field),
                };
            }
            prop_assert_eq!(&now, &new);
            prop_assert!(diff(&now, &new).is_empty());
        }
    }
}
