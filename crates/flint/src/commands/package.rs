//! `flint package`: manages packages and bindings.

use serde_json::{Value, json};

use super::entity::{body, delete, get, list, named, put, shown, whole};
use crate::{
    cli::{Global, PackageArgs, PackageCommand},
    client::segment,
    failure::{Exit, Failure},
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
            let namespace = namespace.as_deref().map_or(Ok("_"), owner)?;
            let place = format!("{}/{COLLECTION}", segment(namespace));
            list(global, &place, &page, &["package", "version", "shared", "stands for"], row).await
        }
        PackageCommand::Delete { name, force } => {
            delete(global, COLLECTION, &name, if force { "?force=true" } else { "" }).await
        }
    }
}

/// Parses `NAMESPACE` or `/NAMESPACE`.
fn owner(text: &str) -> Result<&str, Failure> {
    let name = text.trim_matches('/');
    match name.is_empty() || name.contains('/') {
        true => Err(Failure::usage(format!("'{text}' is not a namespace: write NAMESPACE or /NAMESPACE"))
            .hint("`flint package get /NAMESPACE/NAME` shows one package")),
        false => Ok(name),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_listed_of_a_namespace() {
        for good in ["ns", "/ns", "/ns/"] {
            assert_eq!(owner(good).ok(), Some("ns"), "{good}");
        }
        for bad in ["/", "//", "/ns/package", "ns/package"] {
            assert!(owner(bad).is_err(), "{bad}");
        }
    }
}
