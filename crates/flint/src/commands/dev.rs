//! `flint dev`: deploy and call on every save.

use std::{
    collections::BTreeMap,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use anyhow::Context;
use flint_api_native::resource::{ActivationResource, DeployRequest};
use flint_model::{LogStream, Start};
use http_body_util::BodyExt;
use notify::{Event, EventKind, RecursiveMode, Watcher, event::ModifyKind};
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
/// How often a path that is gone is looked for: what was above it may be gone with it, and then nothing tells
/// that it is back.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
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

/// Without an explicit request, neither a snapshot nor Java's class archive is made: it takes longer than the
/// single call that most saves get.
fn without_snapshot(request: &mut DeployRequest) {
    let family = request.kind.as_deref().and_then(|kind| kind.split(':').next());
    let is_asked_for =
        request.isolation.is_some() || !request.snapshot.warmup.is_empty() || request.snapshot.jit.is_some();
    if request.start.is_some() || is_asked_for {
        return;
    }
    match family {
        Some("nodejs" | "python") => request.start = Some(Start::Spawn),
        Some("java") => request.snapshot.annotate = Some(false),
        _ => {}
    }
}

/// Detects saves below a path.
struct Changes {
    path: PathBuf,
    /// What is watched: the path, or the directory that a file is in.
    watched: PathBuf,
    mode: RecursiveMode,
    events: mpsc::Receiver<Instant>,
    /// When a change was first seen that is not handled yet.
    begun: Option<Instant>,
    seen: Fingerprint,
    gone: bool,
    /// What was watched is there no more, or another is in its place: watches follow the directory, not its
    /// name.
    replaced: Arc<AtomicBool>,
    watcher: notify::RecommendedWatcher,
}

/// Size, time and mode of every file and link, so that reads (and Flint's own packing) are not taken for
/// saves.
type Fingerprint = BTreeMap<PathBuf, (u64, Option<SystemTime>, u32)>;

impl Changes {
    fn watch(path: &Path) -> anyhow::Result<Self> {
        let path = path
            .canonicalize()
            .map_err(|error| Failure::usage(format!("cannot watch {}: {error}", path.display())))?;
        // A file is watched through its directory: many editors replace it instead of writing to it.
        let (watched, mode) = match path.is_dir() {
            true => (path.clone(), RecursiveMode::Recursive),
            false => (path.parent().unwrap_or(&path).to_owned(), RecursiveMode::NonRecursive),
        };
        let (tell, events) = mpsc::channel(64);
        let replaced = Arc::new(AtomicBool::new(false));
        let mut watcher = notify::recommended_watcher({
            let (watched, replaced) = (watched.clone(), Arc::clone(&replaced));
            move |event: notify::Result<Event>| {
                let Ok(event) = event else { return };
                if !is_of_interest(&event, &watched) {
                    return;
                }
                if is_replaced(&event, &watched) {
                    replaced.store(true, Ordering::Release);
                }
                // If the channel is full, a change is pending already.
                let _ = tell.try_send(Instant::now());
            }
        })
        .context("watching for changes")?;
        watcher.watch(&watched, mode).with_context(|| format!("watching {}", watched.display()))?;
        watch_above(&mut watcher, &watched);
        let seen = fingerprint(&path);
        Ok(Self { path, watched, mode, events, begun: None, seen, gone: false, replaced, watcher })
    }

    /// When the next save was first seen. Cancellation-safe.
    async fn next(&mut self) -> Instant {
        loop {
            if self.begun.is_none() {
                self.begun = match self.gone {
                    true => tokio::time::timeout(LOOK_AGAIN, self.events.recv())
                        .await
                        .unwrap_or_else(|_| Some(Instant::now())),
                    false => self.events.recv().await,
                };
            }
            let Some(saved) = self.begun else { return std::future::pending().await };
            tokio::time::sleep(SETTLE).await;
            while self.events.try_recv().is_ok() {}
            self.begun = None;
            self.watch_again();
            let now = fingerprint(&self.path);
            let (was_gone, is_gone) = (self.gone, now.is_empty());
            self.gone = is_gone;
            if is_gone && !was_gone {
                let (state, until) = match self.path.exists() {
                    true => ("has no files", "there is one again"),
                    false => ("is gone", "it is back"),
                };
                tell!("{} {state}; it is deployed when {until}", self.path.display());
            }
            if !is_gone && (was_gone || now != self.seen) {
                self.seen = now;
                return saved;
            }
        }
    }

    /// Watches what is at the path now, if that is another than before.
    fn watch_again(&mut self) {
        if !self.replaced.swap(false, Ordering::AcqRel) && !self.gone {
            return;
        }
        // The old watch has often ended by itself.
        let _ = self.watcher.unwatch(&self.watched);
        if self.watcher.watch(&self.watched, self.mode).is_err() {
            self.replaced.store(true, Ordering::Release);
        }
        watch_above(&mut self.watcher, &self.watched);
    }
}

/// Watches the directory above, which tells when what is watched is replaced. It may be one that one cannot
/// read.
fn watch_above(watcher: &mut notify::RecommendedWatcher, watched: &Path) {
    if let Some(above) = watched.parent() {
        let _ = watcher.watch(above, RecursiveMode::NonRecursive);
    }
}

/// Whether an event may be a save, and not a read or a change to something else in the directory above.
fn is_of_interest(event: &Event, watched: &Path) -> bool {
    let is_there = event.need_rescan() || event.paths.iter().any(|path| path.starts_with(watched));
    is_there && !matches!(event.kind, EventKind::Access(_))
}

/// Whether what is watched came, went or was renamed.
fn is_replaced(event: &Event, watched: &Path) -> bool {
    let is_of_names = matches!(
        event.kind,
        EventKind::Create(_) | EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))
    );
    event.need_rescan() || (is_of_names && event.paths.iter().any(|path| path == watched))
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_takes_longer_than_a_call_is_made_only_on_request() {
        let deployed = |kind: &str, start| {
            let mut request = DeployRequest { kind: Some(kind.to_owned()), start, ..Default::default() };
            without_snapshot(&mut request);
            (request.start, request.snapshot.annotate)
        };
        assert_eq!(deployed("python:default", None), (Some(Start::Spawn), None));
        assert_eq!(deployed("java:default", None), (None, Some(false)));
        assert_eq!(deployed("java:default", Some(Start::Spawn)), (Some(Start::Spawn), None));
        assert_eq!(deployed("ruby:default", None), (None, None));
    }

    /// Makes a change and waits for it to be seen.
    async fn seen(changes: &mut Changes, change: impl FnOnce()) -> bool {
        change();
        tokio::time::timeout(Duration::from_secs(60), changes.next()).await.is_ok()
    }

    #[tokio::test]
    async fn a_directory_that_is_replaced_is_watched_on() {
        let above = tempfile::tempdir().unwrap();
        let at = |name: &str| above.path().join(name);
        let write = |name: &str, content: &str| {
            fs::create_dir_all(at(name)).unwrap();
            fs::write(at(name).join("index.js"), content).unwrap();
        };
        write("code", "1");
        let mut changes = Changes::watch(&at("code")).unwrap();
        assert!(seen(&mut changes, || write("code", "12")).await, "a save");
        let renamed = || {
            write("new", "123");
            fs::rename(at("code"), at("old")).unwrap();
            fs::rename(at("new"), at("code")).unwrap();
        };
        assert!(seen(&mut changes, renamed).await, "another directory in its place");
        assert!(seen(&mut changes, || write("code", "1234")).await, "a save in that");
        fs::remove_dir_all(at("code")).unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(200), changes.next()).await.is_err(), "gone");
        assert!(seen(&mut changes, || write("code", "12345")).await, "back");
        assert!(seen(&mut changes, || write("code", "123456")).await, "a save after it");
    }
}
