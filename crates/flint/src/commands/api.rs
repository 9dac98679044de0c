//! `flint api`: the API gateway, managed like OpenWhisk's clients do.

use std::{fs, io};

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::call::read_within;
use crate::{
    cli::{ApiArgs, ApiCommand, ApiCreateArgs, Global},
    client::{Client, parsed, segment},
    failure::{Exit, Failure},
    output::{print_json, print_line, table},
};

/// The path of the server's API management.
pub(crate) const MANAGEMENT: &str = "/api/v1/web/whisk.system/apimgmt";

/// Page size of lists: the server's maximum.
const PAGE: usize = 200;

/// More than any server accepts in a document.
const LARGEST: u64 = 64 << 20;

/// An API as the server shows it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    gw_api_url: String,
    apidoc: Map<String, Value>,
}

pub(crate) async fn run(global: &Global, args: &ApiArgs) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    match &args.command {
        ApiCommand::Create(args) => create(&client, args, global.json).await,
        ApiCommand::List { api } => list(&client, api.as_deref(), global.json).await,
        ApiCommand::Get { api } => {
            let apis = apis(&client, Some(api)).await?;
            let found = apis.into_iter().next().ok_or_else(|| {
                Failure::new(Exit::Refused, "not_found", format!("there is no API '{api}'"))
                    .hint("`flint api list` shows what is there")
            })?;
            print_json(&found.apidoc)?;
            Ok(Exit::Ok)
        }
        ApiCommand::Delete { api, path, method } => {
            let mut query = format!("basepath={}", segment(api));
            for (name, value) in [("relpath", path), ("operation", method)] {
                if let Some(value) = value {
                    query.push_str(&format!("&{name}={}", segment(value)));
                }
            }
            let deleted =
                client.openwhisk(Method::DELETE, &format!("{MANAGEMENT}/deleteApi?{query}"), None).await;
            deleted.map_err(|failure| match failure.code.as_str() {
                "not_found" => failure.hint("`flint api list` shows what is there"),
                _ => failure,
            })?;
            let words: Vec<&str> = [Some(api), path.as_ref(), method.as_ref()]
                .into_iter()
                .flatten()
                .map(String::as_str)
                .collect();
            match global.json {
                true => print_json(&json!({ "deleted": words }))?,
                false => print_line(&format!("deleted {}", words.join(" ")))?,
            }
            Ok(Exit::Ok)
        }
    }
}

async fn create(client: &Client, args: &ApiCreateArgs, json: bool) -> anyhow::Result<Exit> {
    let (apidoc, query, path) = match args {
        ApiCreateArgs { swagger: Some(file), .. } => {
            (json!({ "namespace": "_", "swagger": read(file)? }), String::new(), None)
        }
        ApiCreateArgs {
            base_path: Some(base_path),
            path: Some(path),
            method: Some(method),
            function: Some(function),
            ..
        } => {
            let variable = std::env::var("FLINT_API_SECRET").ok().filter(|secret| !secret.is_empty());
            let secret = args.secret.clone().or(variable);
            let apidoc = json!({
                "namespace": "_", "gatewayBasePath": base_path, "gatewayPath": path, "gatewayMethod": method,
                "apiName": args.name,
                "action": { "name": function, "namespace": "_", "secureKey": secret },
            });
            (apidoc, format!("?responsetype={}", args.form.as_str()), Some(path))
        }
        // Impossible: the command line requires all of them.
        _ => return Err(Failure::usage("name a base path, a path, a method and a function").into()),
    };
    let body = json!({ "apidoc": apidoc }).to_string().into();
    let answer =
        client.openwhisk(Method::POST, &format!("{MANAGEMENT}/createApi{query}"), Some(body)).await?;
    if json {
        print_json(&parsed::<Value>(&answer)?)?;
        return Ok(Exit::Ok);
    }
    let shown: Shown = parsed(&answer)?;
    print_line(&format!("{}{}", shown.gw_api_url, path.map_or("", String::as_str)))?;
    Ok(Exit::Ok)
}

fn read(file: &std::path::Path) -> Result<Value, Failure> {
    let cannot = |why: String| Failure::usage(format!("cannot read {}: {why}", file.display()));
    let text = match file.as_os_str() == "-" {
        true => read_within(LARGEST, "an API", io::stdin().lock()),
        false => fs::File::open(file).and_then(|file| read_within(LARGEST, "an API", file)),
    };
    let text = text.map_err(|error| cannot(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| {
        cannot(format!("it is not JSON: {error}"))
            .hint("a Swagger document in YAML has to be converted first")
    })
}

async fn list(client: &Client, api: Option<&str>, json: bool) -> anyhow::Result<Exit> {
    let apis = apis(client, api).await?;
    if json {
        let shown = apis.iter().map(|api| json!({ "url": api.gw_api_url, "document": api.apidoc }));
        print_json(&json!({ "apis": shown.collect::<Vec<_>>() }))?;
        return Ok(Exit::Ok);
    }
    if apis.is_empty() {
        print_line("no APIs; make one with `flint api create BASE_PATH PATH METHOD FUNCTION`")?;
        return Ok(Exit::Ok);
    }
    print_line(&table(&["api", "method", "function", "url"], &[], apis.iter().flat_map(rows)))?;
    Ok(Exit::Ok)
}

/// One row per operation.
fn rows(api: &Shown) -> Vec<Vec<String>> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let title = text(api.apidoc.get("info").and_then(|info| info.get("title")));
    let mut rows = Vec::new();
    for (path, methods) in api.apidoc.get("paths").and_then(Value::as_object).into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let target = &operation["x-openwhisk"];
            let (package, action) = (text(target.get("package")), text(target.get("action")));
            let function = if package == "default" { action } else { format!("{package}/{action}") };
            rows.push(vec![title.clone(), method.clone(), function, format!("{}{path}", api.gw_api_url)]);
        }
    }
    rows
}

/// All APIs as their Swagger documents.
pub(crate) async fn documents(client: &Client) -> Result<Vec<Map<String, Value>>, Failure> {
    Ok(apis(client, None).await?.into_iter().map(|api| api.apidoc).collect())
}

/// All APIs, or one.
async fn apis(client: &Client, api: Option<&str>) -> Result<Vec<Shown>, Failure> {
    #[derive(Deserialize)]
    struct List {
        apis: Vec<Listed>,
    }
    #[derive(Deserialize)]
    struct Listed {
        value: Shown,
    }
    let filter = api.map(|api| format!("&basepath={}", segment(api))).unwrap_or_default();
    let mut all = Vec::new();
    loop {
        let path = format!("{MANAGEMENT}/getApi?limit={PAGE}&skip={}{filter}", all.len());
        let answer: Bytes = client.openwhisk(Method::GET, &path, None).await?;
        let List { apis } = parsed(&answer)?;
        let last = apis.len() < PAGE;
        all.extend(apis.into_iter().map(|listed| listed.value));
        if last {
            return Ok(all);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_row() {
        let api: Shown = serde_json::from_value(json!({
            "gwApiUrl": "http://h/api/v1/gateway/guest/club",
            "apidoc": {"info": {"title": "Club"}, "paths": {"/books": {
                "get": {"x-openwhisk": {"package": "default", "action": "list"}},
                "post": {"x-openwhisk": {"package": "p", "action": "add"}}
            }}}
        }))
        .unwrap();
        let url = "http://h/api/v1/gateway/guest/club/books";
        assert_eq!(rows(&api), [["Club", "get", "list", url], ["Club", "post", "p/add", url]]);
    }
}
