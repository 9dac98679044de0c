//! `flint sequence`: manages sequences.

use flint_api_native::resource::{SequenceList, SequenceRequest, SequenceResource};
use http::Method;

use crate::{
    cli::{Global, SequenceArgs, SequenceCommand},
    client::{Client, segment},
    failure::{Exit, Failure},
    output::{ago, print_json, print_line, table},
};

pub(crate) async fn run(global: &Global, args: &SequenceArgs) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    let at = |name: &str| format!("/v1/sequences/{}", segment(name));
    match &args.command {
        SequenceCommand::Create { name, components, update, retry } => {
            let (components, retry) = (components.clone(), retry.resource());
            let asked = SequenceRequest { components, create_only: !update, retry };
            let written = client.send_json(Method::PUT, &at(name), &asked).await;
            let written: SequenceResource = match written {
                Ok(written) => written,
                Err(failure) => return Err(explained(&client, failure, &asked.components).await.into()),
            };
            show(global, &written, "is there")
        }
        SequenceCommand::Get { name } => {
            let sequence: SequenceResource = client.get(&at(name)).await?;
            show(global, &sequence, "calls")
        }
        SequenceCommand::Rm { name } => {
            client.delete(&at(name)).await?;
            match global.json {
                true => print_json(&serde_json::json!({ "deleted": [name] })),
                false => print_line(&format!("deleted {name}")),
            }
        }
        SequenceCommand::List { limit, skip } => {
            let limited = limit.map(|limit| format!("&limit={limit}")).unwrap_or_default();
            let list: SequenceList = client.get(&format!("/v1/sequences?skip={skip}{limited}")).await?;
            if global.json {
                print_json(&list)?;
            } else if *limit == Some(0) {
                print_line("no sequences in this part of the list")?;
            } else if list.sequences.is_empty() && *skip > 0 {
                print_line("no more sequences")?;
            } else if list.sequences.is_empty() {
                print_line(
                    "no sequences yet; create one with `flint sequence create NAME FUNCTION,FUNCTION`",
                )?;
            } else {
                let rows = list.sequences.iter().map(|sequence| {
                    let version = sequence.version.clone();
                    vec![
                        sequence.name.clone(),
                        version,
                        sequence.components.join(" → "),
                        ago(sequence.updated),
                    ]
                });
                print_line(&table(&["name", "version", "calls", "updated"], &[], rows))?;
                let shown = list.sequences.len();
                if *limit == Some(shown) {
                    print_line(&format!("… more, if there are any, with --skip {}", skip + shown))?;
                }
            }
            Ok(())
        }
    }?;
    Ok(Exit::Ok)
}

/// Names the components that are missing, if some are. The text is OpenWhisk's, and does not change.
async fn explained(client: &Client, failure: Failure, components: &[String]) -> Failure {
    if !failure.message.starts_with("Sequence component does not exist") {
        return failure;
    }
    let mut missing = Vec::new();
    for component in components {
        let found: Result<serde_json::Value, Failure> =
            client.get(&format!("/v1/functions/{}", segment(component))).await;
        if found.is_err_and(|failure| failure.code == "not_found") {
            missing.push(format!("'{component}'"));
        }
    }
    match missing.is_empty() {
        true => failure,
        false => failure.hint(format!(
            "there is no {}: `flint list` and `flint sequence list` name what is there",
            missing.join(", ")
        )),
    }
}

fn show(global: &Global, sequence: &SequenceResource, verb: &str) -> anyhow::Result<()> {
    if global.json {
        return print_json(sequence);
    }
    let steps: Vec<_> = (1..).zip(&sequence.components).map(|(at, step)| format!("  {at}. {step}")).collect();
    print_line(&format!(
        "sequence {}/{} {} {verb}\n{}",
        sequence.namespace,
        sequence.name,
        sequence.version,
        steps.join("\n")
    ))
}
