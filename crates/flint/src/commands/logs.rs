//! `flint logs`: shows log lines of past calls, and follows new ones.

use flint_api_native::resource::{ActivationList, ActivationResource};
use flint_model::{ActivationId, LogStream};
use http::Method;

use super::mistyped::perhaps_an_id;
use crate::{
    cli::{Global, LogsArgs},
    client::{Client, Lines, segment},
    failure::{Exit, Failure},
    output::{clock, print_line, tell},
};

pub(crate) async fn run(global: &Global, args: &LogsArgs) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    if let Some(id) = args.of.as_deref().filter(|of| of.parse::<ActivationId>().is_ok()) {
        if args.follow {
            return Err(Failure::usage(format!("{id} is one call, and -f follows those that are to come"))
                .hint(format!("flint logs {id}, or flint logs FUNCTION -f"))
                .into());
        }
        let Some(record) = super::call::record(&client, id).await? else {
            return Err(Failure::new(
                Exit::Refused,
                "not_found",
                format!("there is no record of activation {id}"),
            )
            .hint("`flint activations` shows what is recorded; a call that still runs has no record yet")
            .into());
        };
        let logged = show(&client, &record, global.json, false).await?;
        if !logged && !global.json {
            tell!("it logged nothing");
        }
        return Ok(Exit::Ok);
    }
    // Opened before the past is read, so that nothing is missed in between.
    let stream = match args.follow {
        true => Some(follow(&client, args.of.as_deref()).await?),
        false => None,
    };
    let mut path = format!("/v1/activations?logs=true&limit={}", args.limit);
    if let Some(function) = &args.of {
        path.push_str(&format!("&function={}", segment(function)));
    }
    let mut shown = std::collections::HashSet::new();
    if args.limit > 0 {
        let list: ActivationList = client.get(&path).await?;
        if let (true, Some(function)) = (list.activations.is_empty(), &args.of) {
            // Tells an idle function from a mistyped name.
            let there = client.get(&format!("/v1/functions/{}/logs?limit=0", segment(function))).await;
            let _: ActivationList = there.map_err(|failure| perhaps_an_id(failure, function))?;
        }
        let mut logged = false;
        for record in list.activations.iter().rev() {
            logged |= show(&client, record, global.json, args.of.is_none()).await?;
            shown.insert(record.id.clone());
        }
        if !logged && !args.follow && !global.json {
            match (list.activations.is_empty(), &args.of) {
                (true, Some(function)) => tell!("no calls of '{function}' are recorded"),
                (true, None) => tell!("nothing ran yet; call something with `flint invoke NAME`"),
                (false, _) => tell!("what ran last logged nothing; -n N looks at more"),
            }
        }
    }
    let Some(mut lines) = stream else { return Ok(Exit::Ok) };
    let again =
        |failure: Failure| failure.hint("the server may have been stopped; start it and follow again");
    while let Some(line) = lines.next().await.map_err(again)? {
        if *line == *b"event: refused" {
            return Err(Failure::new(Exit::Refused, "refused", "the key opens this namespace no longer: it was deleted, or the namespace was deleted or blocked").into());
        }
        let Some(data) = line.strip_prefix(b"data: ") else { continue };
        if let Ok(missed) = serde_json::from_slice::<u64>(data) {
            tell!(
                "{missed} calls came faster than they were read, and are left out; `flint activations` lists them"
            );
            continue;
        }
        let record = match serde_json::from_slice::<ActivationResource>(data) {
            Ok(record) => record,
            Err(error) => {
                tell!(
                    "a call is left out, whose record cannot be read ({error}); `flint activations` lists it"
                );
                continue;
            }
        };
        if !shown.remove(&record.id) {
            show(&client, &record, global.json, args.of.is_none()).await?;
        }
    }
    Err(Failure::new(Exit::Unreachable, "cut_short", "the server ended the stream of logs")
        .hint("it may have been stopped; start it and follow again")
        .into())
}

/// Opens the stream of server-sent events, one per record.
async fn follow(client: &Client, function: Option<&str>) -> Result<Lines, Failure> {
    let path = match function {
        Some(name) => format!("/v1/functions/{}/logs?follow=true", segment(name)),
        None => "/v1/logs?follow=true".to_owned(),
    };
    let answer = client.request(Method::GET, &path, "text/event-stream", None).await;
    let answer = answer.map_err(|failure| match function {
        Some(name) => perhaps_an_id(failure, name),
        None => failure,
    })?;
    Ok(Lines::new(answer.into_body()))
}

/// Prints an activation's log lines and, for a sequence or composition, those of its steps; `named` adds
/// whose they are. Without a function filter, the steps are in the list themselves. Returns whether there was
/// anything.
async fn show(client: &Client, record: &ActivationResource, json: bool, named: bool) -> anyhow::Result<bool> {
    print(record, json, named)?;
    let mut logged = !record.logs.is_empty();
    let mut steps: Vec<String> = match named {
        false => record.components.iter().rev().cloned().collect(),
        true => Vec::new(),
    };
    while let Some(step) = steps.pop() {
        if let Some(step) = super::call::record(client, &step).await? {
            print(&step, json, true)?;
            logged |= !step.logs.is_empty();
            steps.extend(step.components.into_iter().rev());
        }
    }
    Ok(logged)
}

fn print(record: &ActivationResource, json: bool, named: bool) -> anyhow::Result<()> {
    if json {
        // One document per line, for reading as a stream.
        let lines = record.logs.iter().map(|line| {
            serde_json::json!({
                "activation": record.id, "function": record.function,
                "time_us": line.time_us, "stream": line.stream, "text": line.text,
            })
        });
        return lines.map(|line| line.to_string()).try_for_each(|line| print_line(&line));
    }
    let name = record.function.split_once('/').map_or(record.function.as_str(), |(_, local)| local);
    for line in &record.logs {
        let mark = match line.stream {
            LogStream::Stdout => "out",
            LogStream::Stderr => "err",
        };
        let time = clock(line.time_us / 1000);
        match named {
            true => print_line(&format!("{time} {mark} {name}: {}", line.text))?,
            false => print_line(&format!("{time} {mark} {}", line.text))?,
        }
    }
    Ok(())
}
