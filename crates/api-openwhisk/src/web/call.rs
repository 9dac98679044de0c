//! A call of a web action, from the request to the answer.

use std::{sync::Arc, time::Instant};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use flint_controller::{Accepts, Answer, Caller, Controller, ControllerError, Exported, Invocation, Mode};
use flint_executor::{CallHead, remove_hop_by_hop};
use flint_model::{Activation, Status};
use flint_request_body::Uploads;
use http::{
    HeaderMap, Method, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, EXPECT, HOST},
};
use serde_json::value::RawValue;

use super::{
    Envelope, InputError, MediaType, Projection, ProjectionError, Target,
    accept::accepts,
    answer::{self, Refused},
    arguments,
    cors::Cors,
    permission, stream,
};
use crate::{
    basic_auth,
    refusal::Refusal,
    request::{content_length, whole_body},
};

/// What is asked for.
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a Method,
    pub(crate) headers: HeaderMap,
    /// The query as it came.
    pub(crate) query: &'a str,
    /// `None`: the path cannot name an action.
    pub(crate) target: Option<Target<'a>>,
    pub(crate) transaction: Arc<str>,
    pub(crate) arrived: Instant,
    pub(crate) uploads: &'a Uploads,
}

/// The methods of web actions.
const METHODS: &[Method] =
    &[Method::GET, Method::DELETE, Method::POST, Method::PUT, Method::HEAD, Method::OPTIONS, Method::PATCH];

/// The refusal of a request that leads to no action.
pub(crate) fn refused(refusal: Refusal, request: &HeaderMap, transaction: &str) -> Response {
    let refused = answer::refused(&refusal.into(), transaction);
    answer::finished(refused, Cors::platform(request), transaction)
}

/// The answer to a page that asks what it may do.
pub(crate) fn preflight(request: &HeaderMap, transaction: &str) -> Response {
    answer::finished(answer::empty(), Cors::platform(request), transaction)
}

/// Answers a request.
pub(crate) async fn serve(controller: &Arc<Controller>, asked: Asked<'_>, body: Body) -> Response {
    let mut cors = Cors::platform(&asked.headers);
    let transaction = Arc::clone(&asked.transaction);
    let response = match answer(controller, asked, body, &mut cors).await {
        Ok(response) => response,
        Err(refused) => {
            let Refusal { status, text, .. } = &refused.refusal;
            tracing::debug!(%transaction, status = status.as_u16(), error = text, "a web action was refused");
            answer::refused(&refused, &transaction)
        }
    };
    answer::finished(response, cors, &transaction)
}

async fn answer(
    controller: &Arc<Controller>,
    mut asked: Asked<'_>,
    body: Body,
    cors: &mut Cors,
) -> Result<Response, Refused> {
    if !METHODS.contains(asked.method) {
        let methods = METHODS.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
        let text = format!("HTTP method not allowed, supported methods: {methods}");
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, text).into());
    }
    let target = asked.target.take().ok_or(ControllerError::NotFound)?;
    let exported = controller.exported(&target.path).await?.ok_or(ControllerError::NotFound)?;
    let is_options = asked.method == Method::OPTIONS;
    if exported.is("web-custom-options") {
        *cors = Cors::Action;
    } else if is_options {
        return Ok(answer::empty());
    }
    // There is one: what is in a second one would not be looked at, and yet be passed on.
    if let Some(first) = asked.headers.get(AUTHORIZATION).cloned() {
        asked.headers.insert(AUTHORIZATION, first);
    }
    let (user, is_key) = caller(controller, &asked.headers).await?;
    // A page asks by OPTIONS what it may send before it sends any secret.
    if !is_options && !permission::is_allowed(exported.annotations(), &asked.headers, user.is_some()) {
        return Err(Refusal::new(StatusCode::UNAUTHORIZED, UNAUTHORIZED).into());
    }
    if is_key {
        // A key of this platform is not for somebody's function to see.
        asked.headers.remove(AUTHORIZATION);
    }
    let speaks_http = target.projection == Projection::Http && exported.speaks_http();
    let (body, head) = match speaks_http {
        true => request(controller, &asked, &target, body).await?,
        false => {
            let limit = exported.owner.limits().bounds.max_payload.as_u64();
            let too_large = |size| ControllerError::TooLarge { what: "Request", size, allowed: limit }.into();
            let arrival = asked.uploads.arrival(exported.owner.namespace.name.as_str());
            let body = whole_body(body, limit, Some(arrival), too_large).await?;
            (input(&asked, &target, &exported, user.as_ref(), &body)?.into(), None)
        }
    };
    let invocation = Invocation {
        path: target.path,
        body,
        head,
        mode: Mode::Blocking { wait: controller.config().limits.bounds.max_blocking_wait },
        accepts: if target.projection == Projection::Http { Accepts::Http } else { Accepts::Json },
        transaction: Arc::clone(&asked.transaction),
        arrived: asked.arrived,
        // Its owner's keys are known by their hash only, and its caller's are not for it.
        api_key: None,
    };
    let response = match controller.invoke_exported(&exported, invocation).await? {
        Answer::Http(answer) => answer::http(answer),
        Answer::Finished(record) => finished(&record, target.projection, &asked.headers)?,
        Answer::Accepted(id) => {
            let refusal = Refusal::new(StatusCode::ACCEPTED, "Response not yet ready.");
            return Err(Refused { refusal, activation: Some(id) });
        }
    };
    match is_options {
        // Only the action's headers are sent.
        true => Ok(response.map(|_| Body::empty())),
        false => Ok(response),
    }
}

const UNAUTHORIZED: &str = "The supplied authentication is invalid";

/// Who is calling: anybody, unless a key that opens something came along. And whether the key is one of this server's: that of a blocked namespace opens
/// nothing for now.
async fn caller(controller: &Controller, headers: &HeaderMap) -> Result<(Option<Caller>, bool), Refused> {
    let Some(key) = basic_auth::key_of(headers).ok().or_else(|| basic_auth::bearer_of(headers)) else {
        return Ok((None, false));
    };
    match controller.authenticate(&key).await {
        Ok(caller) => Ok((Some(caller), true)),
        Err(ControllerError::BadKey) => Ok((None, controller.is_key(&key).await?)),
        Err(error) => Err(error.into()),
    }
}

/// The arguments of an action.
fn input(
    asked: &Asked<'_>,
    target: &Target<'_>,
    exported: &Exported,
    user: Option<&Caller>,
    body: &[u8],
) -> Result<Bytes, Refused> {
    let media_type = match asked.headers.get(CONTENT_TYPE) {
        None => None,
        Some(value) => Some(MediaType::of_header(value).ok_or_else(|| {
            Refusal::malformed(format!(
                "'{}' is not a content type",
                String::from_utf8_lossy(value.as_bytes())
            ))
        })?),
    };
    let envelope = Envelope {
        method: asked.method,
        headers: &asked.headers,
        rest: target.rest,
        query: asked.query,
        user: user.map(|caller| caller.namespace.name.as_str()),
    };
    let arguments = arguments(&envelope, media_type.as_ref(), body, exported.is("raw-http"));
    Ok(arguments
        .map_err(|error| match error {
            InputError::Reserved => Refusal::from(ControllerError::ReservedParameters),
            InputError::Malformed(_) => Refusal::bad_request(error.to_string()),
        })?
        .into())
}

/// The request for a function that speaks HTTP: without what belongs to the connection.
async fn request(
    controller: &Controller,
    asked: &Asked<'_>,
    target: &Target<'_>,
    body: Body,
) -> Result<(flint_executor::Body, Option<Box<CallHead>>), Refused> {
    let mut headers = asked.headers.clone();
    remove_hop_by_hop(&mut headers);
    headers.remove(HOST);
    headers.remove(EXPECT);
    let head = CallHead {
        method: asked.method.clone(),
        path: if target.rest.is_empty() { "/".to_owned() } else { target.rest.to_owned() },
        query: asked.query.to_owned(),
        headers,
    };
    let allowed = controller.config().limits.bounds.max_body.as_u64();
    let too_large = |size| ControllerError::TooLarge { what: "Request", size, allowed }.into();
    let body = match http_body::Body::is_end_stream(&body) {
        true => Bytes::new().into(),
        // It is refused, and read: a client that is still writing would not see the refusal.
        false if content_length(&asked.headers).is_some_and(|size| size > allowed) => {
            whole_body(body, allowed, None, too_large).await?.into()
        }
        false => stream::incoming(body, allowed),
    };
    Ok((body, Some(Box::new(head))))
}

/// The answer that a record stands for.
fn finished(record: &Activation, projection: Projection, request: &HeaderMap) -> Result<Response, Refused> {
    let refused = |refusal| Refused { refusal, activation: Some(record.id) };
    let wrong = |error: ProjectionError| refused(Refusal::new(error.status(), error.to_string()));
    let result = match (record.response.status, &record.response.result) {
        (Status::Success, Some(result)) => result.clone(),
        (Status::ApplicationError, Some(result)) => {
            error_of(result).ok_or_else(|| wrong(ProjectionError::NoProperty))?
        }
        (Status::Success | Status::ApplicationError, None) => return Err(wrong(ProjectionError::NoProperty)),
        (Status::DeveloperError | Status::InternalError, _) => {
            return Err(refused(Refusal::bad_request("There was an error processing your request.")));
        }
    };
    let projected = projection.project(&result).map_err(wrong)?;
    if let Some(media) = projected.content_type.as_ref().and_then(|value| value.to_str().ok())
        && !accepts(request, media)
    {
        let text = format!("Resource representation is only available with these types:\n{media}");
        return Err(refused(Refusal::new(StatusCode::NOT_ACCEPTABLE, text)));
    }
    Ok(answer::projected(projected, record.id))
}

/// The member `error`.
fn error_of(result: &RawValue) -> Option<Box<RawValue>> {
    #[derive(serde::Deserialize)]
    struct Failed {
        error: Box<RawValue>,
    }
    serde_json::from_str::<Failed>(result.get()).ok().map(|failed| failed.error)
}
