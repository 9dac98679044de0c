//! `flint rule`: manages rules.

use http::Method;
use serde_json::{Value, json};

use super::entity::{ask, delete, get, list, named, put, said, shown, whole};
use crate::{
    cli::{Global, RuleArgs, RuleCommand},
    client::Client,
    failure::Exit,
};

const COLLECTION: &str = "rules";

pub(crate) async fn run(global: &Global, args: RuleArgs) -> anyhow::Result<Exit> {
    match args.command {
        RuleCommand::Create { name, trigger, function, update } => {
            let (namespace, of) = whole(&trigger)?;
            let trigger = format!("/{namespace}/{of}");
            // The whole name of a function has a slash in front; without it, its package comes first.
            let action = if function.starts_with('/') { function } else { format!("/_/{function}") };
            put(global, COLLECTION, &name, json!({"trigger": trigger, "action": action}), update).await
        }
        RuleCommand::Get { name } => get(global, COLLECTION, &name, lines).await,
        RuleCommand::List(page) => {
            list(global, &format!("_/{COLLECTION}"), &page, &["rule", "trigger", "function"], row).await
        }
        RuleCommand::Enable { name } => set(global, &name, "active").await,
        RuleCommand::Disable { name } => set(global, &name, "inactive").await,
        RuleCommand::Delete { name } => delete(global, COLLECTION, &name, "").await,
    }
}

async fn set(global: &Global, name: &str, status: &str) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    let body = json!({ "status": status });
    ask(&client, Method::POST, COLLECTION, name, "", Some(&body)).await?;
    said(global, &json!({"name": name, "status": status}), &format!("{name} is {status}"))
}

fn lines(rule: &Value) -> Vec<(String, String)> {
    vec![
        ("status".to_owned(), shown(&rule["status"])),
        ("trigger".to_owned(), named(&rule["trigger"])),
        ("function".to_owned(), named(&rule["action"])),
    ]
}

fn row(rule: &Value) -> Vec<String> {
    vec![shown(&rule["name"]), named(&rule["trigger"]), named(&rule["action"])]
}
