//! The deploy handler, with progress as NDJSON if asked for.

use std::sync::Arc;

use axum::{
    Json,
    body::Body as HttpBody,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use flint_controller::{
    ControllerError, PrepareWhen, PutCode, PutFunction, allowed_around_code, check_json_text,
};
use flint_model::{
    Annotations, ByteSize, CodeFormat, Function, FunctionLimits, FunctionPath, Isolation, Parameter,
    Parameters, SnapshotOptions, SnapshotOptionsError, Start, StrategyRequest,
};
use flint_request_body::Arrival;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    Native,
    auth::Tenant,
    body::{collect_code, collect_deploy, written},
    error::{ApiError, Asked, Path, is_object, no_object},
    functions::path_of,
    resource::{CodeUpload, DeployRequest, DeployResult, FunctionResource, LimitsPatch, ProgressLine},
};

/// Buffered steps of a deploy for a client that does not read.
const STEPS_UNREAD: usize = 16;

/// Requests up to this size are parsed where they are read.
const QUICK: usize = 64 << 10;

/// Maximum size of snapshot options as JSON: their events have half of it at most, and may be in base64.
const SNAPSHOT: ByteSize = ByteSize::mib(2);

/// Create or replace a function
///
/// The body is a `DeployRequest` in JSON, or the code itself with one of these content types: `application/zip`, `application/gzip`,
/// `application/java-archive`, `application/octet-stream` (an executable) or source (`text/javascript`, `text/x-python`, `text/x-java`,
/// `text/plain`). With code as the body, options such as `kind` and `main` go in the query. With `Accept: application/x-ndjson`, the response
/// has one JSON line for each step, and a `result` or an `error` as its last line.
#[utoipa::path(put, path = "/v1/functions/{name}", tag = "functions",
    params(
        ("name" = String, Path, description = "Function name: `name`, or `package%2Fname`"),
        ("kind" = Option<String>, Query, description = "The runtime; only with code as the body, and then required"),
        ("main" = Option<String>, Query, description = "The entry point; only with code as the body"),
        ("contract" = Option<String>, Query, description = "How the code receives a call; only with code as the body"),
        ("memory_mb" = Option<u64>, Query, description = "Memory of one instance, in MiB; only with code as the body"),
        ("timeout_ms" = Option<u64>, Query, description = "Time limit in milliseconds; only with code as the body"),
    ),
    request_body(content((DeployRequest = "application/json"), ("application/zip"), ("application/gzip"), ("application/java-archive"),
        ("application/octet-stream"), ("text/javascript"), ("text/x-python"), ("text/x-java"), ("text/plain"))),
    responses(
        (status = 200, description = "Replaced; or, with `Accept: application/x-ndjson`, the progress as lines of `ProgressLine`", content((DeployResult = "application/json"), (String = "application/x-ndjson"))),
        (status = 201, description = "Created", body = DeployResult),
        (status = 400, description = "Invalid request, or code that does not fit its kind", body = crate::resource::ErrorBody),
        (status = 401, description = "Missing or invalid key", body = crate::resource::ErrorBody),
        (status = 403, description = "Not permitted in this namespace", body = crate::resource::ErrorBody),
        (status = 409, description = "Conflict with existing data or a concurrent write, or a storage quota is reached", body = crate::resource::ErrorBody),
        (status = 413, description = "The code or another part of the request is too large", body = crate::resource::ErrorBody),
        (status = 415, description = "Not a content type of code", body = crate::resource::ErrorBody),
        (status = 422, description = "The package binding is circular", body = crate::resource::ErrorBody),
        (status = 429, description = "Too many builds wait already; `Retry-After` says when to try again", body = crate::resource::ErrorBody),
        (status = 503, description = "No capacity at the moment", body = crate::resource::ErrorBody),
    ))]
pub(crate) async fn deploy(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(name): Path<String>,
    Asked(query): Asked<RawOptions>,
    request: Request,
) -> Result<Response, ApiError> {
    let path = path_of(&tenant.caller, &name)?;
    let (parts, body) = request.into_parts();
    let asked = {
        // Released before the function is prepared, which takes as long as user code does.
        let length = http_body::Body::size_hint(&body).exact();
        let (uploads, namespace) = (&native.config.uploads, tenant.caller.namespace.name.as_str());
        let room = uploads.room(namespace, length).await;
        let arrival = uploads.arrival_without(room.as_ref(), namespace);
        read(&native, &tenant, &parts.headers, query, body, arrival).await?
    };
    let put = put_of(asked, &native.controller.config().defaults)?;
    match wants_progress(&parts.headers) {
        true => Ok(with_progress(native, tenant, path, put)),
        false => {
            let result = carry_out(&native, &tenant, path, put, &|_| {}).await?;
            let status = if result.created { StatusCode::CREATED } else { StatusCode::OK };
            Ok((status, Json(result)).into_response())
        }
    }
}

/// What may stand beside code that is the body.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawOptions {
    kind: Option<String>,
    main: Option<String>,
    contract: Option<String>,
    memory_mb: Option<u64>,
    timeout_ms: Option<u64>,
}

async fn read(
    native: &Native,
    tenant: &Tenant,
    headers: &HeaderMap,
    query: RawOptions,
    body: HttpBody,
    arrival: Option<Arrival<'_>>,
) -> Result<Upload, ApiError> {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let max_code = native.controller.config().limits.bounds.max_code.as_u64();
    if essence == "application/json" {
        let max_parameters = tenant.caller.limits().bounds.max_parameters;
        let body = collect_deploy(body, max_code, max_parameters, arrival).await?;
        if body.len() <= QUICK {
            return parse(&body, max_parameters);
        }
        let namespace = &tenant.caller.namespace.name;
        return native.controller.aside(namespace, move || parse(&body, max_parameters)).await?;
    }
    let format = match essence.as_str() {
        "application/zip" => Some(CodeFormat::Zip),
        "application/gzip" | "application/x-gzip" | "application/x-tar+gzip" => Some(CodeFormat::TarGz),
        "application/java-archive" => Some(CodeFormat::Jar),
        "application/octet-stream" => None,
        "text/javascript" | "application/javascript" | "text/x-python" | "text/x-java" | "text/plain" => {
            Some(CodeFormat::Source)
        }
        _ => {
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", format!("'{essence}' is not a type of code"))
                .hint("send application/json (a DeployRequest), application/zip, application/gzip, application/java-archive, application/octet-stream or text/plain"));
        }
    };
    let contract = query
        .contract
        .map(|text| text.parse())
        .transpose()
        .map_err(|error| ApiError::invalid(format!("{error}")))?;
    let limits =
        LimitsPatch { memory_mb: query.memory_mb, timeout_ms: query.timeout_ms, ..LimitsPatch::default() };
    let request =
        DeployRequest { kind: query.kind, main: query.main, contract, limits, ..DeployRequest::default() };
    let content = collect_code(body, max_code, arrival).await?;
    Ok(Upload { request, code: Some((format, content)) })
}

/// A request with decoded code. Without a format, Flint recognises it.
struct Upload {
    request: DeployRequest,
    code: Option<(Option<CodeFormat>, Bytes)>,
}

/// Parses a deploy request and decodes its code.
fn parse(body: &[u8], max_parameters: ByteSize) -> Result<Upload, ApiError> {
    if !is_object(body) {
        return Err(no_object());
    }
    let wrong = |error| {
        ApiError::invalid(format!("the body is not a deploy request: {error}"))
            .hint("GET /v1/openapi.json describes it, see DeployRequest")
    };
    serde_json::from_slice::<Outline<'_>>(body).map_err(wrong)?.check(body.len() as u64, max_parameters)?;
    let mut request: DeployRequest = serde_json::from_slice(body).map_err(wrong)?;
    let code = request.code.take().map(decode).transpose()?;
    Ok(Upload { request, code })
}

/// The parts of a deploy request whose sizes are checked before they become values.
#[derive(Deserialize)]
struct Outline<'a> {
    #[serde(borrow)]
    code: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    #[serde(borrow)]
    snapshot: Option<&'a RawValue>,
}

impl Outline<'_> {
    fn check(&self, whole: u64, max_parameters: ByteSize) -> Result<(), ApiError> {
        for (what, part) in [("annotations", self.annotations), ("parameters", self.parameters)] {
            check_json_text(what, part.map_or("", RawValue::get), max_parameters)?;
        }
        let snapshot = self.snapshot.map_or("", RawValue::get);
        if let Err(ControllerError::TooLarge { size, .. }) = check_json_text("snapshot", snapshot, SNAPSHOT) {
            let size = ByteSize::bytes(size);
            return Err(ApiError::invalid(SnapshotOptionsError::TooLarge { size }.to_string()));
        }
        let size = whole.saturating_sub(self.code.map_or(0, code_length));
        let allowed = allowed_around_code(max_parameters);
        match size > allowed {
            true => Err(ControllerError::TooLarge { what: "Request without its code", size, allowed }.into()),
            false => Ok(()),
        }
    }
}

/// The length of the code as it came; 0 if it is not as it should be.
fn code_length(code: &RawValue) -> u64 {
    #[derive(Deserialize)]
    struct Outline<'a> {
        #[serde(borrow)]
        text: Option<&'a RawValue>,
        #[serde(borrow)]
        base64: Option<&'a RawValue>,
    }
    let length = |part: Option<&RawValue>| part.map_or(0, |part| part.get().len() as u64);
    let outline: Result<Outline<'_>, _> = serde_json::from_str(code.get());
    outline.map_or(0, |Outline { text, base64 }| length(text) + length(base64))
}

fn decode(upload: CodeUpload) -> Result<(Option<CodeFormat>, Bytes), ApiError> {
    let content = match (upload.text, upload.base64) {
        (Some(text), None) => text.into(),
        (None, Some(base64)) => STANDARD
            .decode(base64)
            .map_err(|error| ApiError::invalid(format!("code.base64 is not base64: {error}")))?
            .into(),
        _ => return Err(ApiError::invalid("code needs exactly one of 'text' and 'base64'")),
    };
    Ok((Some(upload.format), content))
}

/// Fills in defaults for absent fields.
fn put_of(Upload { request, code }: Upload, defaults: &FunctionLimits) -> Result<PutFunction, ApiError> {
    let code = match code {
        None => None,
        Some((format, content)) => {
            if content.is_empty() {
                return Err(ApiError::invalid("the code is empty"));
            }
            let kind = request.kind.ok_or_else(|| {
                ApiError::invalid("'kind' is missing")
                    .hint("say which runtime the code is for, for example nodejs, python, java or native")
            })?;
            Some(PutCode { kind, content, format, main: request.main.filter(|main| !main.trim().is_empty()) })
        }
    };
    let mut annotations = Annotations::default();
    for (key, value) in request.annotations {
        annotations.set(key, value);
    }
    if let Some(retry) = &request.retry {
        retry.note(&mut annotations);
    }
    Ok(PutFunction {
        overwrite: true,
        code,
        strategy: StrategyRequest {
            contract: request.contract,
            isolation: request.isolation,
            start: request.start,
            reuse: request.reuse,
        },
        snapshot: Some(request.snapshot.options().map_err(ApiError::invalid)?),
        wasm: Some(request.wasm.into()),
        network: Some(request.network.unwrap_or_default()),
        limits: request.limits.apply(defaults.clone()).into(),
        parameters: Some(Parameters(request.parameters.into_iter().map(Parameter::from).collect())),
        annotations,
        // A deploy through this API is complete: nothing of the old function stays.
        forget_annotations: true,
        prepare: PrepareWhen::Now,
        ..PutFunction::default()
    })
}

/// Reads any JSON as a deploy request, as the handler does; for fuzz targets.
#[cfg(feature = "fuzzing")]
pub fn fuzz_deploy(body: &[u8]) {
    let Ok(upload) = parse(body, ByteSize::kib(64)) else { return };
    let sent = upload.code.as_ref().map(|(_, content)| content.clone());
    assert!(sent.as_ref().is_none_or(|content| content.len() <= body.len()), "more code than was sent");
    let Ok(put) = put_of(upload, &FunctionLimits::default()) else { return };
    let taken = put.code.map(|code| code.content);
    assert!(taken == sent && taken.is_none_or(|content| !content.is_empty()), "other code than was sent");
    if let Some(options) = put.snapshot {
        let _ = options.check();
    }
}

async fn carry_out(
    native: &Native,
    tenant: &Tenant,
    path: FunctionPath,
    put: PutFunction,
    progress: &(dyn Fn(&str) + Send + Sync),
) -> Result<DeployResult, ApiError> {
    let deployed = native.controller.put_function(&tenant.caller, path.clone(), put, progress).await;
    let deployed = deployed.map_err(|error| ApiError::no_package(error, &path))?;
    let mut notes: Vec<String> = unused_options(native, &deployed.function).await.into_iter().collect();
    notes.extend(unused_grants(&deployed.function));
    Ok(DeployResult {
        notes,
        function: FunctionResource::with(&deployed.function, deployed.prepared.as_deref()),
        created: deployed.created,
        steps: deployed.steps,
        prepare_us: u64::try_from(deployed.took.as_micros()).unwrap_or(u64::MAX),
    })
}

/// Why a function is not warmed up although warm-up options were given.
async fn unused_options(native: &Native, function: &Function) -> Option<String> {
    if function.snapshot.is_default() || function.strategy.start == Start::Fork {
        return None;
    }
    // Java has no snapshots, but without `annotate` no class archive.
    let others = || SnapshotOptions { annotate: true, ..function.snapshot.clone() };
    if function.kind.family() == "java" && others().is_default() {
        return None;
    }
    let why = match native.controller.why_not_forked(function).await {
        Some(why) => why,
        None => format!("that is for start fork; this function's start is {}", function.strategy.start),
    };
    Some(format!("its snapshot options change nothing here, it is not warmed up: {why}"))
}

/// Why WebAssembly grants have no effect although they were given.
fn unused_grants(function: &Function) -> Option<String> {
    let isolation = function.strategy.isolation;
    let unused = isolation != Isolation::Wasm && !function.wasm.is_default();
    unused.then(|| {
        format!(
            "its wasm options change nothing here: they are for isolation wasm, this function's is {isolation}"
        )
    })
}

fn wants_progress(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|accept| accept.contains("application/x-ndjson"))
}

/// Streams progress. The deploy runs to its end even if the client goes away.
fn with_progress(native: Arc<Native>, tenant: Tenant, path: FunctionPath, put: PutFunction) -> Response {
    let (sender, body) = written(STEPS_UNREAD);
    let line = |line: &ProgressLine| {
        let mut text = serde_json::to_vec(line).unwrap_or_default();
        text.push(b'\n');
        Bytes::from(text)
    };
    tokio::spawn(async move {
        // A client that reads slowly misses steps, but never the result.
        let progress = |step: &str| drop(sender.try_send(Ok(line(&ProgressLine::Progress(step.to_owned())))));
        let last = match carry_out(&native, &tenant, path, put, &progress).await {
            Ok(result) => ProgressLine::Result(Box::new(result)),
            Err(error) => ProgressLine::Error(error.into_detail()),
        };
        let _ = sender.send(Ok(line(&last))).await;
    });
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"))], body).into_response()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(body: &serde_json::Value) -> String {
        let parsed = parse(body.to_string().as_bytes(), ByteSize::kib(1));
        let Err(error) = parsed else { panic!("it is taken") };
        error.into_detail().message
    }

    #[test]
    fn the_parts_of_a_request_are_measured_before_they_become_values() {
        // With a field that no value gets past, and that says where parsing was.
        let many = vec![json!({"": 0}); 200];
        for (part, value) in [("annotations", json!({ "a": many })), ("parameters", json!(many))] {
            let error = refused(&json!({ "aaa": 0, part: value }));
            assert!(error.starts_with(&format!("{part} larger than allowed: ")), "{error}");
        }
        let many = vec![json!({"": 0}); 300_000];
        let error = refused(&json!({"aaa": 0, "snapshot": {"warmup": [{ "params": many }]}}));
        assert!(error.starts_with("the warm-up events have 2"), "{error}");
        let many = vec![json!({"": 0}); 600_000];
        for (part, value) in [("wasm", json!(many)), ("code", json!({"format": "source", "more": many}))] {
            let error = refused(&json!({ "aaa": 0, part: value }));
            assert!(error.starts_with("Request without its code larger than allowed: "), "{error}");
        }
        assert!(refused(&json!({"aaa": 0})).contains("unknown field `aaa`"));
    }

    #[test]
    fn code_that_is_no_base64_is_refused() {
        // Padding that is missing or too much, a stray character, a line break, the alphabet of URLs.
        for text in ["YWJj ZA==", "YWJjZA", "YWJjZA=", "YWJj=", "YWJjZA===", "*", "YWJj\nZA==", "_-8="] {
            let error = refused(&json!({"kind": "nodejs", "code": {"format": "zip", "base64": text}}));
            assert!(error.starts_with("code.base64 is not base64: "), "{text:?}: {error}");
        }
        let one = "code needs exactly one of 'text' and 'base64'";
        assert_eq!(refused(&json!({"code": {"format": "source"}})), one);
        assert_eq!(refused(&json!({"code": {"format": "source", "text": "", "base64": ""}})), one);
        let taken = json!({"code": {"format": "zip", "base64": "YWJjZA=="}}).to_string();
        let upload = parse(taken.as_bytes(), ByteSize::kib(1)).unwrap_or_else(|_| panic!("it is refused"));
        assert_eq!(upload.code, Some((Some(CodeFormat::Zip), Bytes::from_static(b"abcd"))));
    }

    #[test]
    fn spaces_and_code_take_nothing_from_what_is_around_it() {
        let annotations = json!({"a": vec![json!({"": 0}); 100]});
        for name in ["text", "base64"] {
            let code = json!({"format": "source", name: "abcd".repeat(2 << 20)});
            let body = json!({"code": code, "annotations": annotations});
            let body = serde_json::to_vec_pretty(&body).unwrap();
            let upload = parse(&body, ByteSize::kib(1)).unwrap_or_else(|_| panic!("{name} is refused"));
            assert!(upload.code.unwrap().1.len() > 1 << 20);
            assert_eq!(upload.request.annotations["a"], annotations["a"]);
        }
    }
}
