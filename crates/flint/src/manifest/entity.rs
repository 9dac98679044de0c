//! The entities that a manifest wants on the server: their facts, and how they are written.

use serde_json::{Map, Value, json};

use super::{
    facts::{DIGEST, Facts, Field, MANAGED, add_annotations, add_parameters, digest},
    inputs::pairs,
    model::{At, Dependency, Package, Rule, Sequence, Trigger},
    target::{Target, local},
};

/// Types of entities, in the order of their creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Package,
    Binding,
    Function,
    Sequence,
    Trigger,
    Rule,
    Api,
}

impl What {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::Binding => "binding",
            Self::Function => "function",
            Self::Sequence => "sequence",
            Self::Trigger => "trigger",
            Self::Rule => "rule",
            Self::Api => "api",
        }
    }
}

/// A desired entity.
#[derive(Debug)]
pub(crate) struct Entity {
    pub(crate) what: What,
    /// `[package/]name`; for an API's operation `method base-path path`.
    pub(crate) name: String,
    pub(crate) at: At,
    pub(crate) facts: Facts,
    /// Without those that Flint adds.
    pub(crate) annotations: Map<String, Value>,
    /// Of the parts that the server does not return.
    pub(crate) digest: Option<String>,
    pub(crate) write: Write,
}

/// How an entity is written.
#[derive(Debug)]
pub(crate) enum Write {
    /// The body of a PUT without annotations.
    Put(Map<String, Value>),
    Function(Box<crate::package::Package>),
    Trigger {
        body: Map<String, Value>,
        feed: Option<Feed>,
    },
    Operation(Box<Operation>),
    /// A whole API.
    Document(Value),
}

/// The feed of a trigger.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Feed {
    /// Its action, `/namespace/package/name`.
    pub(crate) action: String,
    pub(crate) inputs: Map<String, Value>,
}

/// An API's path and method, and its action.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Operation {
    pub(crate) api: String,
    pub(crate) base_path: String,
    pub(crate) path: String,
    pub(crate) method: String,
    pub(crate) action: Target,
    pub(crate) response: String,
    /// The value the action expects in `X-Require-Whisk-Auth`.
    pub(crate) secret: Option<Value>,
}

impl Entity {
    /// Notes the project that creates it, if known.
    pub(crate) fn of_project(mut self, project: Option<&str>) -> Self {
        if let Some(project) = project {
            self.facts.insert(Field::Own("project"), project.into());
        }
        self
    }

    /// Its annotations as written: with the digest and the project.
    pub(crate) fn written_annotations(&self, managed: Option<&Value>) -> Map<String, Value> {
        let mut annotations = self.annotations.clone();
        if let Some(managed) = managed {
            annotations.insert(MANAGED.to_owned(), managed.clone());
        }
        if let Some(digest) = &self.digest {
            annotations.insert(DIGEST.to_owned(), digest.as_str().into());
        }
        annotations
    }

    fn new(what: What, name: String, at: &At, annotations: Map<String, Value>, write: Write) -> Self {
        let mut facts = Facts::new();
        add_annotations(&mut facts, &annotations);
        Self { what, name, at: at.clone(), facts, annotations, digest: None, write }
    }

    fn with(mut self, field: &'static str, value: impl Into<Value>) -> Self {
        self.facts.insert(Field::Own(field), value.into());
        self
    }

    fn with_parameters(mut self, parameters: &[(String, Value)]) -> Self {
        add_parameters(&mut self.facts, parameters.iter().map(|(key, value)| (key.as_str(), value, false)));
        self
    }

    fn with_digest(mut self, field: &'static str, of: &Value) -> Self {
        let digest = digest(of);
        self.facts.insert(Field::Digest(field), digest.as_str().into());
        self.digest = Some(digest);
        self
    }
}

/// An entity of which only the name matters.
pub(crate) fn named(what: What, name: String, at: &At) -> Entity {
    Entity::new(what, name, at, Map::new(), Write::Put(Map::new()))
}

pub(crate) fn package(name: &str, package: &Package) -> Entity {
    let parameters = pairs(&package.inputs);
    let body = object(json!({ "parameters": list(&parameters), "publish": package.shared }));
    Entity::new(What::Package, name.to_owned(), &package.at, package.annotations.clone(), Write::Put(body))
        .with("shared", package.shared)
        .with_parameters(&parameters)
}

/// `own`: the namespace.
pub(crate) fn binding(dependency: &Dependency, own: &str) -> Entity {
    let parameters = pairs(&dependency.inputs);
    let (namespace, name) = provider(dependency, own);
    let body = object(
        json!({ "parameters": list(&parameters), "binding": { "namespace": namespace, "name": name } }),
    );
    Entity::new(
        What::Binding,
        dependency.name.clone(),
        &dependency.at,
        dependency.annotations.clone(),
        Write::Put(body),
    )
    .with("stands for", format!("/{namespace}/{name}"))
    .with_parameters(&parameters)
}

/// Namespace and name of a binding's provider.
pub(crate) fn provider<'a>(dependency: &'a Dependency, own: &'a str) -> (&'a str, &'a str) {
    let (namespace, name) =
        dependency.provider.trim_start_matches('/').split_once('/').unwrap_or(("_", &dependency.provider));
    (if namespace == "_" { own } else { namespace }, name)
}

pub(crate) fn sequence(sequence: &Sequence, package: Option<&str>, components: &[Target]) -> Entity {
    let components: Vec<_> = components.iter().map(Target::to_string).collect();
    let body = object(json!({ "exec": { "kind": "sequence", "components": components } }));
    let name = local(package, &sequence.name);
    Entity::new(What::Sequence, name, &sequence.at, sequence.annotations.clone(), Write::Put(body))
        .with("kind", "sequence")
        .with("actions", components)
}

pub(crate) fn trigger(trigger: &Trigger, feed: Option<Target>) -> Entity {
    let given = pairs(&trigger.inputs);
    // A trigger with a feed passes its inputs to that.
    let (parameters, feed) = match feed {
        Some(action) => {
            (Vec::new(), Some(Feed { action: action.to_string(), inputs: given.into_iter().collect() }))
        }
        None => (given, None),
    };
    let body = object(json!({ "parameters": list(&parameters) }));
    let write = Write::Trigger { body, feed: feed.clone() };
    let entity =
        Entity::new(What::Trigger, trigger.name.clone(), &trigger.at, trigger.annotations.clone(), write)
            .with_parameters(&parameters);
    match feed {
        Some(Feed { action, inputs }) => {
            entity.with("feed", action).with_digest("inputs of its feed", &inputs.into())
        }
        None => entity,
    }
}

/// `own`: the namespace.
pub(crate) fn rule(rule: &Rule, trigger: &str, action: &Target, own: &str) -> Entity {
    let trigger = format!("/{own}/{trigger}");
    let body = object(json!({ "trigger": trigger, "action": action.to_string() }));
    Entity::new(What::Rule, rule.name.clone(), &rule.at, rule.annotations.clone(), Write::Put(body))
        .with("trigger", trigger)
        .with("action", action.to_string())
        .with("status", "active")
}

pub(crate) fn operation(at: &At, operation: Operation) -> Entity {
    let name = operation_name(&operation.method, &operation.base_path, &operation.path);
    let (action, response) = (operation.action.to_string(), operation.response.clone());
    let secret = operation.secret.clone();
    let entity = Entity::new(What::Api, name, at, Map::new(), Write::Operation(Box::new(operation)))
        .with("action", action)
        .with("response", response);
    match secret {
        Some(secret) => entity.with_digest("secret", &secret),
        None => entity,
    }
}

/// A Swagger document, which defines the whole API of its base path.
pub(crate) fn document(at: &At, base_path: &str, document: Value) -> Entity {
    let name = format!("{DOCUMENT} {base_path}");
    Entity::new(What::Api, name, at, Map::new(), Write::Document(document.clone()))
        .with_digest("document", &document)
}

/// Replaces the method in the name of a whole API.
pub(crate) const DOCUMENT: &str = "document";

/// The arguments of `flint api delete`, in another order.
pub(crate) fn operation_name(method: &str, base_path: &str, path: &str) -> String {
    format!("{method} {base_path} {path}")
}

/// `[{"key": …, "value": …}]`
pub(crate) fn list(pairs: &[(String, Value)]) -> Value {
    pairs.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect()
}

/// A value known to be an object.
fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
