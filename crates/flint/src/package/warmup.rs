//! Reads warm-up events from files.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use flint_api_native::resource::WarmupEventResource;
use flint_model::SnapshotOptions;
use serde_json::Value;

use super::{contents::cannot_read, media_type};
use crate::failure::Failure;

/// Stands for no warm-up, in place of a file.
const NONE: &str = "none";

/// The warm-up events: one per file, then those of `list`.
pub(crate) fn events(files: &[PathBuf], list: Option<&Path>) -> Result<Vec<WarmupEventResource>, Failure> {
    if files.iter().any(|file| file.as_os_str() == NONE) {
        return match (files, list) {
            ([_], None) => Ok(Vec::new()),
            _ => Err(Failure::usage("--warmup none stands alone: it means that there are no events")
                .hint("leave it out, or write ./none for a file of that name")),
        };
    }
    let mut events = files.iter().map(|file| event(file)).collect::<Result<Vec<_>, _>>()?;
    if let Some(list) = list {
        let text = read(list)?;
        let more: Vec<WarmupEventResource> = serde_json::from_slice(&text).map_err(|error| {
            Failure::usage(format!("{} is not a list of warm-up events: {error}", list.display()))
                .hint(r#"write a JSON array of {"params": …} and {"body": BASE64, "content_type": …}"#)
        })?;
        events.extend(more);
    }
    Ok(events)
}

/// JSON is arguments; anything else is a request body.
fn event(file: &Path) -> Result<WarmupEventResource, Failure> {
    let content = read(file)?;
    let media = media_type(file);
    if media != "application/json" {
        return Ok(WarmupEventResource::body(&content, media));
    }
    let value: Value = serde_json::from_slice(&content).map_err(|error| {
        Failure::usage(format!("{} is not JSON: {error}", file.display()))
            .hint("a .json file has the arguments of a call; a body that only looks like it needs another extension")
    })?;
    Ok(WarmupEventResource::params(value))
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let meta = fs::metadata(file).map_err(|error| cannot_read(file, &error))?;
    let most = SnapshotOptions::MAX_BYTES;
    // A list is longer than its events, because of base64 and JSON.
    if meta.len() > 2 * most.as_u64() {
        return Err(Failure::usage(format!(
            "{} is too large for a warm-up event: a function may have {most} of them in all",
            file.display()
        )));
    }
    let mut content = Vec::new();
    // A device or a pipe has no length.
    let read = fs::File::open(file).and_then(|open| open.take(2 * most.as_u64()).read_to_end(&mut content));
    read.map(|_| content).map_err(|error| cannot_read(file, &error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_arguments_and_other_files_are_bodies() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = dir.path().join(name);
            fs::write(&path, content).unwrap();
            path
        };
        let list = file("all.json", br#"[{"params": 7}, {"body": "AA==", "content_type": "a/b"}]"#);
        let files = [file("event.json", b"[1, 2]"), file("photo.JPG", b"\xff\xd8")];
        let read = events(&files, Some(&list)).unwrap();
        let expected = [
            WarmupEventResource::params(json!([1, 2])),
            WarmupEventResource::body(b"\xff\xd8", "image/jpeg"),
            WarmupEventResource::params(json!(7)),
            WarmupEventResource::body(b"\0", "a/b"),
        ];
        assert_eq!(read, expected);
        assert!(events(&[NONE.into()], None).unwrap().is_empty());
    }

    #[test]
    fn what_cannot_be_an_event_is_refused_with_the_cause() {
        let dir = tempfile::tempdir().unwrap();
        let broken = dir.path().join("broken.json");
        fs::write(&broken, "{").unwrap();
        let huge = dir.path().join("huge.png");
        fs::File::create(&huge).unwrap().set_len(3 << 20).unwrap();
        let message = |files: &[PathBuf], list| events(files, list).unwrap_err().message;
        assert!(message(std::slice::from_ref(&broken), None).contains("broken.json is not JSON"));
        assert!(message(&[], Some(&broken)).contains("not a list of warm-up events"));
        assert!(message(&[huge], None).contains("too large for a warm-up event: a function may have 1 MB"));
        assert!(message(&["/nowhere.json".into()], None).starts_with("cannot read /nowhere.json"));
        assert!(message(&[NONE.into(), "event.json".into()], None).contains("stands alone"));
    }
}
