//! Makes a call: builds the request from options, and interprets the response.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use bytes::Bytes;
use flint_api_native::resource::ActivationResource;
use flint_model::Status;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use serde_json::value::RawValue;

use crate::{
    cli::CallArgs,
    client::{CUT_SHORT, Client, collect, refusal_from, segment},
    failure::{Exit, Failure},
    output::human_size,
    package::{contents::LARGEST, media_type},
};

/// How long a record may take to appear after its call.
const RECORD_WITHIN: Duration = Duration::from_secs(3);

/// Arguments as JSON text, so that numbers stay as written.
type Arguments = BTreeMap<String, Box<RawValue>>;

/// The input of a call.
pub(crate) struct Input {
    content_type: Option<String>,
    body: Bytes,
    /// Arguments sent beside a body.
    query: String,
    headers: Vec<(http::HeaderName, http::HeaderValue)>,
}

impl Input {
    /// Reads the input named by the options.
    pub(crate) fn read(args: &CallArgs) -> Result<Self, Failure> {
        let is_stdin = |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| path.as_os_str() == "-");
        if is_stdin(&args.param_file) && is_stdin(&args.file) {
            return Err(Failure::usage("-P - and -f - both ask for what is on stdin, which is there once")
                .hint("put one of them into a file"));
        }
        let mut params = match &args.param_file {
            Some(path) => arguments(path)?,
            None => Arguments::new(),
        };
        params.extend(args.params.iter().cloned());
        let headers = args.headers.clone();
        let chosen = headers.iter().find(|(name, _)| name == header::CONTENT_TYPE).is_some();
        Ok(match &args.file {
            None => Self {
                content_type: (!chosen).then(|| "application/json".to_owned()),
                body: serde_json::to_vec(&params)
                    .map_err(|error| Failure::usage(format!("cannot be written as JSON: {error}")))?
                    .into(),
                query: String::new(),
                headers,
            },
            Some(path) => Self {
                content_type: (!chosen).then(|| media_type(path).to_owned()),
                body: read(path)?.into(),
                query: query(&params),
                headers,
            },
        })
    }

    /// The request for `function`; `options` are the API's own query parameters.
    pub(crate) fn request(&self, function: &str, options: &str) -> Result<Request<Full<Bytes>>, Failure> {
        let query =
            [options, &self.query].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("&");
        let mut path = format!("/v1/functions/{}/invoke", segment(function));
        if !query.is_empty() {
            path = format!("{path}?{query}");
        }
        let mut request = Request::builder().method(Method::POST).uri(path);
        if let Some(content_type) = &self.content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request
            .body(Full::new(self.body.clone()))
            .map_err(|error| Failure::usage(format!("cannot call {function}: {error}")))
    }
}

/// Reads a file, or stdin.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let content = match path.as_os_str() == "-" {
        true => read_within(LARGEST, "a call", io::stdin().lock()),
        false => fs::File::open(path).and_then(|file| read_within(LARGEST, "a call", file)),
    };
    content.map_err(|error| Failure::usage(format!("cannot read {}: {error}", source_name(path))))
}

/// The name of a file for people; `-` is stdin.
pub(super) fn source_name(path: &Path) -> String {
    if path.as_os_str() == "-" { "stdin".to_owned() } else { path.display().to_string() }
}

/// Reads everything, but no more than any server would accept: the input may be endless.
pub(super) fn read_within(most: u64, what_for: &str, from: impl Read) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    from.take(most + 1).read_to_end(&mut content)?;
    match content.len() as u64 > most {
        true => {
            let most = human_size(most);
            Err(io::Error::other(format!("it has more than {most}, too much for {what_for}")))
        }
        false => Ok(content),
    }
}

fn arguments(path: &Path) -> Result<Arguments, Failure> {
    let wrong = |why: String| {
        Failure::usage(format!("{}: {why}", source_name(path)))
            .hint("arguments are a JSON object, for example {\"name\": \"you\"}; -f sends a file as it is")
    };
    let json: Box<RawValue> =
        serde_json::from_slice(&read(path)?).map_err(|error| wrong(format!("not JSON: {error}")))?;
    if !json.get().starts_with('{') {
        return Err(wrong("not a JSON object".into()));
    }
    serde_json::from_str(json.get()).map_err(|error| wrong(error.to_string()))
}

/// Arguments as a query: strings as they are, other values as JSON.
fn query(params: &Arguments) -> String {
    let pairs = params.iter().map(|(key, value)| {
        let text = serde_json::from_str::<String>(value.get());
        format!("{}={}", name(key), segment(text.as_deref().unwrap_or(value.get())))
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// An argument's name. The API recognises its own options before decoding names, so an argument with such a
/// name has one letter encoded.
fn name(key: &str) -> String {
    match (key, key.bytes().next()) {
        ("async" | "record" | "wait_ms", Some(first)) => format!("%{first:02X}{}", &key[1..]),
        _ => segment(key),
    }
}

/// The response to a call that reached an instance.
pub(crate) struct Called {
    pub(crate) activation: String,
    /// `success`, `application_error`, …; `accepted` if the call goes on.
    pub(crate) status: String,
    pub(crate) answer: Response<Incoming>,
}

impl Called {
    pub(crate) fn accepted(&self) -> bool {
        self.status == "accepted"
    }

    /// Whether the function succeeded.
    pub(crate) fn succeeded(&self) -> bool {
        self.status == "success"
            && !self.answer.status().is_client_error()
            && !self.answer.status().is_server_error()
    }

    pub(crate) fn media_type(&self) -> String {
        let value = self.answer.headers().get(header::CONTENT_TYPE);
        value.and_then(|value| value.to_str().ok()).unwrap_or("application/octet-stream").to_owned()
    }
}

/// Sends a call. A response without an activation is Flint's own refusal.
pub(crate) async fn call(client: &Client, request: Request<Full<Bytes>>) -> Result<Called, Failure> {
    let answer = client.send(request).await?;
    let header =
        |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    match (header("x-flint-activation-id"), header("x-flint-status")) {
        (Some(activation), status) => {
            let accepted = answer.status() == StatusCode::ACCEPTED && status.is_none();
            let status =
                if accepted { "accepted".to_owned() } else { status.unwrap_or_else(|| "success".to_owned()) };
            Ok(Called { activation, status, answer })
        }
        (None, _) => {
            let (status, headers) = (answer.status(), answer.headers().clone());
            Err(refusal_from(status, &headers, &collect(answer).await?))
        }
    }
}

/// The record of an activation; `None` if it does not appear (a namespace may keep no records).
pub(crate) async fn record(client: &Client, activation: &str) -> Result<Option<ActivationResource>, Failure> {
    let began = Instant::now();
    let mut pause = Duration::from_millis(2);
    loop {
        match client.get(&format!("/v1/activations/{activation}")).await {
            Ok(record) => return Ok(Some(record)),
            Err(failure) if failure.code == "not_found" && began.elapsed() < RECORD_WITHIN => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_millis(200));
            }
            Err(failure) if failure.code == "not_found" => return Ok(None),
            Err(failure) => return Err(failure),
        }
    }
}

/// For a response that broke off: the record, if it says that the function failed too.
pub(crate) async fn broken_off(
    client: &Client,
    activation: &str,
    error: anyhow::Error,
) -> anyhow::Result<ActivationResource> {
    if error.downcast_ref::<Failure>().is_none_or(|failure| failure.code != CUT_SHORT) {
        return Err(error);
    }
    match record(client, activation).await {
        Ok(Some(record)) if record.status != Status::Success => Ok(record),
        _ => Err(error),
    }
}

/// The failure of a function during its response.
pub(crate) fn failed_midway(record: &ActivationResource) -> Failure {
    let result = record.result.as_ref().map_or("", |result| result.get());
    let message = match serde_json::from_str(result) {
        Ok(ErrorResult { error: serde_json::Value::String(text) }) => text,
        _ => result.to_owned(),
    };
    let message = format!("the function failed while it answered: {message}");
    Failure::new(Exit::FunctionFailed, "function_failed", message).hint(format!("flint logs {}", record.id))
}

#[derive(serde::Deserialize)]
struct ErrorResult {
    error: serde_json::Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(json: &str) -> Arguments {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn numbers_pass_unchanged() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), r#"{"n":12345678901234567890123, "e": 1e400, "x": 1, "s": "\ud800"}"#)
            .unwrap();
        let args = CallArgs {
            params: vec![("x".to_owned(), serde_json::from_str("1.10").unwrap())],
            param_file: Some(file.path().to_owned()),
            ..CallArgs::default()
        };
        let body = Input::read(&args).unwrap().body;
        assert_eq!(body, r#"{"e":1e400,"n":12345678901234567890123,"s":"\ud800","x":1.10}"#);
        let both = CallArgs { param_file: Some("-".into()), file: Some("-".into()), ..CallArgs::default() };
        assert!(Input::read(&both).is_err_and(|failure| failure.message.contains("stdin")));
        for bad in ["[1]", "{", "", "{} x"] {
            fs::write(file.path(), bad).unwrap();
            assert!(Input::read(&args).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_has_no_end_is_not_read_to_its_end() {
        let error = read_within(2048, "a call", io::repeat(b'y')).unwrap_err();
        assert_eq!(error.to_string(), "it has more than 2.0 KB, too much for a call");
        assert_eq!(read_within(3, "a call", &b"yes"[..]).unwrap(), b"yes");
    }

    #[test]
    fn arguments_are_not_taken_for_the_options_of_the_api() {
        let params = given(r#"{"async": true, "record": 1, "wait_ms": "x", "asynchronous": 2}"#);
        assert_eq!(query(&params), "%61sync=true&asynchronous=2&%72ecord=1&%77ait_ms=x");
    }

    #[test]
    fn arguments_beside_a_file_go_to_the_query() {
        let params = given(r#"{"max": 128, "name": "a b&c", "on": true}"#);
        assert_eq!(query(&params), "max=128&name=a%20b%26c&on=true");
        let input = Input { content_type: None, body: Bytes::new(), query: query(&params), headers: vec![] };
        let request = input.request("images/resize", "async=true").unwrap();
        assert_eq!(
            request.uri(),
            "/v1/functions/images%2Fresize/invoke?async=true&max=128&name=a%20b%26c&on=true"
        );
    }
}
