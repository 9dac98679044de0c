//! `flint deploy`: packs and deploys a function, or a project from its manifest.

use std::{path::Path, time::Duration};

use bytes::Bytes;
use flint_api_native::resource::{DeployResult, ProgressLine};
use http::{Method, header};

use crate::{
    cli::{DeployArgs, FunctionArgs, Global, ManifestArgs},
    client::{Client, Lines, collect, parsed, segment},
    failure::{Exit, Failure},
    manifest,
    output::{
        Progress, human_duration, human_size, prepared_lines, print_json, print_line, strategy_words, tell,
    },
    package::{Package, package},
};

pub(crate) async fn run(global: &Global, args: &DeployArgs) -> anyhow::Result<Exit> {
    let Some(path) = &args.path else { return project(global, args).await };
    refuse_for_manifest(&args.manifest, path)?;
    let client = Client::new(global)?;
    let progress = Progress::start(format!("packing {}", path.display()));
    let package = {
        let told = |step: &str| progress.step(format!("building {}: {}", path.display(), shortened(step)));
        package(path, args.function.clone(), &told)?
    };
    for note in &package.notes {
        tell!("note: {note}");
    }
    progress.step(format!("uploading {} ({})", package.name, human_size(package.size as u64)));
    let result = upload(&client, &package, |step| progress.step(format!("{}: {step}", package.name))).await?;
    drop(progress);
    if global.json {
        print_json(&result)?;
    } else {
        print_line(&summary(&result))?;
    }
    Ok(Exit::Ok)
}

/// Refuses options that only apply to manifests. clap does not require a manifest beside a path, with which
/// it conflicts: --dry-run with a path would deploy.
fn refuse_for_manifest(given: &ManifestArgs, path: &Path) -> Result<(), Failure> {
    let options = [
        ("--dry-run", given.dry_run),
        ("--prune", given.prune),
        ("--show-values", given.show_values),
        ("--project", given.project.is_some()),
        ("--deployment", given.deployment.is_some()),
    ];
    match options.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => Err(Failure::usage(format!(
            "{option} is for a manifest, and {} would be deployed as a function",
            path.display()
        ))
        .hint(format!("flint deploy -f MANIFEST {option}; without {option} the function is deployed"))),
    }
}

/// Deploys a manifest, which describes its functions completely; only values come from the command line.
async fn project(global: &Global, args: &DeployArgs) -> anyhow::Result<Exit> {
    let given = FunctionArgs { params: args.function.params.clone(), ..FunctionArgs::default() };
    if args.function != given {
        return Err(Failure::usage("with a manifest, options for a function have none to be for")
            .hint("say it in the manifest; --param gives values of its inputs")
            .into());
    }
    manifest::deploy(global, &args.manifest, &given.params).await
}

/// Attempts at a write that conflicts with concurrent ones. One of the competitors succeeds each time.
pub(super) const ATTEMPTS: u32 = 10;
/// Delay before the second attempt; it grows by this with each further one.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(100);

/// Sends a package; `told` hears what the server is doing. The server refuses a deploy if another one of the
/// same function ended meanwhile, since it was checked against an outdated state; sent again, it replaces
/// that one.
pub(crate) async fn upload(
    client: &Client,
    package: &Package,
    mut told: impl FnMut(&str),
) -> Result<DeployResult, Failure> {
    let body = serde_json::to_vec(&package.request)
        .map_err(|error| Failure::local(format!("cannot write the request: {error}")))?;
    let body = Bytes::from(body);
    for attempt in 1..ATTEMPTS {
        match send(client, package, body.clone(), &mut told).await {
            Err(failure) if is_race(&failure) => {}
            ended => return ended,
        }
        pause_after(attempt).await;
    }
    send(client, package, body, &mut told).await.map_err(|failure| match is_race(&failure) {
        true => Failure {
            message: format!("{} is being deployed by somebody else, again and again", package.name),
            ..failure
        }
        .hint("deploy it again: it is safe to repeat"),
        false => failure,
    })
}

/// Waits before the next attempt.
pub(super) async fn pause_after(attempt: u32) {
    // Jitter, so that competitors do not retry at the same moment.
    let apart = Duration::from_millis(u64::from(std::process::id() % 10) * 50);
    tokio::time::sleep(BETWEEN_ATTEMPTS * attempt + apart).await;
}

/// Whether the function was written concurrently.
pub(super) fn is_race(failure: &Failure) -> bool {
    let is_written =
        |words: &str| words.contains("already exists") || words.starts_with("Concurrent modification");
    failure.code == "conflict" && is_written(&failure.message)
}

async fn send(
    client: &Client,
    package: &Package,
    body: Bytes,
    told: &mut impl FnMut(&str),
) -> Result<DeployResult, Failure> {
    let path = format!("/v1/functions/{}", segment(&package.name));
    let body = Some(("application/json", body));
    let answer =
        client.request(Method::PUT, &path, "application/x-ndjson, application/json;q=0.9", body).await?;
    let streamed =
        answer.headers().get(header::CONTENT_TYPE).is_some_and(|media| media == "application/x-ndjson");
    if !streamed {
        return parsed(&collect(answer).await?);
    }
    let mut lines = Lines::new(answer.into_body());
    while let Some(line) = lines.next().await? {
        match parsed(&line)? {
            ProgressLine::Progress(step) => told(&step),
            ProgressLine::Result(result) => return Ok(*result),
            ProgressLine::Error(error) => return Err(Failure::refused(error)),
        }
    }
    Err(Failure::new(
        Exit::Unreachable,
        "cut_short",
        "the server stopped answering before the deploy was done",
    )
    .hint("look at the server's log, then deploy again: it is safe to repeat"))
}

/// Truncates a tool's line to one line of progress.
fn shortened(line: &str) -> String {
    match line.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

fn summary(result: &DeployResult) -> String {
    let function = &result.function;
    let verb = if result.created { "created" } else { "updated" };
    let mut text = format!(
        "{verb} {} {} ({}, {} contract, {})",
        function.name,
        function.version,
        function.kind,
        function.contract,
        strategy_words(function.prepared.as_ref().map_or(&function.strategy, |prepared| &prepared.strategy)),
    );
    if !result.steps.is_empty() && result.prepare_us > 0 {
        text.push_str(&format!("\n  {} in {}", result.steps.join(", "), human_duration(result.prepare_us)));
    }
    for line in function.prepared.iter().flat_map(prepared_lines) {
        text.push_str(&format!("\n  {line}"));
    }
    for note in &result.notes {
        text.push_str(&format!("\n  note: {note}"));
    }
    text
}
