//! A call: from options to a request, from the answer to what came of it.

use std::{
    fs,
    io::Read,
    path::Path,
    time::{Duration, Instant},
};

use bytes::Bytes;
use flint_api_native::resource::ActivationResource;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use serde_json::{Map, Value};

use crate::{
    cli::CallArgs,
    client::{Client, collect, refusal_from, segment},
    failure::Failure,
    package::media_type,
};

/// How long a record may take to appear after its call has ended.
const RECORD_WITHIN: Duration = Duration::from_secs(3);

/// What is sent.
pub(crate) struct Input {
    content_type: Option<String>,
    body: Bytes,
    /// Arguments beside a body that is a file.
    query: String,
    headers: Vec<(http::HeaderName, http::HeaderValue)>,
}

impl Input {
    /// Reads what the options name.
    pub(crate) fn read(args: &CallArgs) -> Result<Self, Failure> {
        let mut params = match &args.param_file {
            Some(path) => arguments(path)?,
            None => Map::new(),
        };
        params.extend(args.params.iter().cloned());
        let headers = args.headers.clone();
        let chosen = headers.iter().find(|(name, _)| name == header::CONTENT_TYPE).is_some();
        Ok(match &args.file {
            None => Self {
                content_type: (!chosen).then(|| "application/json".to_owned()),
                body: Value::Object(params).to_string().into(),
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

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut content = Vec::new();
    let result = match path.as_os_str() == "-" {
        true => std::io::stdin().lock().read_to_end(&mut content).map(drop),
        false => fs::read(path).map(|read| content = read),
    };
    result.map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    Ok(content)
}

fn arguments(path: &Path) -> Result<Map<String, Value>, Failure> {
    let wrong = |why: String| {
        Failure::usage(format!("{}: {why}", path.display()))
            .hint("arguments are a JSON object, for example {\"name\": \"you\"}; -f sends a file as it is")
    };
    match serde_json::from_slice(&read(path)?).map_err(|error| wrong(format!("not JSON: {error}")))? {
        Value::Object(arguments) => Ok(arguments),
        _ => Err(wrong("not a JSON object".into())),
    }
}

/// Arguments as a query: strings as they are, other values as JSON.
fn query(params: &Map<String, Value>) -> String {
    let pair = |(key, value): (&String, &Value)| match value {
        Value::String(text) => format!("{}={}", segment(key), segment(text)),
        other => format!("{}={}", segment(key), segment(&other.to_string())),
    };
    params.iter().map(pair).collect::<Vec<_>>().join("&")
}

/// What came of a call, when an instance was asked at all.
pub(crate) struct Called {
    pub(crate) activation: String,
    /// `success`, `application_error`, …; `accepted` when it goes on by itself.
    pub(crate) status: String,
    pub(crate) answer: Response<Incoming>,
}

impl Called {
    pub(crate) fn accepted(&self) -> bool {
        self.status == "accepted"
    }

    /// Whether the function did what it was asked.
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

/// Sends a call. An answer without an activation is Flint's own refusal.
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

/// The record of an activation; `None` when it does not appear (records may be switched off for a namespace).
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_beside_a_file_go_to_the_query() {
        let Value::Object(params) = json!({"max": 128, "name": "a b&c", "on": true}) else { unreachable!() };
        assert_eq!(query(&params), "max=128&name=a%20b%26c&on=true");
        let input = Input { content_type: None, body: Bytes::new(), query: query(&params), headers: vec![] };
        let request = input.request("images/resize", "async=true").unwrap();
        assert_eq!(
            request.uri(),
            "/v1/functions/images%2Fresize/invoke?async=true&max=128&name=a%20b%26c&on=true"
        );
    }
}
