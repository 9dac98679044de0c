//! `flint invoke`.

use std::{
    io::{IsTerminal, Write},
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::call::{Called, Input, call, record};
use crate::{
    cli::{Global, InvokeArgs},
    client::{Client, cut_short},
    failure::{Exit, Failure},
    output::{Progress, print_json, print_line},
};

pub(crate) async fn run(global: &Global, args: &InvokeArgs) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    let input = Input::read(&args.call)?;
    let request = input.request(&args.name, if args.asynchronous { "async=true" } else { "" })?;
    let progress = Progress::start(format!("waiting for {}", args.name));
    let called = call(&client, request).await?;
    drop(progress);
    if called.accepted() {
        return accepted(&called, args, global.json);
    }
    let (activation, status, good) = (called.activation.clone(), called.status.clone(), called.succeeded());
    let (http_status, media) = (called.answer.status(), called.media_type());
    // A file that was to be a picture does not become an error message.
    let file = args.output.as_deref().filter(|_| good);
    if global.json {
        let body = write_out(called, file, &mut Keep::default()).await?;
        let mut shown = match record(&client, &activation).await? {
            Some(record) => serde_json::to_value(record)?,
            None => json!({ "id": activation, "status": status }),
        };
        if let (Some(object), true) = (shown.as_object_mut(), file.is_none()) {
            let (key, value) = as_json(body.unwrap_or_default(), &media);
            object.insert(
                "answer".into(),
                json!({ "status": http_status.as_u16(), "content_type": media, key: value }),
            );
        }
        print_json(&shown)?;
    } else {
        write_out(called, file, &mut Show::new(&media)).await?;
        if !good {
            let words = status.replace('_', " ");
            match status.as_str() {
                "success" => {
                    eprintln!("the function answered with status {http_status} (activation {activation})")
                }
                _ => eprintln!("the function failed: {words} (activation {activation})"),
            }
            eprintln!("  try: flint logs {activation}");
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
        eprintln!(
            "it takes longer than a call waits and goes on by itself; when it has ended: flint logs {id}"
        );
    }
    Ok(Exit::Ok)
}

/// Where pieces of an answer go when they do not go to a file.
trait Sink {
    fn piece(&mut self, piece: &Bytes) -> anyhow::Result<()>;
    fn end(&mut self) -> anyhow::Result<Option<Bytes>>;
}

/// Writes the answer to the file, or to the sink; gives what the sink kept.
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
    let cannot = |error: std::io::Error| Failure::local(format!("cannot write {}: {error}", path.display()));
    let mut out = std::io::BufWriter::new(std::fs::File::create(path).map_err(cannot)?);
    while let Some(frame) = body.frame().await {
        if let Ok(piece) = frame.map_err(cut_short)?.into_data() {
            out.write_all(&piece).map_err(cannot)?;
        }
    }
    out.flush().map_err(cannot)?;
    Ok(None)
}

/// Keeps everything, for `--json`.
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

/// Shows it: JSON in whole and readable, anything else as it comes, binary not on a terminal.
struct Show {
    json: Option<Vec<u8>>,
    terminal: bool,
    last: u8,
}

impl Show {
    fn new(media: &str) -> Self {
        Self { json: is_json(media).then(Vec::new), terminal: std::io::stdout().is_terminal(), last: b'\n' }
    }
}

impl Sink for Show {
    fn piece(&mut self, piece: &Bytes) -> anyhow::Result<()> {
        if let Some(kept) = &mut self.json {
            kept.extend_from_slice(piece);
            return Ok(());
        }
        if self.terminal && looks_binary(piece) {
            return Err(Failure::usage("the answer is binary and would garble the terminal")
                .hint("write it to a file with -o FILE")
                .into());
        }
        let mut out = std::io::stdout().lock();
        out.write_all(piece)?;
        out.flush()?;
        self.last = piece.last().copied().unwrap_or(self.last);
        Ok(())
    }

    fn end(&mut self) -> anyhow::Result<Option<Bytes>> {
        match self.json.take() {
            Some(kept) => match serde_json::from_slice::<Value>(&kept) {
                Ok(value) => print_json(&value)?,
                Err(_) => print_line(&String::from_utf8_lossy(&kept))?,
            },
            // So that the prompt stands on a line of its own; a pipe gets the bytes as they are.
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

/// Control characters other than white space and escapes; a piece may end within a character.
fn looks_binary(piece: &[u8]) -> bool {
    let controls = |byte: &u8| *byte < 0x20 && !matches!(byte, b'\n' | b'\r' | b'\t' | 0x1b);
    piece.iter().any(controls) || std::str::from_utf8(piece).is_err_and(|error| error.error_len().is_some())
}

/// An answer within JSON: as JSON, text or base64.
fn as_json(body: Bytes, media: &str) -> (&'static str, Value) {
    if is_json(media)
        && let Ok(value) = serde_json::from_slice(&body)
    {
        return ("json", value);
    }
    match String::from_utf8(body.into()) {
        Ok(text) => ("text", Value::String(text)),
        Err(error) => ("base64", Value::String(STANDARD.encode(error.as_bytes()))),
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
    fn answers_within_json_keep_their_content() {
        assert_eq!(
            as_json(Bytes::from_static(b"[1]"), "application/json; charset=utf-8"),
            ("json", json!([1]))
        );
        assert_eq!(as_json(Bytes::from_static(b"hi"), "text/plain"), ("text", json!("hi")));
        assert_eq!(as_json(Bytes::from_static(b"\xff"), "image/png"), ("base64", json!("/w==")));
    }
}
