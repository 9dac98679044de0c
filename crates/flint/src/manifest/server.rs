//! The existing state of the server.

use std::collections::BTreeMap;

use flint_api_native::resource::FunctionResource;
use http::Method;
use serde_json::{Map, Value, json};

use super::{
    assemble::{Basics, To},
    entity::{DOCUMENT, What, operation_name},
    facts::{DIGEST, Facts, Field, add_annotations, add_parameters, keyed, project_of},
    function::{self, DefaultLimits},
    kinds::Kinds,
};
use crate::{
    client::{Client, segment},
    commands::api,
    failure::{Exit, Failure},
};

/// Page size of lists: the server's maximum.
const PAGE: usize = 200;

/// The existing entities, by collection and name.
#[derive(Debug, Default)]
pub(crate) struct There {
    pub(crate) packages: BTreeMap<String, Listed>,
    /// Functions and sequences as `[package/]name`.
    pub(crate) actions: BTreeMap<String, Listed>,
    pub(crate) triggers: BTreeMap<String, Listed>,
    pub(crate) rules: BTreeMap<String, Listed>,
    /// Operations as `method base-path path`, and each API as `document base-path`.
    pub(crate) apis: BTreeMap<String, Existing>,
}

/// An entity in a list.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) what: What,
    pub(crate) annotations: Map<String, Value>,
}

/// An entity with its comparable properties.
#[derive(Clone, Debug, Default)]
pub(crate) struct Existing {
    pub(crate) facts: Facts,
    pub(crate) annotations: Map<String, Value>,
}

impl Existing {
    /// The project that created it.
    pub(crate) fn project(&self) -> Option<&str> {
        project_of(&self.annotations)
    }

    fn new(mut facts: Facts, annotations: Map<String, Value>) -> Self {
        add_annotations(&mut facts, &annotations);
        if let Some(project) = project_of(&annotations) {
            facts.insert(Field::Own("project"), project.into());
        }
        Self { facts, annotations }
    }
}

/// Facts that are needed before anything else.
pub(crate) async fn basics(client: &Client) -> Result<Basics, Failure> {
    let namespaces = client.entity(Method::GET, "", None).await?;
    let namespace = namespaces[0].as_str().ok_or_else(|| unexpected("it names no namespace"))?.to_owned();
    let root: Value = client.get("/").await?;
    let limit =
        |name: &str| root["limits"][name].as_u64().ok_or_else(|| unexpected(&format!("it names no {name}")));
    let defaults = DefaultLimits {
        timeout_ms: limit("default_max_action_duration")?,
        memory_mb: limit("default_max_action_memory")? >> 20,
        logs_mb: limit("default_max_action_logs")? >> 20,
    };
    Ok(Basics { namespace, kinds: Kinds::of(&root["runtimes"]), defaults })
}

/// Whether a package exists but is too large to be shown with its actions.
fn is_too_long(failure: &Failure, what: What) -> bool {
    matches!(what, What::Package | What::Binding) && failure.code == "invalid"
}

fn unexpected(what: &str) -> Failure {
    Failure::new(
        Exit::Refused,
        "unexpected_answer",
        format!("the server's answer is not what this version of flint expects: {what}"),
    )
    .hint("use the same version of flint on both sides (`flint --version`)")
}

impl There {
    /// Reads the lists of all entities in the namespace.
    pub(crate) async fn read(client: &Client, namespace: &str) -> Result<Self, Failure> {
        let mut there = Self::default();
        for (collection, into) in [
            ("packages", &mut there.packages),
            ("triggers", &mut there.triggers),
            ("rules", &mut there.rules),
        ] {
            for one in list(client, collection).await? {
                let what = match collection {
                    "packages" if one["binding"].is_object() => What::Binding,
                    "packages" => What::Package,
                    "triggers" => What::Trigger,
                    _ => What::Rule,
                };
                into.insert(text(&one["name"]), Listed { what, annotations: keyed(&one["annotations"]) });
            }
        }
        for one in list(client, "actions").await? {
            let annotations = keyed(&one["annotations"]);
            let what = if annotations.get("exec") == Some(&json!("sequence")) {
                What::Sequence
            } else {
                What::Function
            };
            let (owner, name) = (text(&one["namespace"]), text(&one["name"]));
            let name = match owner.split_once('/') {
                Some((_, package)) => format!("{package}/{name}"),
                None => name,
            };
            there.actions.insert(name, Listed { what, annotations });
        }
        for document in api::documents(client).await? {
            add_api(&mut there.apis, &document, namespace);
        }
        Ok(there)
    }

    fn of(&self, what: What) -> &BTreeMap<String, Listed> {
        match what {
            What::Package | What::Binding => &self.packages,
            What::Function | What::Sequence => &self.actions,
            What::Trigger => &self.triggers,
            What::Rule | What::Api => &self.rules,
        }
    }

    /// The type of the entity with this name; it may be the other type that shares the names.
    pub(crate) fn find(&self, what: What, name: &str) -> Option<What> {
        match what {
            What::Api => self.apis.contains_key(name).then_some(What::Api),
            _ => self.of(what).get(name).map(|listed| listed.what),
        }
    }

    /// The type of an entity of another collection with this name, which prevents one of this type.
    pub(crate) fn other(&self, what: What, name: &str) -> Option<What> {
        if what == What::Api || self.of(what).contains_key(name) {
            return None;
        }
        let all = [&self.packages, &self.actions, &self.triggers, &self.rules];
        all.into_iter().find_map(|of_its_type| of_its_type.get(name)).map(|listed| listed.what)
    }

    /// A complete entity; `None` if it is gone.
    pub(crate) async fn details(
        &self,
        client: &Client,
        what: What,
        name: &str,
        wanted: &Facts,
    ) -> Result<Option<Existing>, Failure> {
        let existing = match what {
            What::Api => return Ok(self.apis.get(name).cloned()),
            What::Function => read_function(client, name).await,
            What::Binding => read_binding(client, name, wanted).await,
            _ => client
                .entity(Method::GET, &path(what, name, "?code=false"), None)
                .await
                .map(|entity| existing(what, &entity)),
        };
        match existing {
            Ok(existing) => Ok(Some(existing)),
            Err(failure) if failure.code == "not_found" => Ok(None),
            // A package is shown with its actions, which may be too large for one response: its properties
            // are then unknown, and it is written.
            Err(failure) if is_too_long(&failure, what) => {
                let annotations = self.of(what).get(name).map(|listed| listed.annotations.clone());
                Ok(Some(Existing::new(Facts::new(), annotations.unwrap_or_default())))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Checks that a reference of the manifest exists; the error says what to do.
    pub(crate) async fn check(&self, client: &Client, namespace: &str, to: &To) -> Result<(), Failure> {
        let missing = |what: String| {
            Failure::usage(format!("there is no {what}, neither in the manifest nor on the server"))
        };
        let asked = match to {
            To::Package { namespace: owner, name } => {
                let path = format!("{}/packages/{}", segment(owner), segment(name));
                match client.entity(Method::GET, &path, None).await {
                    Err(failure) if is_too_long(&failure, What::Package) => return Ok(()),
                    other => other.map_err(|failure| (failure, format!("package /{owner}/{name}"))),
                }
            }
            To::Trigger(name) => {
                return match self.triggers.contains_key(name) {
                    true => Ok(()),
                    false => Err(missing(format!("trigger '{name}'"))),
                };
            }
            To::Action { target, .. } => {
                let package = target
                    .package
                    .as_deref()
                    .map(|package| format!("{}/", segment(package)))
                    .unwrap_or_default();
                let owner =
                    if target.namespace == namespace { "_".to_owned() } else { segment(&target.namespace) };
                let path = format!("{owner}/actions/{package}{}?code=false", segment(&target.name));
                client
                    .entity(Method::GET, &path, None)
                    .await
                    .map_err(|failure| (failure, format!("action {target}")))
            }
        };
        match (asked, to) {
            (Ok(found), To::Action { target, web: true })
                if keyed(&found["annotations"]).get("web-export") != Some(&Value::Bool(true)) =>
            {
                Err(Failure::usage(format!("{target} is no web action, and an API needs one"))
                    .hint("deploy it with the annotation web-export: true"))
            }
            (Ok(_), _) => Ok(()),
            // The server does not distinguish a forbidden entity from a missing one.
            (Err((failure, what)), _) if matches!(failure.code.as_str(), "not_found" | "forbidden") => {
                Err(missing(what))
            }
            (Err((failure, _)), _) => Err(failure),
        }
    }
}

/// All entities of a collection.
async fn list(client: &Client, collection: &str) -> Result<Vec<Value>, Failure> {
    in_pages(move |limit, skip| async move {
        let path = format!("_/{collection}?limit={limit}&skip={skip}");
        match client.entity(Method::GET, &path, None).await? {
            Value::Array(page) => Ok(page),
            _ => Err(unexpected(&format!("its list of {collection} is none"))),
        }
    })
    .await
}

/// Collects the pages of `ask(limit, skip)`, halving the page size when one is too large.
async fn in_pages<F>(ask: impl Fn(usize, usize) -> F) -> Result<Vec<Value>, Failure>
where
    F: Future<Output = Result<Vec<Value>, Failure>>,
{
    let (mut all, mut limit) = (Vec::new(), PAGE);
    loop {
        match ask(limit, all.len()).await {
            Ok(page) => {
                let last = page.len() < limit;
                all.extend(page);
                if last {
                    return Ok(all);
                }
            }
            Err(failure) if failure.code == "invalid" && limit > 1 => limit /= 2,
            Err(failure) => return Err(failure),
        }
    }
}

async fn read_function(client: &Client, name: &str) -> Result<Existing, Failure> {
    let function: FunctionResource = client.get(&format!("/v1/functions/{}", segment(name))).await?;
    let (facts, annotations) = function::there(&function);
    Ok(Existing::new(facts, annotations))
}

/// A binding is shown with its provider's parameters; they do not count as its own unless the manifest wants
/// them.
async fn read_binding(client: &Client, name: &str, wanted: &Facts) -> Result<Existing, Failure> {
    let shown = client.entity(Method::GET, &path(What::Binding, name, ""), None).await?;
    let provider = &shown["binding"];
    let place =
        format!("{}/packages/{}", segment(&text(&provider["namespace"])), segment(&text(&provider["name"])));
    let mut binding = existing(What::Binding, &shown);
    // A provider that is gone, or no longer shared, adds nothing.
    if let Ok(provider) = client.entity(Method::GET, &place, None).await {
        let inherited = existing(What::Package, &provider).facts;
        binding.facts.retain(|field, value| {
            let is_inherited = matches!(field, Field::Parameter(_)) && inherited.get(field) == Some(value);
            !is_inherited || wanted.contains_key(field)
        });
    }
    Ok(binding)
}

/// The path of an entity in the OpenWhisk API.
pub(crate) fn path(what: What, name: &str, query: &str) -> String {
    let collection = match what {
        What::Package | What::Binding => "packages",
        What::Function | What::Sequence => "actions",
        What::Trigger => "triggers",
        What::Rule | What::Api => "rules",
    };
    let name: Vec<_> = name.split('/').map(segment).collect();
    format!("_/{collection}/{}{query}", name.join("/"))
}

/// The comparable properties of an entity in the OpenWhisk API's form.
pub(crate) fn existing(what: What, entity: &Value) -> Existing {
    let (mut facts, annotations) = (Facts::new(), keyed(&entity["annotations"]));
    let mut own = |field, value: Value| drop(facts.insert(Field::Own(field), value));
    let named = |value: &Value, owner: &str| format!("/{}/{}", text(&value[owner]), text(&value["name"]));
    let mut parameters = entity["parameters"].as_array().cloned().unwrap_or_default();
    match what {
        What::Package => own("shared", (entity["publish"] == true).into()),
        What::Binding => own("stands for", named(&entity["binding"], "namespace").into()),
        What::Sequence => {
            own("kind", "sequence".into());
            own("actions", entity["exec"]["components"].clone());
            parameters.clear();
        }
        What::Trigger => {
            if let Some(feed) = annotations.get("feed") {
                own("feed", feed.clone());
            }
        }
        What::Rule => {
            own("trigger", named(&entity["trigger"], "path").into());
            own("action", named(&entity["action"], "path").into());
            own("status", entity["status"].clone());
        }
        What::Function | What::Api => {}
    }
    if let (What::Trigger, Some(digest)) = (what, annotations.get(DIGEST)) {
        facts.insert(Field::Digest("inputs of its feed"), digest.clone());
    }
    let parameter = |one: &Value| (text(&one["key"]), one["value"].clone(), one["init"] == true);
    let parameters: Vec<_> = parameters.iter().map(parameter).collect();
    add_parameters(&mut facts, parameters.iter().map(|(key, value, init)| (key.as_str(), value, *init)));
    Existing::new(facts, annotations)
}

/// Adds an API as a whole, and its operations. `namespace` is one's own.
fn add_api(apis: &mut BTreeMap<String, Existing>, document: &Map<String, Value>, namespace: &str) {
    let noted = |owner: &Map<String, Value>, field: &'static str, mut facts: Facts| {
        let annotations: Map<_, _> = [("x-whisk-managed", "whisk-managed"), ("x-flint-digest", DIGEST)]
            .into_iter()
            .filter_map(|(extension, name)| Some((name.to_owned(), owner.get(extension)?.clone())))
            .collect();
        if let Some(digest) = annotations.get(DIGEST) {
            facts.insert(Field::Digest(field), digest.clone());
        }
        Existing::new(facts, annotations)
    };
    let base_path = document.get("basePath").map(text).unwrap_or_default();
    apis.insert(format!("{DOCUMENT} {base_path}"), noted(document, "document", Facts::new()));
    for (path, methods) in document.get("paths").and_then(Value::as_object).into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let (Some(operation), target) = (operation.as_object(), &operation["x-openwhisk"]) else {
                continue;
            };
            let package = match text(&target["package"]) {
                package if package == "default" || package.is_empty() => String::new(),
                package => format!("{package}/"),
            };
            let owner = match text(&target["namespace"]) {
                owner if owner == "_" => namespace.to_owned(),
                owner => owner,
            };
            let url = text(&target["url"]);
            let response =
                url.rsplit_once('.').map(|(_, extension)| extension.to_owned()).unwrap_or_default();
            let action = format!("/{owner}/{package}{}", text(&target["action"]));
            let facts =
                [(Field::Own("action"), action.into()), (Field::Own("response"), response.into())].into();
            apis.insert(operation_name(method, &base_path, path), noted(operation, "secret", facts));
        }
    }
}

/// A string's text; empty for anything else.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[tokio::test]
    async fn what_is_too_long_for_one_answer_is_asked_for_in_parts() {
        let refused = || Failure::new(Exit::Refused, "invalid", "The requested list is larger than allowed");
        for (count, most) in [(450, PAGE), (450, 30), (400, PAGE), (3, 1), (0, PAGE)] {
            let there: Vec<_> = (0..count).map(Value::from).collect();
            let ask = |limit, skip| {
                let page: Vec<_> = there.iter().skip(skip).take(limit).cloned().collect();
                ready(if page.len() > most { Err(refused()) } else { Ok(page) })
            };
            assert_eq!(in_pages(ask).await.unwrap(), there, "{count} of which {most} fit");
        }
        let failure = in_pages(|_, _| ready(Err(refused()))).await.unwrap_err();
        assert_eq!(failure.code, "invalid", "it ends");
    }
}
