//! `flint rm`.

use serde_json::json;

use crate::{
    cli::{Global, RmArgs},
    client::{Client, segment},
    failure::Exit,
    output::{print_json, print_line, tell},
};

pub(crate) async fn run(global: &Global, args: &RmArgs) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    let mut deleted = Vec::new();
    let mut first_failure = None;
    // Each is tried: one that is not there must not keep the others.
    for name in &args.names {
        match client.delete(&format!("/v1/functions/{}", segment(name))).await {
            Ok(()) => deleted.push(name),
            Err(failure) => {
                if let Some(earlier) = first_failure.replace(failure) {
                    tell!("error: {earlier}");
                }
            }
        }
    }
    match global.json {
        true => print_json(&json!({ "deleted": deleted }))?,
        false => deleted.iter().try_for_each(|name| print_line(&format!("deleted {name}")))?,
    }
    first_failure.map_or(Ok(Exit::Ok), |failure| Err(failure.into()))
}
