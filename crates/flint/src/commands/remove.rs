//! `flint rm`: deletes functions.

use serde_json::json;

use super::deploy::{ATTEMPTS, is_race, pause_after};
use crate::{
    cli::{Global, RmArgs},
    client::{Client, segment},
    failure::{self, Exit, Failure},
    output::{print_json, print_line},
};

pub(crate) async fn run(global: &Global, args: &RmArgs) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    let mut deleted = Vec::new();
    let mut last_failure: Option<Failure> = None;
    // All are tried: a missing one must not prevent the others.
    for name in &args.names {
        match delete(&client, name).await {
            Ok(()) => deleted.push(name),
            Err(failure) => {
                if let Some(earlier) = last_failure.replace(failure) {
                    failure::report(&earlier.into(), global.json);
                }
            }
        }
    }
    match global.json {
        true => print_json(&json!({ "deleted": deleted }))?,
        false => deleted.iter().try_for_each(|name| print_line(&format!("deleted {name}")))?,
    }
    last_failure.map_or(Ok(Exit::Ok), |failure| Err(failure.into()))
}

/// Deletes a function. The server refuses that if a deploy ended meanwhile.
async fn delete(client: &Client, name: &str) -> Result<(), Failure> {
    let path = format!("/v1/functions/{}", segment(name));
    for attempt in 1..ATTEMPTS {
        match client.delete(&path).await {
            Err(failure) if is_race(&failure) => pause_after(attempt).await,
            ended => return ended,
        }
    }
    client.delete(&path).await
}
