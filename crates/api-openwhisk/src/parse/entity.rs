//! Parses the bodies of PUTs of packages, triggers and rules, and the names in them.

use flint_model::{
    Annotations, EntityName as Name, FunctionPath, NamespaceName, Parameters, RuleStatus, Version,
};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{object, version};

/// The body of `PUT …/packages/NAME`. Unknown fields are ignored, and `null` is absent, here and in the others.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PackageBody {
    /// The package to bind to.
    #[serde(deserialize_with = "binding")]
    pub binding: Option<Binding>,
    /// Default arguments; replace all old ones.
    pub parameters: Option<Parameters>,
    /// Annotations; replace all old ones.
    pub annotations: Option<Annotations>,
    /// Whether it is published.
    pub publish: Option<bool>,
    /// The requested version.
    #[serde(deserialize_with = "version")]
    pub version: Option<Version>,
}

/// `binding`; its namespace may be `_`.
#[derive(Debug, Deserialize)]
pub struct Binding {
    /// The provider's namespace.
    pub namespace: NamespaceName,
    /// The provider's name.
    pub name: Name,
}

/// Clients that send back what they received have `{}` if there is no binding.
fn binding<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Binding>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::Object(fields) if fields.is_empty() => Ok(None),
        value => Binding::deserialize(value).map(Some).map_err(serde::de::Error::custom),
    }
}

/// The body of `PUT …/triggers/NAME`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct TriggerBody {
    /// Default arguments; replace all old ones.
    pub parameters: Option<Parameters>,
    /// Annotations; replace all old ones.
    pub annotations: Option<Annotations>,
    /// Stored without effect.
    pub publish: Option<bool>,
    /// The requested version.
    #[serde(deserialize_with = "version")]
    pub version: Option<Version>,
}

/// The body of `PUT …/rules/NAME`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RuleBody {
    /// Its trigger.
    pub trigger: Option<EntityName>,
    /// Its action.
    pub action: Option<EntityName>,
    /// Annotations; replace all old ones.
    pub annotations: Option<Annotations>,
    /// Stored without effect.
    pub publish: Option<bool>,
    /// The requested version.
    #[serde(deserialize_with = "version")]
    pub version: Option<Version>,
}

/// A qualified name: `/namespace/[package/]name`, with or without the leading slash, or `{"path":
/// "namespace[/package]", "name": …}`. The namespace may be `_`, the caller's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityName(FunctionPath);

impl EntityName {
    /// Resolves the name for a caller in `own`.
    pub fn resolve(self, own: &NamespaceName) -> FunctionPath {
        match self.0.namespace.as_str() {
            "_" => FunctionPath { namespace: own.clone(), ..self.0 },
            _ => self.0,
        }
    }
}

impl<'de> Deserialize<'de> for EntityName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Parts { path: String, name: Name },
        }
        let path = match Form::deserialize(deserializer)? {
            Form::Text(text) => text,
            Form::Parts { path, name } => format!("{}/{name}", path.trim_end_matches('/')),
        };
        path.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

/// Parses the body of a package.
pub fn package_body(bytes: &[u8]) -> Result<PackageBody, String> {
    object(bytes)
}

/// Parses the body of a trigger.
pub fn trigger_body(bytes: &[u8]) -> Result<TriggerBody, String> {
    object(bytes)
}

/// Parses the body of a rule.
pub fn rule_body(bytes: &[u8]) -> Result<RuleBody, String> {
    object(bytes)
}

/// Parses `{"status": "active" | "inactive"}`.
pub fn rule_status(bytes: &[u8]) -> Result<RuleStatus, String> {
    #[derive(Deserialize)]
    struct Body {
        status: String,
    }
    object::<Body>(bytes)?.status.parse().map_err(|error: flint_model::RuleStatusError| error.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn bytes(body: &Value) -> Vec<u8> {
        serde_json::to_vec(body).unwrap()
    }

    #[test]
    fn what_clients_send_is_read() {
        let own = "guest".parse().unwrap();
        let body = json!({"namespace": "_", "name": "r", "status": "", "trigger": "/_/t", "action": {"path": "ns/p", "name": "a"}});
        let rule = rule_body(&bytes(&body)).unwrap();
        assert_eq!(rule.trigger.unwrap().resolve(&own).to_string(), "guest/t");
        assert_eq!(rule.action.unwrap().resolve(&own).to_string(), "ns/p/a");
        let body = json!({"status": "", "trigger": null, "action": null});
        let rule = rule_body(&bytes(&body)).unwrap();
        assert!(rule.trigger.is_none() && rule.action.is_none());
        for (body, expected) in [
            (json!({"binding": {}}), false),
            (json!({"binding": null}), false),
            (json!({}), false),
            (json!({"binding": {"namespace": "_", "name": "p"}}), true),
        ] {
            assert_eq!(package_body(&bytes(&body)).unwrap().binding.is_some(), expected, "{body}");
        }
        assert_eq!(rule_status(br#"{"status":"inactive"}"#), Ok(RuleStatus::Inactive));
    }

    #[test]
    fn names_need_their_namespace_and_statuses_are_two() {
        for name in [
            json!("t"),
            json!("/t"),
            json!(""),
            json!("/a/b/c/d"),
            json!(7),
            json!({"name": "t"}),
            json!({"path": "", "name": "t"}),
        ] {
            let body = json!({"trigger": name, "action": "/_/a"});
            assert!(rule_body(&bytes(&body)).is_err(), "{body}");
        }
        let text = rule_body(br#"{"trigger": "t"}"#).unwrap_err();
        assert!(text.starts_with("The fully qualified name of the entity must contain at least"), "{text}");
        for body in
            [json!({}), json!({"status": ""}), json!({"status": null}), json!({"status": "on"}), json!([])]
        {
            assert!(rule_status(&bytes(&body)).is_err(), "{body}");
        }
        for body in
            [json!({"binding": {"name": "p"}}), json!({"binding": "/_/p"}), json!({"parameters": {"a": 1}})]
        {
            assert!(package_body(&bytes(&body)).is_err(), "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_body_panics(bytes: Vec<u8>, text in ".*") {
            let _ = (package_body(&bytes), trigger_body(&bytes), rule_status(&bytes));
            let _ = rule_body(json!({"trigger": text}).to_string().as_bytes());
        }
    }
}
