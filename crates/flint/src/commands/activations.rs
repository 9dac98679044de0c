//! `flint activations`: lists activation records.

use flint_api_native::resource::{ActivationList, ActivationResource, StatusWord};
use flint_model::ActivationId;

use crate::{
    cli::{ActivationsArgs, Global},
    client::{Client, segment},
    failure::Exit,
    output::{ago, human_duration, human_size, print_json, print_line, table},
};

pub(crate) async fn run(global: &Global, args: &ActivationsArgs) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    let mut path = format!("/v1/activations?limit={}&skip={}", args.limit, args.skip);
    if let Some(function) = &args.function {
        path.push_str(&format!("&function={}", segment(function)));
    }
    let list: ActivationList = client.get(&path).await?;
    if global.json {
        print_json(&list)?;
        return Ok(Exit::Ok);
    }
    if list.activations.is_empty() {
        match &args.function {
            _ if args.limit == 0 || args.skip > 0 => print_line("no activations in this part of the list")?,
            Some(id) if id.parse::<ActivationId>().is_ok() => print_line(&format!(
                "no calls of a function '{id}' are recorded; `flint explain {id}` shows an activation"
            ))?,
            Some(function) => print_line(&format!(
                "no calls of '{function}' are recorded; `flint list` shows what is deployed"
            ))?,
            None => print_line("nothing ran yet; call something with `flint invoke NAME`")?,
        }
        return Ok(Exit::Ok);
    }
    let rows = list.activations.iter().map(|record| {
        vec![
            record.id.clone(),
            record.function.split_once('/').map_or(record.function.as_str(), |(_, local)| local).to_owned(),
            record.status.word().replace('_', " "),
            start_of(record).to_owned(),
            human_duration(record.wait_us),
            human_duration(record.duration_us),
            record.usage.memory_peak_bytes.map_or_else(|| "-".to_owned(), human_size),
            ago(record.start),
        ]
    });
    print_line(&table(
        &["activation", "function", "status", "start", "waited", "took", "memory", "when"],
        &[4, 5, 6],
        rows,
    ))?;
    Ok(Exit::Ok)
}

/// How the call came by its instance, in a word.
fn start_of(record: &ActivationResource) -> &'static str {
    match (record.timeline.restored, record.init_us) {
        (Some(_), _) => "fork",
        (None, Some(_)) => "cold",
        (None, None) => "warm",
    }
}
