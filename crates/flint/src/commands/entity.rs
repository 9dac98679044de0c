//! Code shared by `flint package`, `flint trigger` and `flint rule`.

use http::Method;
use serde_json::{Map, Value, json};

use crate::{
    cli::{EntityOptions, Global, ListOptions},
    client::{Client, NOT_THERE, segment},
    failure::{Exit, Failure},
    output::{print_json, print_line, table},
};

/// Parses `NAME` or `/NAMESPACE/NAME` to a namespace, `_` for one's own, and a name.
pub(crate) fn whole(name: &str) -> Result<(&str, &str), Failure> {
    let wrong = || Failure::usage(format!("'{name}' is not a name: write NAME or /NAMESPACE/NAME"));
    match name.strip_prefix('/') {
        None if !name.is_empty() && !name.contains('/') => Ok(("_", name)),
        None => Err(wrong()),
        Some(rest) => {
            rest.split_once('/').filter(|(_, name)| !name.is_empty() && !name.contains('/')).ok_or_else(wrong)
        }
    }
}

/// The path of an entity.
pub(crate) fn place(collection: &str, name: &str) -> Result<String, Failure> {
    let (namespace, name) = whole(name)?;
    Ok(format!("{}/{collection}/{}", segment(namespace), segment(name)))
}

/// Requests one entity; the error names it if it is missing.
pub(crate) async fn ask(
    client: &Client,
    method: Method,
    collection: &str,
    name: &str,
    query: &str,
    body: Option<&Value>,
) -> Result<Value, Failure> {
    let path = format!("{}{query}", place(collection, name)?);
    client.entity(method, &path, body).await.map_err(|failure| match failure.message.starts_with(NOT_THERE) {
        true => {
            let what = collection.trim_end_matches('s');
            Failure { message: format!("there is no {what} '{name}'"), ..failure }
                .hint(format!("`flint {what} list` shows what is there"))
        }
        false => failure,
    })
}

/// `[{"key": …, "value": …}, …]`
pub(crate) fn pairs(list: &[(String, Value)]) -> Value {
    list.iter().map(|(key, value)| json!({"key": key, "value": value})).collect()
}

/// The body of a PUT, without options that were not given.
pub(crate) fn body(options: &EntityOptions) -> Map<String, Value> {
    let mut body = Map::new();
    for (field, list) in [("parameters", &options.params), ("annotations", &options.annotations)] {
        if !list.is_empty() {
            body.insert(field.to_owned(), pairs(list));
        }
    }
    body
}

/// Creates or changes an entity, and reports it.
pub(crate) async fn put(
    global: &Global,
    collection: &str,
    name: &str,
    body: Value,
    update: bool,
) -> anyhow::Result<Exit> {
    let path = format!("{}?overwrite={update}", place(collection, name)?);
    let written = Client::new(global)?.entity(Method::PUT, &path, Some(&body)).await?;
    let done = if written["version"] == "0.0.1" { "created" } else { "updated" };
    let text = format!("{done} {} {}", shown(&written["name"]), shown(&written["version"]));
    said(global, &written, &text)
}

/// Shows an entity: its JSON, or `lines` and the common properties.
pub(crate) async fn get(
    global: &Global,
    collection: &str,
    name: &str,
    lines: impl Fn(&Value) -> Vec<(String, String)>,
) -> anyhow::Result<Exit> {
    let entity = ask(&Client::new(global)?, Method::GET, collection, name, "", None).await?;
    show(global, &entity, lines)
}

/// The same for an entity already read.
pub(crate) fn show(
    global: &Global,
    entity: &Value,
    lines: impl Fn(&Value) -> Vec<(String, String)>,
) -> anyhow::Result<Exit> {
    if global.json {
        print_json(entity)?;
        return Ok(Exit::Ok);
    }
    let mut rows = vec![
        ("name".to_owned(), format!("/{}/{}", shown(&entity["namespace"]), shown(&entity["name"]))),
        ("version".to_owned(), shown(&entity["version"])),
    ];
    rows.extend(lines(entity));
    for (field, title) in [("parameters", "argument"), ("annotations", "annotation")] {
        for pair in entity[field].as_array().into_iter().flatten() {
            rows.push((title.to_owned(), format!("{} = {}", shown(&pair["key"]), pair["value"])));
        }
    }
    let width = rows.iter().map(|(title, _)| title.len()).max().unwrap_or(0);
    rows.iter().try_for_each(|(title, value)| print_line(&format!("{title:width$}  {value}")))?;
    Ok(Exit::Ok)
}

/// Lists a collection.
pub(crate) async fn list(
    global: &Global,
    place: &str,
    page: &ListOptions,
    columns: &[&str],
    row: impl Fn(&Value) -> Vec<String>,
) -> anyhow::Result<Exit> {
    let path = format!("{place}?limit={}&skip={}", page.limit, page.skip);
    let listed = Client::new(global)?.entity(Method::GET, &path, None).await?;
    if global.json {
        print_json(&listed)?;
        return Ok(Exit::Ok);
    }
    let rows: Vec<_> = listed.as_array().into_iter().flatten().map(row).collect();
    match rows.is_empty() {
        true => print_line("none")?,
        false => print_line(&table(columns, &[], rows))?,
    }
    Ok(Exit::Ok)
}

/// Deletes an entity, and reports it.
pub(crate) async fn delete(
    global: &Global,
    collection: &str,
    name: &str,
    query: &str,
) -> anyhow::Result<Exit> {
    let deleted = ask(&Client::new(global)?, Method::DELETE, collection, name, query, None).await?;
    said(global, &deleted, &format!("deleted {}", shown(&deleted["name"])))
}

/// Reports what was done.
pub(crate) fn said(global: &Global, value: &Value, text: &str) -> anyhow::Result<Exit> {
    if global.json {
        print_json(value)?
    } else {
        print_line(text)?
    }
    Ok(Exit::Ok)
}

/// A value as text: strings without quotes.
pub(crate) fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `/path/name` from the API's `{"path": …, "name": …}` or `{"namespace": …, "name": …}`.
pub(crate) fn named(value: &Value) -> String {
    let owner = if value["path"].is_null() { &value["namespace"] } else { &value["path"] };
    format!("/{}/{}", shown(owner), shown(&value["name"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ones_own_or_whole() {
        assert_eq!(place("rules", "a b").ok().as_deref(), Some("_/rules/a%20b"));
        assert_eq!(place("packages", "/ns/p").ok().as_deref(), Some("ns/packages/p"));
        for bad in ["", "/", "/ns", "/ns/", "a/b", "/a/b/c"] {
            assert!(whole(bad).is_err(), "{bad}");
        }
    }
}
