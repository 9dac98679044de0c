//! The description of the API: Swagger 2.0 for programs, as in OpenWhisk, and a self-contained page for
//! people.

mod operations;
mod page;

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use operations::{OPERATIONS, Operation, PATH, QUERY, Shape};

/// JSON schemas of bodies, by name.
const DEFINITIONS: &str = include_str!("definitions.json");

/// The description as Swagger 2.0.
pub(crate) fn document() -> Bytes {
    static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| swagger().to_string().into());
    DOCUMENT.clone()
}

/// The description as a page.
pub(crate) fn page() -> Bytes {
    static PAGE: LazyLock<Bytes> = LazyLock::new(|| page::html(&swagger()).into());
    PAGE.clone()
}

fn swagger() -> Value {
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = described(operation);
    }
    let mut tags: Vec<&str> = OPERATIONS.iter().map(|operation| operation.tag).collect();
    tags.dedup();
    json!({
        "swagger": "2.0",
        "info": {
            "title": "OpenWhisk REST API",
            "description": "The OpenWhisk API as Flint serves it. Flint's own API is described at /v1/openapi.json.",
            "version": "1.0.0",
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "basePath": "/api/v1",
        "consumes": ["application/json"],
        "produces": ["application/json"],
        "securityDefinitions": {"basic": {"type": "basic", "description": "The key of a namespace, UUID:SECRET"}},
        "security": [{"basic": []}],
        "tags": tags.iter().map(|tag| json!({"name": tag})).collect::<Vec<_>>(),
        "paths": paths,
        "definitions": serde_json::from_str::<Value>(DEFINITIONS).unwrap_or_default(),
    })
}

fn described(operation: &Operation) -> Value {
    let in_path = PATH
        .iter()
        .filter(|(name, _)| operation.path.contains(&format!("{{{name}}}")))
        .map(|(name, text)| json!({"name": name, "in": "path", "required": true, "type": "string", "description": text}));
    let in_query = QUERY
        .iter()
        .filter(|(name, ..)| operation.query.contains(name))
        .map(|(name, kind, text)| json!({"name": name, "in": "query", "type": kind, "description": text}));
    let body = operation.body.map(|name| {
        json!({"name": "body", "in": "body", "required": operation.method == "put", "schema": reference(name)})
    });
    let mut answers = Map::new();
    for (status, text, shape) in operation.answers {
        let mut answer = json!({"description": text});
        if let Some(shape) = shape {
            answer["schema"] = match shape {
                Shape::One(name) => reference(name),
                Shape::Many(name) => json!({"type": "array", "items": reference(name)}),
            };
        }
        answers.insert(status.to_string(), answer);
    }
    answers.insert("default".to_owned(), json!({"description": "Refused", "schema": reference("Error")}));
    let mut described = json!({
        "tags": [operation.tag],
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": in_path.chain(in_query).chain(body).collect::<Vec<_>>(),
        "responses": answers,
    });
    if operation.path.starts_with("/web/") {
        described["security"] = json!([{}, {"basic": []}]);
    }
    described
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/definitions/{name}")})
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::parse::{Method, Route, route};

    /// All references in `value`.
    fn references(value: &Value) -> Vec<&str> {
        match value {
            Value::Object(fields) => fields
                .iter()
                .flat_map(|(key, value)| match (key.as_str(), value) {
                    ("$ref", Value::String(name)) => vec![name.as_str()],
                    _ => references(value),
                })
                .collect(),
            Value::Array(items) => items.iter().flat_map(references).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn every_operation_is_one_that_the_api_has_and_none_is_described_twice() {
        let (mut seen, mut ids) = (HashSet::new(), HashSet::new());
        for operation in OPERATIONS {
            assert!(
                seen.insert((operation.method, operation.path)),
                "{} {}",
                operation.method,
                operation.path
            );
            assert!(ids.insert(operation.id), "{}", operation.id);
            let path = format!("/api/v1{}", operation.path.replace(['{', '}'], ""));
            let method = http::Method::from_bytes(operation.method.to_uppercase().as_bytes()).unwrap();
            let found = route(Method::from(&method), &path);
            assert!(
                found.as_ref().is_ok_and(|route| *route != Route::Preflight || path.contains("/web/")),
                "{path}: {found:?}"
            );
            let named = operation.path.matches('{').count();
            let known =
                PATH.iter().filter(|(name, _)| operation.path.contains(&format!("{{{name}}}"))).count();
            assert_eq!(named, known, "{path}: a part of it that is not described");
            for name in operation.query {
                assert!(QUERY.iter().any(|(known, ..)| known == name), "{path}: {name}");
            }
        }
    }

    #[test]
    fn every_method_of_every_path_is_described() {
        let paths: HashSet<&str> = OPERATIONS.iter().map(|operation| operation.path).collect();
        for path in paths {
            for method in ["get", "put", "post", "delete"] {
                let full = format!("/api/v1{}", path.replace(['{', '}'], ""));
                let asked = http::Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
                let described =
                    OPERATIONS.iter().any(|operation| (operation.method, operation.path) == (method, path));
                assert_eq!(route(Method::from(&asked), &full).is_ok(), described, "{method} {path}");
            }
        }
    }

    #[test]
    fn every_shape_that_is_named_is_there_and_every_one_there_is_named() {
        let document = swagger();
        let definitions = document["definitions"].as_object().unwrap();
        let named: HashSet<&str> = references(&document)
            .into_iter()
            .map(|reference| reference.strip_prefix("#/definitions/").unwrap())
            .collect();
        let there: HashSet<&str> = definitions.keys().map(String::as_str).collect();
        assert_eq!(named, there);
    }

    #[test]
    fn the_page_shows_every_operation_and_needs_nothing_from_elsewhere() {
        let page = page::html(&swagger());
        for operation in OPERATIONS {
            assert!(page.contains(&format!("id=\"{}\"", operation.id)), "{}", operation.id);
        }
        for outside in ["<script", "<link", "<img", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
