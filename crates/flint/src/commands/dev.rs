//! `flint dev`: deploy and call on every save.

use std::{
    collections::BTreeMap,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use anyhow::Context;
use flint_api_native::resource::{ActivationResource, DeployRequest};
use flint_model::{LogStream, Start};
use http_body_util::BodyExt;
use notify::{EventKind, RecursiveMode, Watcher};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use super::{
    call::{Input, broken_off, call, failed_midway, record},
    deploy::upload,
};
use crate::{
    cli::{CallArgs, DevArgs, Global},
    client::{Client, cut_short},
    failure::{self, Exit, Failure},
    output::{human_duration, human_size, print_line, tell},
    package::package,
};

/// Editors write a file in several steps: changes within this time belong to one save.
const SETTLE: Duration = Duration::from_millis(15);
/// How much of a text response is shown.
const SHOWN: usize = 4096;

pub(crate) async fn run(global: &Global, args: &DevArgs) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    let input = Input::read(&CallArgs {
        params: args.call_params.clone(),
        param_file: args.param_file.clone(),
        file: args.file.clone(),
        headers: Vec::new(),
    })?;
    let mut saved = Instant::now();
    if args.once {
        return round(&client, args, &input, saved, global.json).await;
    }
    let mut changes = Changes::watch(&args.path)?;
    let mut end = signal(SignalKind::interrupt())?;
    let mut good = Exit::Ok;
    loop {
        tokio::select! {
            done = round(&client, args, &input, saved, global.json) => good = done?,
            next = changes.next() => {
                tell!("saved again: the call before it is not waited for");
                saved = next;
                continue;
            }
            _ = end.recv() => return Ok(good),
        }
        tell!("watching {} (Ctrl-C ends)", args.path.display());
        tokio::select! {
            next = changes.next() => saved = next,
            _ = end.recv() => return Ok(good),
        }
    }
}

/// One deploy and call. Errors in the code are shown and the watch goes on; only an unreachable server ends
/// it.
async fn round(
    client: &Client,
    args: &DevArgs,
    input: &Input,
    saved: Instant,
    json: bool,
) -> anyhow::Result<Exit> {
    match deploy_and_call(client, args, input, saved, json).await {
        Ok(good) => Ok(if good { Exit::Ok } else { Exit::FunctionFailed }),
        Err(error)
            if args.once
                || error
                    .downcast_ref::<Failure>()
                    .is_some_and(|failure| failure.exit == Exit::Unreachable) =>
        {
            Err(error)
        }
        Err(error) => Ok(failure::report(&error, json)),
    }
}

async fn deploy_and_call(
    client: &Client,
    args: &DevArgs,
    input: &Input,
    saved: Instant,
    json: bool,
) -> anyhow::Result<bool> {
    let mut package = package(&args.path, args.function.clone(), &|_| {})?;
    without_snapshot(&mut package.request);
    for note in &package.notes {
        tell!("note: {note}");
    }
    let deployed = upload(client, &package, |_| {}).await?;
    let after_deploy = saved.elapsed();
    let called = call(client, input.request(&package.name, "")?).await?;
    let (good, status, activation, media) =
        (called.succeeded(), called.status.clone(), called.activation.clone(), called.media_type());
    let http_status = called.answer.status();
    let body = match called.answer.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => {
            let record = broken_off(client, &activation, cut_short(error).into()).await?;
            if !json {
                show_logs(&record)?;
            }
            return Err(failed_midway(&record).into());
        }
    };
    let answered = saved.elapsed();
    let record = record(client, &activation).await?;
    if json {
        let line = serde_json::json!({
            "function": deployed.function.name, "version": deployed.function.version, "activation": activation,
            "status": status, "http_status": http_status.as_u16(), "content_type": media, "size": body.len(),
            "text": std::str::from_utf8(&body).ok(), "logs": record.map(|record| record.logs),
            "deploy_us": after_deploy.as_micros() as u64, "answer_us": answered.as_micros() as u64,
        });
        print_line(&line.to_string())?;
        return Ok(good);
    }
    if let Some(record) = &record {
        show_logs(record)?;
    }
    match std::str::from_utf8(&body) {
        Ok(text) => {
            let shown = serde_json::from_str::<serde_json::Value>(text)
                .ok()
                .and_then(|value| serde_json::to_string_pretty(&value).ok())
                .unwrap_or_else(|| text.to_owned());
            let cut: String = shown.chars().take(SHOWN).collect();
            print_line(&if cut.len() < shown.len() { format!("{cut}…") } else { cut })?;
        }
        Err(_) => print_line(&format!("{media}, {}", human_size(body.len() as u64)))?,
    }
    let us = |duration: Duration| human_duration(duration.as_micros() as u64);
    let mark = if good { "✓" } else { "✗" };
    print_line(&format!(
        "{mark} {} {} · {} · answered {} after the save (deployed after {})",
        deployed.function.name,
        deployed.function.version,
        status.replace('_', " "),
        us(answered),
        us(after_deploy)
    ))?;
    Ok(good)
}

fn show_logs(record: &ActivationResource) -> anyhow::Result<()> {
    for line in &record.logs {
        let mark = if line.stream == LogStream::Stderr { "err" } else { "out" };
        print_line(&format!("  {mark} │ {}", line.text))?;
    }
    Ok(())
}

/// Without an explicit request, no snapshot is made: it takes longer than the single call that most saves
/// get.
fn without_snapshot(request: &mut DeployRequest) {
    let family = request.kind.as_deref().and_then(|kind| kind.split(':').next());
    let is_asked_for =
        request.isolation.is_some() || !request.snapshot.warmup.is_empty() || request.snapshot.jit.is_some();
    if request.start.is_none() && !is_asked_for && matches!(family, Some("nodejs" | "python")) {
        request.start = Some(Start::Spawn);
    }
}

/// Detects saves below a path.
struct Changes {
    path: PathBuf,
    events: mpsc::Receiver<Instant>,
    /// When a change was first seen that is not handled yet.
    begun: Option<Instant>,
    seen: Fingerprint,
    gone: bool,
    _watcher: notify::RecommendedWatcher,
}

/// Size, time and mode of every file and link, so that reads (and Flint's own packing) are not taken for
/// saves.
type Fingerprint = BTreeMap<PathBuf, (u64, Option<SystemTime>, u32)>;

impl Changes {
    fn watch(path: &Path) -> anyhow::Result<Self> {
        let path = path
            .canonicalize()
            .map_err(|error| Failure::usage(format!("cannot watch {}: {error}", path.display())))?;
        let (tell, events) = mpsc::channel(64);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| !matches!(event.kind, EventKind::Access(_))) {
                // If the channel is full, a change is pending already.
                let _ = tell.try_send(Instant::now());
            }
        })
        .context("watching for changes")?;
        // A file is watched through its directory: many editors replace it instead of writing to it.
        let (target, mode) = match path.is_dir() {
            true => (path.as_path(), RecursiveMode::Recursive),
            false => (path.parent().unwrap_or(&path), RecursiveMode::NonRecursive),
        };
        watcher.watch(target, mode).with_context(|| format!("watching {}", target.display()))?;
        let seen = fingerprint(&path);
        Ok(Self { path, events, begun: None, seen, gone: false, _watcher: watcher })
    }

    /// When the next save was first seen. Cancellation-safe.
    async fn next(&mut self) -> Instant {
        loop {
            if self.begun.is_none() {
                self.begun = self.events.recv().await;
            }
            let Some(saved) = self.begun else { return std::future::pending().await };
            tokio::time::sleep(SETTLE).await;
            while self.events.try_recv().is_ok() {}
            self.begun = None;
            let now = fingerprint(&self.path);
            let (was_gone, is_gone) = (self.gone, now.is_empty());
            self.gone = is_gone;
            if is_gone && !was_gone {
                tell!("{} is gone; it is deployed when it is back", self.path.display());
            }
            if !is_gone && (was_gone || now != self.seen) {
                self.seen = now;
                return saved;
            }
        }
    }
}

/// Output of cargo and Maven is not a save.
fn is_build_output(path: &Path) -> bool {
    path.ends_with("target")
        && path
            .parent()
            .is_some_and(|project| ["Cargo.toml", "pom.xml"].iter().any(|file| project.join(file).is_file()))
}

fn fingerprint(path: &Path) -> Fingerprint {
    let walk = ignore::WalkBuilder::new(path)
        .standard_filters(false)
        .add_custom_ignore_filename(".flintignore")
        .filter_entry(|entry| entry.file_name() != ".git" && !is_build_output(entry.path()))
        .build();
    walk.filter_map(Result::ok)
        .filter_map(|entry| {
            let meta = entry.metadata().ok().filter(|meta| meta.is_file() || meta.is_symlink())?;
            Some((entry.into_path(), (meta.len(), meta.modified().ok(), meta.permissions().mode())))
        })
        .collect()
}
