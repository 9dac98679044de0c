//! `flint dlq`: shows, redrives and removes dead letters.

use flint_api_native::resource::{
    DeadLetterList, DeadLetterResource, RedriveRequest, RedriveResult, RedrivenResource, RemovedLetters,
};
use http::Method;
use serde_json::json;

use crate::{
    cli::{DeadLetterArgs, DeadLetterCommand, Global, WhichLetters},
    client::{Client, segment},
    failure::{self, Exit, Failure},
    output::{ago, clock, human_size, print_json, print_line, table},
};

const LETTERS: &str = "/v1/dead-letters";
/// Maximum number of letters per request: the server's.
const AT_ONCE: usize = 1000;

pub(crate) async fn run(global: &Global, args: &DeadLetterArgs) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    match &args.command {
        DeadLetterCommand::List { function, limit, skip } => {
            let mut path = format!("{LETTERS}?limit={limit}&skip={skip}");
            if let Some(function) = function {
                path.push_str(&format!("&function={}", segment(function)));
            }
            let list: DeadLetterList = client.get(&path).await?;
            match global.json {
                true => print_json(&list)?,
                false => print_line(&listed(&list, function.as_deref()))?,
            }
        }
        DeadLetterCommand::Get { id } => {
            let letter: DeadLetterResource = client.get(&format!("{LETTERS}/{id}")).await?;
            match global.json {
                true => print_json(&letter)?,
                false => print_line(&shown(&letter))?,
            }
        }
        DeadLetterCommand::Redrive { which } => return redrive(global, &client, which).await,
        DeadLetterCommand::Rm { which } => return remove(global, &client, which).await,
    }
    Ok(Exit::Ok)
}

async fn redrive(global: &Global, client: &Client, which: &WhichLetters) -> anyhow::Result<Exit> {
    let mut redriven = Vec::new();
    let mut stopped = None;
    for id in &which.ids {
        let one = client.send_json(Method::POST, &format!("{LETTERS}/{id}/redrive"), &json!({})).await;
        match one {
            Ok(one) => redriven.push(one),
            Err(failure) => {
                stopped = Some(failure);
                break;
            }
        }
    }
    if which.ids.is_empty() {
        // Only those that exist now: a call that fails again becomes a letter again, and must not be redriven
        // for ever.
        let mut left = count(client, which.function.as_deref()).await?;
        // In batches, the oldest first, until none is left or one is refused.
        while left > 0 && stopped.is_none() {
            let asked = RedriveRequest { function: which.function.clone(), limit: Some(left.min(AT_ONCE)) };
            let some: RedriveResult =
                client.send_json(Method::POST, &format!("{LETTERS}/redrive"), &asked).await?;
            // Fewer remain if somebody else redrives some meanwhile.
            left = if some.redriven.is_empty() { 0 } else { left.saturating_sub(some.redriven.len()) };
            redriven.extend(some.redriven);
            stopped = some.stopped.map(Failure::refused);
        }
    }
    match global.json {
        true => print_json(&json!({ "redriven": redriven }))?,
        false if redriven.is_empty() => {
            if stopped.is_none() {
                print_line("there are no such dead letters")?;
            }
        }
        false => {
            let row = |one: &RedrivenResource| vec![one.letter.clone(), one.activation.clone()];
            print_line(&table(&["letter", "is now activation"], &[], redriven.iter().map(row)))?;
        }
    }
    match stopped {
        None => Ok(Exit::Ok),
        Some(failure) => Err(failure.into()),
    }
}

/// The number of letters, of a function or of all.
async fn count(client: &Client, function: Option<&str>) -> Result<usize, Failure> {
    let Some(function) = function else {
        return Ok(client.get::<DeadLetterList>(&format!("{LETTERS}?limit=1")).await?.total);
    };
    let mut found = 0;
    loop {
        let path = format!("{LETTERS}?limit={AT_ONCE}&skip={found}&function={}", segment(function));
        let page = client.get::<DeadLetterList>(&path).await?.dead_letters.len();
        found += page;
        if page < AT_ONCE {
            return Ok(found);
        }
    }
}

async fn remove(global: &Global, client: &Client, which: &WhichLetters) -> anyhow::Result<Exit> {
    let mut removed = 0;
    let mut last_failure: Option<Failure> = None;
    // All are tried: a missing one must not prevent the others.
    for id in &which.ids {
        match client.delete(&format!("{LETTERS}/{id}")).await {
            Ok(()) => removed += 1,
            Err(failure) => {
                if let Some(earlier) = last_failure.replace(failure) {
                    failure::report(&earlier.into(), global.json);
                }
            }
        }
    }
    if which.ids.is_empty() {
        let path = match &which.function {
            Some(function) => format!("{LETTERS}?function={}", segment(function)),
            None => LETTERS.to_owned(),
        };
        let all: RemovedLetters = client.send_json(Method::DELETE, &path, &json!({})).await?;
        removed = all.removed;
    }
    match global.json {
        true => print_json(&json!({ "removed": removed }))?,
        // The failure says everything.
        false if removed == 0 && last_failure.is_some() => {}
        false => print_line(&format!("removed {removed}"))?,
    }
    last_failure.map_or(Ok(Exit::Ok), |failure| Err(failure.into()))
}

fn words(letter: &DeadLetterResource) -> String {
    letter.reason.as_str().replace('_', " ")
}

/// A list of all letters or of one function's; its total is of all in either case.
fn listed(list: &DeadLetterList, function: Option<&str>) -> String {
    let of = function.map(|function| format!(" of '{function}'")).unwrap_or_default();
    if list.dead_letters.is_empty() {
        return match list.total {
            0 => "no dead letters".to_owned(),
            total => format!("no dead letters{of} in this part of the list; the namespace has {total}"),
        };
    }
    let rows = list.dead_letters.iter().map(|letter| {
        vec![
            letter.id.clone(),
            letter.function.split_once('/').map_or(letter.function.as_str(), |(_, local)| local).to_owned(),
            words(letter),
            letter.attempts.len().to_string(),
            human_size(letter.arguments_size),
            ago(letter.accepted),
            ago(letter.died),
        ]
    });
    let header = ["letter", "function", "reason", "attempts", "arguments", "accepted", "given up"];
    let table = table(&header, &[3, 4], rows);
    let (total, shown) = (list.total, list.dead_letters.len());
    let size = human_size(list.size);
    match function {
        _ if total <= shown => table,
        None => format!("{table}\n\n{shown} of {total} ({size})"),
        Some(_) => format!("{table}\n\n{shown}{of}; the namespace has {total} ({size})"),
    }
}

fn shown(letter: &DeadLetterResource) -> String {
    let mut lines = vec![
        format!("letter     {}", letter.id),
        format!("function   {}", letter.function),
        format!("reason     {}", words(letter)),
        format!("accepted   {}", clock(letter.accepted)),
        format!("given up   {}", clock(letter.died)),
    ];
    if let Some(cause) = &letter.cause {
        lines.push(format!("redriven   from {cause}"));
    }
    for (number, attempt) in (1..).zip(&letter.attempts) {
        let record = attempt.activation.as_ref().map(|id| format!(" (activation {id})")).unwrap_or_default();
        lines.push(format!(
            "attempt {number:<2} {} ended by {}{record}",
            clock(attempt.start),
            attempt.ended_by
        ));
    }
    let arguments = letter.arguments.as_ref().map_or("{}", |arguments| arguments.get());
    lines.push(format!("arguments  {arguments}"));
    lines.push(String::new());
    lines.push(format!("`flint dlq redrive {}` calls it again", letter.id));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_one_function_are_not_taken_for_all_of_the_namespaces() {
        let letter = json!({
            "id": "1".repeat(32), "function": "guest/f", "subject": "guest", "reason": "attempts_used",
            "accepted": 0, "died": 0, "attempts": [], "arguments_size": 0,
        });
        let list = |letters: &[serde_json::Value]| -> DeadLetterList {
            serde_json::from_value(json!({ "dead_letters": letters, "total": 7, "size": 0 })).unwrap()
        };
        let none = "no dead letters of 'f' in this part of the list; the namespace has 7";
        assert_eq!(listed(&list(&[]), Some("f")), none);
        let some = list(&[letter]);
        assert!(listed(&some, Some("f")).ends_with("\n1 of 'f'; the namespace has 7 (0 B)"));
        assert!(listed(&some, None).ends_with("\n1 of 7 (0 B)"));
    }
}
