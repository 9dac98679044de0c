//! `flint package`: manages packages and bindings.

use serde_json::{Value, json};

use super::entity::{body, delete, get, list, named, put, shown, whole};
use crate::{
    cli::{Global, PackageArgs, PackageCommand},
    client::segment,
    failure::Exit,
};

const COLLECTION: &str = "packages";

pub(crate) async fn run(global: &Global, args: PackageArgs) -> anyhow::Result<Exit> {
    match args.command {
        PackageCommand::Create { name, options, shared } => {
            let mut body = body(&options);
            if let Some(shared) = shared {
                body.insert("publish".to_owned(), shared.into());
            }
            put(global, COLLECTION, &name, body.into(), options.update).await
        }
        PackageCommand::Bind { provider, name, options } => {
            let (namespace, of) = whole(&provider)?;
            let mut body = body(&options);
            body.insert("binding".to_owned(), json!({"namespace": namespace, "name": of}));
            put(global, COLLECTION, &name, body.into(), options.update).await
        }
        PackageCommand::Get { name } => get(global, COLLECTION, &name, lines).await,
        PackageCommand::List { namespace, page } => {
            let namespace = namespace.as_deref().map_or("_", |name| name.trim_start_matches('/'));
            let place = format!("{}/{COLLECTION}", segment(namespace));
            list(global, &place, &page, &["package", "version", "shared", "stands for"], row).await
        }
        PackageCommand::Delete { name, force } => {
            delete(global, COLLECTION, &name, if force { "?force=true" } else { "" }).await
        }
    }
}

fn lines(package: &Value) -> Vec<(String, String)> {
    let mut lines = vec![("shared".to_owned(), yes_or_no(&package["publish"]))];
    if package["binding"]["name"].is_string() {
        lines.push(("stands for".to_owned(), named(&package["binding"])));
    }
    for (field, title) in [("actions", "function"), ("feeds", "feed")] {
        for action in package[field].as_array().into_iter().flatten() {
            lines.push((
                title.to_owned(),
                format!("{} {}", shown(&action["name"]), shown(&action["version"])),
            ));
        }
    }
    lines
}

fn row(package: &Value) -> Vec<String> {
    let binding = &package["binding"];
    vec![
        shown(&package["name"]),
        shown(&package["version"]),
        yes_or_no(&package["publish"]),
        if binding.is_object() { named(binding) } else { String::new() },
    ]
}

fn yes_or_no(value: &Value) -> String {
    if value == &Value::Bool(true) { "yes" } else { "no" }.to_owned()
}
