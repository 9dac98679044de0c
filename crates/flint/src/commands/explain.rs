//! `flint explain`: where an activation's time went, or how a function runs and why.

use flint_api_native::resource::{
    ActivationResource, AttemptResource, CallResource, CallStateWord, FunctionExplanation, StatusWord,
};
use flint_model::ActivationId;
use serde_json::Value;

use super::mistyped::perhaps_an_id;
use crate::{
    cli::{ExplainArgs, Global},
    client::{Client, segment},
    failure::{Exit, Failure},
    output::{
        clock, draw_timeline, human_duration, human_size, prepared_lines, print_json, print_line, table,
    },
};

pub(crate) async fn run(global: &Global, args: &ExplainArgs) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    if args.what.parse::<ActivationId>().is_ok() {
        let Some(record) = super::call::record(&client, &args.what).await? else {
            return pending(global, &client, &args.what).await;
        };
        match global.json {
            true => print_json(&record)?,
            false if record.components.is_empty() => print_line(&activation(&record))?,
            false => print_line(&composition(&record, &steps_of(&client, &record).await?))?,
        }
    } else {
        let explained = client.get(&format!("/v1/explain/{}", segment(&args.what))).await;
        let explanation: FunctionExplanation =
            explained.map_err(|failure| perhaps_an_id(failure, &args.what))?;
        match global.json {
            true => print_json(&explanation)?,
            false => print_line(&function(&explanation))?,
        }
    }
    Ok(Exit::Ok)
}

/// An accepted call that is not over.
async fn pending(global: &Global, client: &Client, id: &str) -> anyhow::Result<Exit> {
    let call: CallResource = match client.get(&format!("/v1/calls/{id}")).await {
        Ok(call) => call,
        Err(failure) if failure.code == "not_found" => {
            return Err(Failure::new(
                Exit::Refused,
                "not_found",
                format!("there is no record of activation {id}"),
            )
            .hint("`flint activations` shows what is recorded")
            .into());
        }
        Err(failure) => return Err(failure.into()),
    };
    match global.json {
        true => print_json(&call)?,
        false => print_line(&accepted(&call))?,
    }
    Ok(Exit::Ok)
}

fn accepted(call: &CallResource) -> String {
    let next = call.begun + 1;
    let due = call.due.map_or_else(|| "now".to_owned(), clock);
    let state = match call.state {
        CallStateWord::Waiting => format!("waits for its turn, attempt {next} of {}", call.max_attempts),
        CallStateWord::Delayed if call.put_off.is_some() => {
            format!("is put off until {due}, before attempt {next} of {}", call.max_attempts)
        }
        CallStateWord::Delayed => format!("waits for attempt {next} of {}, due {due}", call.max_attempts),
        CallStateWord::Running => format!("runs, attempt {} of {}", call.begun, call.max_attempts),
        CallStateWord::Exhausted => "had all its attempts".to_owned(),
        CallStateWord::DeadLetter => format!("is a dead letter: `flint dlq get {}`", call.id),
    };
    let mut lines = vec![
        format!("call      {} (not over)", call.id),
        format!("function  {}", call.function),
        format!("state     {state}"),
    ];
    lines.extend(call.put_off.iter().map(|why| format!("because   {why}")));
    lines.push(format!("accepted  {}", clock(call.accepted)));
    lines.push(format!("policy    {}", call.policy));
    lines.extend(call.cause.iter().map(|cause| format!("redriven  from dead letter {cause}")));
    lines.extend(attempts(&call.attempts).into_iter().map(|text| format!("earlier   {text}")));
    lines.join("\n")
}

/// One line per attempt except the last.
fn attempts(attempts: &[AttemptResource]) -> Vec<String> {
    let line = |(number, attempt): (usize, &AttemptResource)| {
        let record = attempt.activation.as_ref().map(|id| format!(" (activation {id})")).unwrap_or_default();
        format!("attempt {number} at {} ended by: {}{record}", clock(attempt.start), attempt.ended_by)
    };
    (1..).zip(attempts).map(line).collect()
}

/// What the activation belongs to: the call that it is an attempt at, or the dead letter that it was.
fn belongs_to(record: &ActivationResource) -> Option<(&'static str, String)> {
    let cause = record.cause.as_ref()?;
    Some(match record.annotations.get("attempt") {
        Some(number) => ("attempt", format!("{number} of call {cause}")),
        None if record.annotations.get("causedBy").is_some() => ("part of", cause.clone()),
        None => ("redriven", format!("from dead letter {cause}")),
    })
}

/// Whether it is an attempt after another one. The record of each attempt that failed has its number.
fn is_repeated(record: &ActivationResource) -> bool {
    let number = record.annotations.get("attempt").and_then(Value::as_u64);
    !record.attempts.is_empty() || number.is_some_and(|number| number > 1)
}

/// Why no further attempt was made, if one was possible.
fn given_up(record: &ActivationResource) -> Option<String> {
    let reason = record.annotations.get("deadLetter")?.as_str()?.replace('_', " ");
    Some(format!("{reason}; a dead letter unless it was removed: `flint dlq get {}`", record.id))
}

/// The records of a composition's steps; `None` for a missing one.
async fn steps_of(
    client: &Client,
    record: &ActivationResource,
) -> Result<Vec<(String, Option<ActivationResource>)>, Failure> {
    let mut steps = Vec::with_capacity(record.components.len());
    for id in &record.components {
        let step = match client.get(&format!("/v1/activations/{id}")).await {
            Ok(step) => Some(step),
            Err(failure) if failure.code == "not_found" => None,
            Err(failure) => return Err(failure),
        };
        steps.push((id.clone(), step));
    }
    Ok(steps)
}

fn composition(record: &ActivationResource, steps: &[(String, Option<ActivationResource>)]) -> String {
    let conductor = record.annotations.get("conductor").is_some_and(|value| value == true);
    let what = if conductor { "composition" } else { "sequence" };
    let mut head = vec![
        format!("activation {}", record.id),
        format!("{what:<11} {} {}", record.function, record.version),
        format!("ended       {}", record.status.word().replace('_', " ")),
        format!("began       {}", clock(record.start)),
        format!("took        {} in {} steps", human_duration(record.duration_us), steps.len()),
    ];
    head.extend(belongs_to(record).map(|(label, text)| format!("{label:<11} {text}")));
    head.extend(attempts(&record.attempts).into_iter().map(|text| format!("{:<11} {text}", "earlier")));
    head.extend(given_up(record).map(|text| format!("{:<11} {text}", "given up")));
    if record.status != flint_model::Status::Success
        && let Some(result) = &record.result
    {
        head.push(format!("answer      {}", result.get().chars().take(400).collect::<String>()));
    }
    let rows = (1..).zip(steps).map(|(at, (id, step))| match step {
        Some(step) => vec![
            at.to_string(),
            step.function.clone(),
            step.status.word().replace('_', " "),
            human_duration(step.wait_us),
            human_duration(step.duration_us),
            (step.attempts.len() + usize::from(step.attempts.is_empty() || step.timeline.placed.is_some()))
                .to_string(),
            id.clone(),
        ],
        None => {
            let mut row = vec![at.to_string(), "(no record)".to_owned()];
            row.resize(6, String::new());
            row.push(id.clone());
            row
        }
    });
    let steps = table(
        &["step", "function", "ended", "waited", "took", "attempts", "activation"],
        &[0, 3, 4, 5],
        rows,
    );
    format!("{}\n\n{steps}\n\n`flint explain ACTIVATION` explains each step", head.join("\n"))
}

fn activation(record: &ActivationResource) -> String {
    let start = match (record.timeline.restored, record.init_us) {
        (Some(_), init) => {
            let took = init.map(|init| format!(" in {}", human_duration(init))).unwrap_or_default();
            format!("fork (its instance was forked from the function's snapshot{took})")
        }
        (None, Some(init)) => {
            format!("cold (its instance took {} to come up and load the code)", human_duration(init))
        }
        (None, None) if record.timeline.placed.is_none() => "none (no instance was given it)".to_owned(),
        (None, None) => "warm (its instance was there already)".to_owned(),
    };
    let mut rows = vec![
        (
            "function",
            format!(
                "{} {}{}",
                record.function,
                record.version,
                record.kind.as_ref().map(|kind| format!(" ({kind})")).unwrap_or_default()
            ),
        ),
        (
            "ended",
            format!(
                "{}{}",
                record.status.word().replace('_', " "),
                if record.timed_out { ", at its time limit" } else { "" }
            ),
        ),
        ("began", clock(record.start)),
        ("start", start),
    ];
    let used = [
        record.usage.cpu_us.map(|us| format!("{} of CPU", human_duration(us))),
        record.usage.memory_peak_bytes.map(|bytes| format!("{} of memory at most", human_size(bytes))),
    ];
    let used: Vec<_> = used.into_iter().flatten().collect();
    if !used.is_empty() {
        rows.push(("used", used.join(", ")));
    }
    rows.extend(belongs_to(record));
    rows.extend(attempts(&record.attempts).into_iter().map(|text| ("earlier", text)));
    rows.extend(given_up(record).map(|text| ("given up", text)));
    if record.status != flint_model::Status::Success
        && let Some(result) = &record.result
    {
        rows.push(("answer", result.get().chars().take(400).collect()));
    }
    let head: Vec<_> = rows.iter().map(|(label, text)| format!("{label:<9} {text}")).collect();
    let timeline = draw_timeline(&record.timeline, is_repeated(record));
    format!("activation {}\n{}\n\n{timeline}", record.id, head.join("\n"))
}

fn function(explanation: &FunctionExplanation) -> String {
    let function = &explanation.function;
    let strategy = &explanation.strategy;
    let mut parts = vec![format!(
        "{}/{} {} runs as\n  contract {} · isolation {} · start {} · reuse {} · {} at once in an instance",
        function.namespace,
        function.name,
        function.version,
        function.contract,
        strategy.isolation,
        strategy.start,
        strategy.reuse,
        strategy.concurrency
    )];
    let list = |title: &str, lines: &[String]| {
        let lines: Vec<_> = lines.iter().map(|line| format!("  - {line}")).collect();
        (!lines.is_empty()).then(|| format!("{title}\n{}", lines.join("\n")))
    };
    parts.extend(list("because", &explanation.reasons));
    if let Some(prepared) = &function.prepared {
        parts.extend(list("prepared", &prepared_lines(prepared)));
    }
    if !explanation.considered.is_empty() {
        let rows = explanation.considered.iter().map(|verdict| {
            let mark = if verdict.picked { "→" } else { " " };
            vec![
                format!("{mark} {}", verdict.strategy),
                verdict.executor.clone().unwrap_or_else(|| "-".into()),
                verdict.why.clone(),
            ]
        });
        parts.push(table(&["  strategy", "executor", "why"], &[], rows));
    }
    parts.extend(list("this host lacks", &explanation.lacking));
    parts.join("\n\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_that_is_put_off_says_until_when_and_why() {
        let mut call = json!({
            "id": "1".repeat(32), "function": "guest/f", "state": "delayed", "accepted": 0, "due": 1000, "begun": 0,
            "max_attempts": 3, "attempts": [], "policy": "3 attempts",
        });
        let shown = |call: &Value| accepted(&serde_json::from_value(call.clone()).unwrap());
        let failed = shown(&call);
        assert!(failed.contains("waits for attempt 1 of 3, due ") && !failed.contains("because"), "{failed}");
        call["put_off"] = json!("no node was found");
        let put_off = shown(&call);
        assert!(put_off.contains("\nstate     is put off until "), "{put_off}");
        assert!(put_off.contains("before attempt 1 of 3\nbecause   no node was found\n"), "{put_off}");
    }

    #[test]
    fn every_attempt_but_the_first_waited_for_its_turn_on_disk() {
        let waited = |key: &str, value: Value| {
            let mut record = json!({
                "id": "1".repeat(32), "namespace": "guest", "function": "guest/f", "version": "0.0.1",
                "subject": "guest", "status": "developer_error", "start": 0, "end": 1, "duration_us": 1000,
                "wait_us": 10, "timeline": {"queued": 5, "placed": 10}, "size": 0, "usage": {},
            });
            record[key] = value;
            let shown = activation(&serde_json::from_value(record).unwrap());
            let (admitted, waited) = (shown.contains("\nadmit "), shown.contains("\nwait "));
            assert!(admitted != waited, "{shown}");
            waited
        };
        let [first, second] = [1, 2].map(|number| waited("annotations", json!({ "attempt": number })));
        let last = waited("attempts", json!([{"start": 0, "ended_by": "developer_error"}]));
        assert_eq!((waited("annotations", json!({})), first, second, last), (false, false, true, true));
    }
}
