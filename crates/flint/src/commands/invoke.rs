//! `flint invoke`: calls a function and shows its response.

use std::{
    fs::{File, OpenOptions, Permissions},
    io::{IsTerminal, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use flint_api_native::resource::ActivationResource;
use http_body_util::BodyExt;
use rustix::fs::{Access, access};
use serde::Serialize;
use serde_json::{json, value::RawValue};
use tempfile::NamedTempFile;
use tokio::signal::unix::{SignalKind, signal};

use super::call::{Called, Input, broken_off, call, failed_midway, record};
use crate::{
    cli::{Global, InvokeArgs},
    client::{Client, cut_short},
    failure::{Exit, Failure},
    output::{Progress, print_bytes, print_json, print_line, readable, tell},
};

pub(crate) async fn run(global: &Global, args: &InvokeArgs) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    let input = Input::read(&args.call)?;
    if let Some(path) = &args.output {
        // Before the call, whose response would be lost otherwise.
        Target::check(path, "leave -o out")?;
    }
    let request = input.request(&args.name, if args.asynchronous { "async=true" } else { "" })?;
    let progress = Progress::start(format!("waiting for {}", args.name));
    let called = call(&client, request).await?;
    drop(progress);
    if called.accepted() {
        return accepted(&called, args, global.json);
    }
    let (activation, status, good) = (called.activation.clone(), called.status.clone(), called.succeeded());
    let (http_status, media) = (called.answer.status(), called.media_type());
    // An error message is not written to a file meant for the result.
    let file = args.output.as_deref().filter(|_| good);
    if global.json {
        let body = match write_out(called, file, &mut Keep::default()).await {
            Ok(body) => body,
            Err(error) => {
                print_json(&broken_off(&client, &activation, error).await?)?;
                return Ok(Exit::FunctionFailed);
            }
        };
        let record = match record(&client, &activation).await? {
            Some(record) => Recorded::Whole(Box::new(record)),
            None => Recorded::Not { id: &activation, status: &status },
        };
        let answer = file.is_none().then(|| ShownAnswer {
            status: http_status.as_u16(),
            content_type: &media,
            body: as_json(body.unwrap_or_default(), &media),
        });
        print_json(&Shown { record, answer })?;
    } else {
        if let Err(error) = write_out(called, file, &mut Show::new(&media, good)).await {
            return Err(failed_midway(&broken_off(&client, &activation, error).await?).into());
        }
        if !good {
            let words = status.replace('_', " ");
            match status.as_str() {
                "success" => {
                    tell!("the function answered with status {http_status} (activation {activation})")
                }
                _ => tell!("the function failed: {words} (activation {activation})"),
            }
            tell!("  try: flint logs {activation}");
        }
    }
    Ok(if good { Exit::Ok } else { Exit::FunctionFailed })
}

fn accepted(called: &Called, args: &InvokeArgs, json: bool) -> anyhow::Result<Exit> {
    let id = &called.activation;
    if json {
        print_json(&json!({ "id": id, "status": "accepted" }))?;
    } else if args.asynchronous {
        print_line(id)?;
    } else {
        print_line(id)?;
        tell!("it takes longer than a call waits and goes on by itself; when it has ended: flint logs {id}");
    }
    Ok(Exit::Ok)
}

/// The destination of a response's pieces, other than a file.
trait Sink {
    fn piece(&mut self, piece: &Bytes) -> anyhow::Result<()>;
    fn end(&mut self) -> anyhow::Result<Option<Bytes>>;
}

/// Writes the response to the file or the sink; returns what the sink collected.
async fn write_out(
    called: Called,
    file: Option<&Path>,
    sink: &mut dyn Sink,
) -> anyhow::Result<Option<Bytes>> {
    let mut body = called.answer.into_body();
    let Some(path) = file else {
        while let Some(frame) = body.frame().await {
            if let Ok(piece) = frame.map_err(cut_short)?.into_data() {
                sink.piece(&piece)?;
            }
        }
        return sink.end();
    };
    let cannot = |error: std::io::Error| cannot_write(path, &error);
    // If interrupted, the partial file is removed.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let target = Target::open(path).map_err(cannot)?;
    let mut out = std::io::BufWriter::new(target.file());
    loop {
        let stopped = tokio::select! {
            frame = body.frame() => match frame {
                Some(frame) => {
                    if let Ok(piece) = frame.map_err(cut_short)?.into_data() {
                        out.write_all(&piece).map_err(cannot)?;
                    }
                    continue;
                }
                None => break,
            },
            _ = interrupt.recv() => SignalKind::interrupt(),
            _ = terminate.recv() => SignalKind::terminate(),
        };
        drop(out);
        drop(target);
        std::process::exit(128 + stopped.as_raw_value());
    }
    out.flush().map_err(cannot)?;
    drop(out);
    target.done().map_err(cannot)?;
    Ok(None)
}

pub(super) fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    let failure = Failure::local(format!("cannot write {}: {error}", path.display()));
    match error.kind() {
        std::io::ErrorKind::NotFound => failure.hint("make the directory first"),
        std::io::ErrorKind::IsADirectory => failure.hint("name a file in it"),
        _ => failure,
    }
}

/// The output file. It gets its name once complete: a response that breaks off leaves the previous file
/// untouched.
pub(super) enum Target {
    Beside {
        file: NamedTempFile,
        name: PathBuf,
    },
    /// A device or a pipe.
    Straight(File),
}

impl Target {
    /// Refuses an unwritable target before the call. `-`, which is stdin elsewhere, is probably not meant as
    /// a file name.
    pub(super) fn check(path: &Path, stdout: &str) -> Result<(), Failure> {
        if path.as_os_str() == "-" {
            return Err(Failure::usage("- would be a file of that name")
                .hint(format!("{stdout} for standard output, or ./- for that file")));
        }
        let checked = match std::fs::metadata(path) {
            Ok(there) if there.is_dir() => Err(std::io::ErrorKind::IsADirectory.into()),
            // A pipe's reader would take an opening and closing for the end.
            Ok(there) if !there.is_file() => Ok(()),
            Err(error) if path.as_os_str().as_encoded_bytes().ends_with(b"/") => Err(error),
            _ => {
                access(Self::place(path).1, Access::WRITE_OK | Access::EXEC_OK).map_err(std::io::Error::from)
            }
        };
        checked.map_err(|error| cannot_write(path, &error))
    }

    /// The file to write, and its directory. A link stays a link, and its target is written.
    fn place(path: &Path) -> (PathBuf, PathBuf) {
        let name = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let dir =
            name.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned();
        (name, dir)
    }

    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        let there = std::fs::metadata(path);
        if there.as_ref().is_ok_and(|there| !there.is_file()) {
            return OpenOptions::new().write(true).open(path).map(Self::Straight);
        }
        let (name, dir) = Self::place(path);
        let permissions = match there {
            Ok(there) => there.permissions(),
            Err(_) => Permissions::from_mode(0o666), // less what umask takes
        };
        std::fs::metadata(&dir)?;
        let file = tempfile::Builder::new().prefix(".flint-").permissions(permissions).tempfile_in(dir);
        // Without the temporary name, which the user does not know.
        let file = file.map_err(|error| std::io::Error::from(error.kind()))?;
        Ok(Self::Beside { file, name })
    }

    pub(super) fn file(&self) -> &File {
        match self {
            Self::Beside { file, .. } => file.as_file(),
            Self::Straight(file) => file,
        }
    }

    pub(super) fn done(self) -> std::io::Result<()> {
        match self {
            Self::Beside { file, name } => file.persist(name).map(drop).map_err(|error| error.error),
            Self::Straight(_) => Ok(()),
        }
    }
}

/// Collects everything, for `--json`.
#[derive(Default)]
struct Keep(Vec<u8>);

impl Sink for Keep {
    fn piece(&mut self, piece: &Bytes) -> anyhow::Result<()> {
        self.0.extend_from_slice(piece);
        Ok(())
    }

    fn end(&mut self) -> anyhow::Result<Option<Bytes>> {
        Ok(Some(std::mem::take(&mut self.0).into()))
    }
}

/// Shows the response: JSON formatted as a whole, anything else as it arrives, binary not on a terminal.
struct Show {
    json: Option<Vec<u8>>,
    terminal: bool,
    last: u8,
    /// Whether the call succeeded.
    good: bool,
    /// Whether it is binary and not shown.
    hidden: bool,
}

impl Show {
    fn new(media: &str, good: bool) -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self { json: is_json(media).then(Vec::new), terminal, last: b'\n', good, hidden: false }
    }
}

impl Sink for Show {
    fn piece(&mut self, piece: &Bytes) -> anyhow::Result<()> {
        if let Some(kept) = &mut self.json {
            kept.extend_from_slice(piece);
            return Ok(());
        }
        if self.terminal && (self.hidden || looks_binary(piece)) {
            // -o writes no response of a failed call, and the failure is the more important message.
            if !self.good {
                self.hidden = true;
                return Ok(());
            }
            return Err(Failure::usage("the answer is binary and would garble the terminal")
                .hint("write it to a file with -o FILE")
                .into());
        }
        print_bytes(piece)?;
        self.last = piece.last().copied().unwrap_or(self.last);
        Ok(())
    }

    fn end(&mut self) -> anyhow::Result<Option<Bytes>> {
        match self.json.take() {
            Some(kept) => match serde_json::from_slice::<&RawValue>(&kept) {
                Ok(value) => print_line(&readable(value.get()))?,
                Err(_) => print_line(&String::from_utf8_lossy(&kept))?,
            },
            None if self.hidden => {
                tell!("the answer is binary and not shown on a terminal: --json or a pipe has it");
            }
            // Puts the prompt on a line of its own; a pipe gets the bytes unchanged.
            None if self.terminal && self.last != b'\n' => print_line("")?,
            None => {}
        }
        Ok(None)
    }
}

fn is_json(media: &str) -> bool {
    let essence = media.split(';').next().unwrap_or_default().trim();
    essence == "application/json" || essence.ends_with("+json")
}

/// Whether there are control characters other than white space and escapes; a piece may end within a
/// character.
fn looks_binary(piece: &[u8]) -> bool {
    let controls = |byte: &u8| *byte < 0x20 && !matches!(byte, b'\n' | b'\r' | b'\t' | 0x1b);
    piece.iter().any(controls) || std::str::from_utf8(piece).is_err_and(|error| error.error_len().is_some())
}

/// The output of `--json`. Results keep their text, so that numbers are not changed.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    record: Recorded<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<ShownAnswer<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Recorded<'a> {
    Whole(Box<ActivationResource>),
    Not { id: &'a str, status: &'a str },
}

#[derive(Serialize)]
struct ShownAnswer<'a> {
    status: u16,
    content_type: &'a str,
    #[serde(flatten)]
    body: ShownBody,
}

/// A response within JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum ShownBody {
    Json(Box<RawValue>),
    Text(String),
    Base64(String),
}

fn as_json(body: Bytes, media: &str) -> ShownBody {
    if is_json(media)
        && let Ok(value) = serde_json::from_slice(&body)
    {
        return ShownBody::Json(value);
    }
    match String::from_utf8(body.into()) {
        Ok(text) => ShownBody::Text(text),
        Err(error) => ShownBody::Base64(STANDARD.encode(error.as_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_is_told_from_text() {
        assert!(!looks_binary("grün\n\u{1b}[1m".as_bytes()) && !looks_binary(&"ü".as_bytes()[..1]));
        assert!(looks_binary(b"\x89PNG\r\n\x1a\n") && looks_binary(b"a\0b") && looks_binary(b"\xff\xd8"));
    }

    #[test]
    fn a_binary_answer_on_a_terminal_is_refused_and_that_of_a_failed_call_left_out() {
        let piece = Bytes::from_static(b"\0");
        let show = |good| Show { json: None, terminal: true, last: b'\n', good, hidden: false };
        assert!(show(true).piece(&piece).is_err());
        let mut failed = show(false);
        failed.piece(&piece).unwrap();
        assert!(failed.hidden && failed.end().unwrap().is_none());
    }

    #[test]
    fn a_file_is_written_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("out"), dir.path().join("link"));
        let written = |path: &Path, text: &str, done: bool| {
            let target = Target::open(path).unwrap();
            target.file().write_all(text.as_bytes()).unwrap();
            if done {
                target.done().unwrap();
            }
        };
        written(&path, "half", false);
        assert!(!path.exists());
        written(&path, "whole", true);
        written(&path, "half", false);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "whole");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        written(&link, "other", true);
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "other");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left beside");
        written(Path::new("/dev/null"), "gone", true);
        assert!(!Path::new("/dev/null").is_file());
    }

    #[test]
    fn what_cannot_be_written_is_said_before_there_is_anything_to_write() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |path: &Path| Target::check(path, "leave -o out").unwrap_err().message;
        let (missing, path) = (dir.path().join("no/out"), dir.path().join("out"));
        let said = format!("cannot write {}: No such file or directory (os error 2)", missing.display());
        assert_eq!(refused(&missing), said);
        assert!(refused(dir.path()).ends_with("is a directory"));
        assert!(refused(Path::new("-")).contains("a file of that name"));
        Target::check(&path, "").unwrap();
        assert!(!path.exists());
        Target::check(Path::new("/dev/null"), "").unwrap();
    }

    #[test]
    fn answers_within_json_keep_their_content() {
        let shown = |body: &'static [u8], media: &str| {
            let body = as_json(Bytes::from_static(body), media);
            let answer = Some(ShownAnswer { status: 200, content_type: "x", body });
            serde_json::to_string(&Shown { record: Recorded::Not { id: "1", status: "success" }, answer })
                .unwrap()
        };
        let expected = |body: &str| {
            format!(r#"{{"id":"1","status":"success","answer":{{"status":200,"content_type":"x",{body}}}}}"#)
        };
        let json = shown(br#"{"n":1e400}"#, "application/json; charset=utf-8");
        assert_eq!(json, expected(r#""json":{"n":1e400}"#));
        assert_eq!(shown(b"hi", "text/plain"), expected(r#""text":"hi""#));
        assert_eq!(shown(b"\xff", "image/png"), expected(r#""base64":"/w==""#));
    }
}
