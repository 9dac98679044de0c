//! `flint trigger`: manages and fires triggers.

use http::Method;
use serde_json::{Map, Value};

use super::{
    call::{read, source_name},
    entity::{ask, body, delete, list, named, place, put, said, show, shown},
    feed,
};
use crate::{
    cli::{Global, TriggerArgs, TriggerCommand},
    client::Client,
    failure::{Exit, Failure},
    output::tell,
};

const COLLECTION: &str = "triggers";

pub(crate) async fn run(global: &Global, args: TriggerArgs) -> anyhow::Result<Exit> {
    match args.command {
        TriggerCommand::Create { name, feed: Some(action), options } => {
            feed::create(global, &name, &action, options).await
        }
        TriggerCommand::Create { name, feed: None, mut options } => {
            // Given annotations replace all existing ones, including the one that names the feed.
            if options.update && !options.annotations.is_empty() {
                let there = feed::find(&Client::new(global)?, &place(COLLECTION, &name)?).await?;
                options.annotations = feed::kept(there.as_ref(), options.annotations);
            }
            put(global, COLLECTION, &name, body(&options).into(), options.update).await
        }
        TriggerCommand::Get { name } => {
            let client = Client::new(global)?;
            let mut trigger = ask(&client, Method::GET, COLLECTION, &name, "", None).await?;
            // What is stored of the trigger is shown all the same.
            if let Err(failure) = feed::read_into(&client, &mut trigger).await {
                tell!("warning: {failure}");
            }
            show(global, &trigger, lines)
        }
        TriggerCommand::List(page) => {
            let row = |trigger: &Value| vec![shown(&trigger["name"]), shown(&trigger["version"])];
            list(global, &format!("_/{COLLECTION}"), &page, &["trigger", "version"], row).await
        }
        TriggerCommand::Pause { name } => feed::tell(global, &name, "PAUSE", "paused").await,
        TriggerCommand::Resume { name } => feed::tell(global, &name, "UNPAUSE", "resumed").await,
        TriggerCommand::Delete { name } => {
            feed::delete(global, &name).await?;
            delete(global, COLLECTION, &name, "").await
        }
        TriggerCommand::Fire { name, params, param_file } => {
            let mut payload = match param_file {
                Some(path) => object(&path)?,
                None => Map::new(),
            };
            payload.extend(params);
            let client = Client::new(global)?;
            let fired = ask(&client, Method::POST, COLLECTION, &name, "", Some(&payload.into())).await?;
            let Some(id) = fired["activationId"].as_str() else {
                return said(global, &fired, &format!("{name} has no active rule: nothing was called"));
            };
            not_called(&client, id).await.iter().for_each(|warning| tell!("warning: {warning}"));
            said(global, &fired, &format!("fired {name}: activation {id}"))
        }
    }
}

/// What the record of a firing says of rules whose actions were not called; nothing if it cannot be read.
async fn not_called(client: &Client, id: &str) -> Vec<String> {
    let logs = client.entity(Method::GET, &format!("_/activations/{id}/logs"), None).await;
    logs.map_or_else(|_| Vec::new(), |logs| refusals(&logs))
}

/// Each line of such a record is the JSON of one rule.
fn refusals(logs: &Value) -> Vec<String> {
    let lines = logs["logs"].as_array().into_iter().flatten().filter_map(Value::as_str);
    lines
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|rule| rule["success"] == false)
        .map(|rule| {
            let (name, action) = (shown(&rule["rule"]), shown(&rule["action"]));
            format!("rule /{name} did not call /{action}: {}", shown(&rule["error"]))
        })
        .collect()
}

fn object(path: &std::path::Path) -> Result<Map<String, Value>, Failure> {
    serde_json::from_slice(&read(path)?)
        .map_err(|error| Failure::usage(format!("{} is not a JSON object: {error}", source_name(path))))
}

fn lines(trigger: &Value) -> Vec<(String, String)> {
    let rules = trigger["rules"].as_object().into_iter().flatten();
    let rules = rules.map(|(name, rule)| {
        ("rule".to_owned(), format!("/{name} {} {}", named(&rule["action"]), shown(&rule["status"])))
    });
    feed::lines(&trigger["feed"]).into_iter().chain(rules).collect()
}
