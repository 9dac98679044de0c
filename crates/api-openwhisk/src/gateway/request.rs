//! Parses the body of a request that creates an API.

use flint_controller::PutApi;
use flint_model::{EntityName, FunctionPath, NameError, NamespaceName, Operation};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::parse::{object, percent_decode};

/// The requested creation.
#[derive(Clone, Debug)]
pub enum CreateApi {
    /// One operation of an API.
    Operation {
        /// The base path of the API.
        base_path: String,
        /// The title, if the API is new.
        title: Option<String>,
        /// The operation.
        operation: Box<Operation>,
    },
    /// A whole API.
    Api(Box<PutApi>),
}

#[derive(Deserialize)]
struct Body {
    apidoc: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiDoc {
    namespace: Option<String>,
    gateway_base_path: Option<String>,
    gateway_path: Option<String>,
    gateway_method: Option<String>,
    api_name: Option<String>,
    path_parameters: Option<Value>,
    action: Option<Action>,
    swagger: Option<Value>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Action {
    name: Option<String>,
    namespace: Option<String>,
    secure_key: Option<Value>,
}

/// The response format if the client asks for none.
const USUAL_EXTENSION: &str = "json";

/// The Swagger extension of an operation that names its action.
const TARGET: &str = "x-openwhisk";

/// The members of a Swagger path that are methods.
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "patch", "head", "options"];

/// Parses a body. `_` as a namespace stands for `own`; `response_type` is the extension requested by the
/// query. The error is a text for people.
pub fn create_api(
    body: &[u8],
    own: &NamespaceName,
    response_type: Option<&str>,
) -> Result<CreateApi, String> {
    let body: Body = object(body)?;
    let doc = unwrapped(body.apidoc.ok_or("apidoc is required.")?, "apidoc")?;
    let doc: ApiDoc = serde_json::from_value(doc).map_err(|error| format!("apidoc: {error}"))?;
    if doc.namespace.as_deref().is_some_and(|name| name != "_" && name != own.as_str()) {
        return Err("apidoc.namespace is not the namespace of the key.".to_owned());
    }
    match doc.swagger {
        Some(_) if doc.gateway_base_path.is_some() => {
            Err("swagger and gatewayBasePath are mutually exclusive and cannot be specified together."
                .to_owned())
        }
        Some(swagger) => imported(unwrapped(swagger, "swagger")?, own).map(Box::new).map(CreateApi::Api),
        None => operation(doc, own, response_type),
    }
}

fn operation(doc: ApiDoc, own: &NamespaceName, response_type: Option<&str>) -> Result<CreateApi, String> {
    fn required<T>(value: Option<T>, field: &str) -> Result<T, String> {
        value.ok_or_else(|| format!("apidoc is missing the {field} field"))
    }
    let base_path = required(doc.gateway_base_path, "gatewayBasePath")?;
    let path = required(doc.gateway_path, "gatewayPath")?;
    let method = required(doc.gateway_method, "gatewayMethod")?.to_ascii_lowercase();
    let action = required(doc.action, "action")?;
    let name = required(action.name, "action.name")?;
    let namespace = action.namespace.as_deref().unwrap_or("_");
    let mut document = Map::new();
    if let Some(parameters) = doc.path_parameters.filter(|value| !value.is_null()) {
        document.insert("parameters".to_owned(), parameters);
    }
    // Its extensions are kept, as for a Swagger document.
    document.extend(doc.more.into_iter().filter(|(key, _)| key.starts_with("x-") && key != TARGET));
    let secret = match action.secure_key {
        None | Some(Value::Null) => None,
        Some(Value::String(secret)) => Some(secret).filter(|secret| !secret.is_empty()),
        Some(Value::Number(number)) => Some(number.to_string()),
        Some(_) => return Err("action.secureKey is neither a text nor a number.".to_owned()),
    };
    let operation = Operation {
        path,
        method,
        action: action_path(namespace, None, &name, own)?,
        extension: extension(response_type.unwrap_or(USUAL_EXTENSION))?,
        secret,
        document,
    };
    let title = doc.api_name.filter(|name| !name.is_empty());
    Ok(CreateApi::Operation { base_path, title, operation: Box::new(operation) })
}

/// Parses a Swagger document.
fn imported(document: Value, own: &NamespaceName) -> Result<PutApi, String> {
    let Value::Object(mut document) = document else {
        return Err("swagger is not a JSON object.".to_owned());
    };
    let base_path = match document.remove("basePath") {
        Some(Value::String(path)) => path,
        _ => return Err("swagger is missing the basePath field.".to_owned()),
    };
    let Some(Value::Object(paths)) = document.remove("paths") else {
        return Err("swagger is missing the paths field.".to_owned());
    };
    let info = document.get("info").ok_or("swagger is missing the info field.")?;
    let title = info.get("title").and_then(Value::as_str).unwrap_or(&base_path).to_owned();
    let mut operations = Vec::new();
    for (path, members) in paths {
        let Value::Object(mut members) = members else { return Err(format!("{path} is not an object.")) };
        let common = members.remove("parameters");
        for (method, operation) in members {
            let method = method.to_ascii_lowercase();
            match operation {
                Value::Object(operation) if METHODS.contains(&method.as_str()) => {
                    operations.push(imported_operation(&path, method, operation, common.clone(), own)?);
                }
                _ if method.starts_with("x-") => {}
                _ => return Err(format!("{path}: '{method}' is not an operation.")),
            }
        }
    }
    Ok(PutApi { base_path, title, document, operations })
}

fn imported_operation(
    path: &str,
    method: String,
    mut document: Map<String, Value>,
    common: Option<Value>,
    own: &NamespaceName,
) -> Result<Operation, String> {
    #[derive(Deserialize)]
    struct Target {
        namespace: Option<String>,
        package: Option<String>,
        action: Option<String>,
        url: Option<String>,
    }
    let at = |what: &str| format!("{method} {path}: {what}");
    let target = document.remove(TARGET).ok_or_else(|| at("x-openwhisk is missing."))?;
    let target: Target =
        serde_json::from_value(target).map_err(|error| at(&format!("x-openwhisk: {error}")))?;
    let name = target.action.ok_or_else(|| at("x-openwhisk.action is missing."))?;
    let namespace = target.namespace.as_deref().unwrap_or("_");
    let action = action_path(namespace, target.package.as_deref(), &name, own).map_err(|error| at(&error))?;
    // The last segment of the URL ends with the extension.
    let last = target.url.as_deref().map(|url| url.split(['?', '$']).next().unwrap_or_default());
    let last = last.and_then(|url| url.rsplit('/').next()).unwrap_or_default();
    let decoded = percent_decode(last).unwrap_or_default();
    let suffix = decoded.strip_prefix(action.name.as_str()).and_then(|rest| rest.strip_prefix('.'));
    let extension = extension(suffix.unwrap_or("http")).map_err(|error| at(&error))?;
    if let Some(Value::Array(common)) = common {
        let own = document.entry("parameters").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(own) = own {
            own.extend(common);
        }
    }
    Ok(Operation { path: path.to_owned(), method, action, extension, secret: None, document })
}

/// JSON that may be encoded as a string.
fn unwrapped(value: Value, what: &str) -> Result<Value, String> {
    match value {
        Value::String(text) => serde_json::from_str(&text)
            .map_err(|error| format!("{what} field cannot be parsed. Ensure it is valid JSON: {error}")),
        value => Ok(value),
    }
}

/// An action's path; the name may contain its package, or be a whole path.
fn action_path(
    namespace: &str,
    package: Option<&str>,
    name: &str,
    own: &NamespaceName,
) -> Result<FunctionPath, String> {
    let read = || -> Result<FunctionPath, NameError> {
        let segments: Vec<&str> = name.trim_start_matches('/').split('/').collect();
        let (namespace, package, name) = match (name.starts_with('/'), segments.as_slice()) {
            (false, [name]) => (namespace, package, *name),
            (false, [package, name]) => (namespace, Some(*package), *name),
            (true, [namespace, name]) => (*namespace, package, *name),
            (_, [namespace, package, name]) => (*namespace, Some(*package), *name),
            _ => return Err(NameError::Path),
        };
        let package = package.filter(|package| !matches!(*package, "" | "default"));
        Ok(FunctionPath {
            namespace: if namespace == "_" { own.clone() } else { NamespaceName::parse(namespace)? },
            package: package.map(EntityName::parse).transpose()?,
            name: EntityName::parse(name)?,
        })
    };
    read().map_err(|error| format!("'{name}' is not an action: {error}"))
}

/// A web action's extension with its dot.
fn extension(name: &str) -> Result<String, String> {
    match name.to_ascii_lowercase().as_str() {
        name @ ("http" | "json" | "html" | "svg" | "text") => Ok(format!(".{name}")),
        _ => Err(format!("'{name}' is not a response type: it is one of http, json, html, svg, text")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(body: &Value, response_type: Option<&str>) -> Result<CreateApi, String> {
        create_api(&serde_json::to_vec(body).unwrap(), &"guest".parse().unwrap(), response_type)
    }

    fn one(body: &Value, response_type: Option<&str>) -> (String, Option<String>, Operation) {
        match read(body, response_type).unwrap() {
            CreateApi::Operation { base_path, title, operation } => (base_path, title, *operation),
            CreateApi::Api(api) => panic!("{api:?}"),
        }
    }

    fn doc() -> Value {
        json!({"apidoc": {
            "namespace": "_", "gatewayBasePath": "/hello", "gatewayPath": "/world/{id}", "gatewayMethod": "GET",
            "id": "API:_:/hello", "apiName": "Hello", "pathParameters": [{"name": "id", "in": "path"}],
            "action": {"name": "p/zz", "namespace": "_", "backendMethod": "GET", "secureKey": "s3cret",
                       "backendUrl": "http://h/api/v1/web/_/p/zz.http", "authkey": "uuid:key"}
        }})
    }

    #[test]
    fn an_operation_is_read_as_clients_write_it() {
        let (base_path, title, operation) = one(&doc(), None);
        assert_eq!((base_path.as_str(), title.as_deref()), ("/hello", Some("Hello")));
        assert_eq!((operation.path.as_str(), operation.method.as_str()), ("/world/{id}", "get"));
        assert_eq!(
            (operation.action.to_string().as_str(), operation.extension.as_str()),
            ("guest/p/zz", ".json")
        );
        assert_eq!(operation.secret.as_deref(), Some("s3cret"));
        assert_eq!(operation.document["parameters"][0]["name"], "id");
        assert!(!format!("{operation:?}").contains("uuid:key"), "the key is not kept");
        let mut extended = doc();
        extended["apidoc"]["x-mine"] = json!({"a": 1});
        extended["apidoc"]["x-openwhisk"] = json!("not who answers");
        let document = one(&extended, None).2.document;
        assert_eq!((document.get("x-mine"), document.get("x-openwhisk")), (Some(&json!({"a": 1})), None));
        assert_eq!(one(&doc(), Some("HTTP")).2.extension, ".http");
        let text = json!({"apidoc": doc()["apidoc"].to_string()});
        assert_eq!(one(&text, None).2, operation);
    }

    #[test]
    fn an_action_may_be_named_in_several_ways() {
        for (namespace, name, path) in [
            ("_", "f", "guest/f"),
            ("guest", "p/f", "guest/p/f"),
            ("other", "f", "other/f"),
            ("_", "/guest/f", "guest/f"),
            ("_", "/_/p/f", "guest/p/f"),
            ("_", "other/p/f", "other/p/f"),
            ("_", "default/f", "guest/f"),
        ] {
            let mut body = doc();
            body["apidoc"]["action"] = json!({"name": name, "namespace": namespace});
            assert_eq!(one(&body, None).2.action.to_string(), path, "{namespace} {name}");
        }
    }

    #[test]
    fn an_array_is_no_object() {
        let refused = read(&json!([doc()["apidoc"]]), None);
        assert_eq!(refused.unwrap_err(), "The body has to be a JSON object.");
    }

    #[test]
    fn what_is_missing_is_named() {
        for (field, text) in [
            ("gatewayBasePath", "apidoc is missing the gatewayBasePath field"),
            ("gatewayPath", "apidoc is missing the gatewayPath field"),
            ("gatewayMethod", "apidoc is missing the gatewayMethod field"),
            ("action", "apidoc is missing the action field"),
        ] {
            let mut body = doc();
            body["apidoc"].as_object_mut().unwrap().remove(field);
            assert_eq!(read(&body, None).unwrap_err(), text);
        }
        assert_eq!(read(&json!({}), None).unwrap_err(), "apidoc is required.");
        let mut both = doc();
        both["apidoc"]["swagger"] = json!("{}");
        for bad in
            [both, json!({"apidoc": "{"}), json!({"apidoc": {"namespace": "other"}}), json!({"apidoc": 7})]
        {
            assert!(read(&bad, None).is_err(), "{bad}");
        }
        assert!(read(&doc(), Some("xml")).is_err());
    }

    #[test]
    fn a_swagger_document_is_an_api() {
        let swagger = json!({
            "swagger": "2.0", "basePath": "/v1", "info": {"title": "Library", "version": "1"},
            "paths": {"/books/{id}": {
                "parameters": [{"name": "id", "in": "path"}],
                "get": {"operationId": "book", "responses": {}, "x-openwhisk": {
                    "namespace": "_", "package": "default", "action": "book.v2",
                    "url": "https://h/api/v1/web/guest/default/book.v2.json$(request.path)"}},
                "POST": {"x-openwhisk": {"namespace": "guest", "package": "p", "action": "f"}}
            }},
            "x-ibm-configuration": {"cors": {"enabled": true}}
        });
        for swagger in [swagger.clone(), json!(swagger.to_string())] {
            let body = json!({"apidoc": {"namespace": "_", "swagger": swagger}});
            let CreateApi::Api(api) = read(&body, None).unwrap() else { panic!("no API") };
            assert_eq!((api.base_path.as_str(), api.title.as_str()), ("/v1", "Library"));
            assert!(api.document.contains_key("x-ibm-configuration") && !api.document.contains_key("paths"));
            let [post, get] = api.operations.as_slice() else { panic!("{api:?}") };
            assert_eq!((get.action.to_string().as_str(), get.extension.as_str()), ("guest/book.v2", ".json"));
            assert_eq!(get.document["parameters"][0]["name"], "id");
            assert_eq!((post.action.to_string().as_str(), post.extension.as_str()), ("guest/p/f", ".http"));
        }
        for (field, text) in [
            ("basePath", "swagger is missing the basePath field."),
            ("paths", "swagger is missing the paths field."),
            ("info", "swagger is missing the info field."),
        ] {
            let mut swagger = swagger.clone();
            swagger.as_object_mut().unwrap().remove(field);
            let body = json!({"apidoc": {"namespace": "_", "swagger": swagger}});
            assert_eq!(read(&body, None).unwrap_err(), text);
        }
        let mut nobody = swagger;
        nobody["paths"] = json!({"/a": {"get": {}}});
        let body = json!({"apidoc": {"namespace": "_", "swagger": nobody}});
        assert_eq!(read(&body, None).unwrap_err(), "get /a: x-openwhisk is missing.");
    }

    proptest! {
        #[test]
        fn no_body_panics(body: Vec<u8>, text in "\\PC*") {
            let own = "guest".parse().unwrap();
            let _ = create_api(&body, &own, Some(&text));
            let _ = create_api(text.as_bytes(), &own, None);
            let swagger = json!({"apidoc": {"swagger": {"basePath": text, "info": {}, "paths": {&text: {"get": {"x-openwhisk": {"action": text, "url": text}}}}}}});
            let _ = read(&swagger, None);
        }
    }
}
