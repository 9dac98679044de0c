//! Responses: a status, a JSON body, and the headers common to all responses.

use axum::{body::Body, response::Response};
use bytes::Bytes;
use flint_controller::SMALL_LIST;
use flint_model::ActivationId;
use flint_request_body::{Answer, Room};
use http::{
    HeaderName, HeaderValue, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW,
        CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE,
    },
};
use serde::{Serialize, Serializer as _};

use crate::{refusal::Refusal, transaction};

pub(crate) const ACTIVATION: HeaderName = HeaderName::from_static("x-openwhisk-activation-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=UTF-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=UTF-8");
pub(crate) const REALM: HeaderValue = HeaderValue::from_static("Basic realm=\"OpenWhisk secure realm\"");
const ALLOWED_HEADERS: HeaderValue =
    HeaderValue::from_static("Authorization, Origin, X-Requested-With, Content-Type, Accept, User-Agent");
const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, DELETE, POST, PUT, HEAD");
const ANYBODY: HeaderValue = HeaderValue::from_static("*");

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    content_type: Option<HeaderValue>,
    body: Bytes,
    activation: Option<ActivationId>,
    /// The memory permit of a large body, held until it is sent.
    room: Option<Room>,
}

impl Reply {
    /// A serialised JSON body.
    pub(crate) fn raw_json(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self { status, content_type: Some(JSON), body: body.into(), activation: None, room: None }
    }

    /// A JSON body.
    pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Result<Self, Refusal> {
        Ok(Self::raw_json(status, serde_json::to_vec(body).map_err(unwritten)?))
    }

    /// A list. Items are serialised one by one, so that only one of them is in memory.
    pub(crate) fn list<I>(items: I) -> Result<Self, Refusal>
    where
        I: Iterator,
        I::Item: Serialize,
    {
        let mut body = Vec::new();
        serde_json::Serializer::new(&mut body).collect_seq(items).map_err(unwritten)?;
        Ok(Self::raw_json(StatusCode::OK, body))
    }

    /// A text body.
    pub(crate) fn text(body: &'static str) -> Self {
        Self { content_type: Some(TEXT), ..Self::raw_json(StatusCode::OK, body) }
    }

    /// An HTML page.
    pub(crate) fn html(body: Bytes) -> Self {
        Self { content_type: Some(HTML), ..Self::raw_json(StatusCode::OK, body) }
    }

    /// No body.
    pub(crate) fn empty() -> Self {
        Self { content_type: None, ..Self::raw_json(StatusCode::OK, Bytes::new()) }
    }

    /// Status 204.
    pub(crate) fn no_content() -> Self {
        Self { status: StatusCode::NO_CONTENT, ..Self::empty() }
    }

    /// Adds the id of an activation.
    pub(crate) fn of_activation(self, id: ActivationId) -> Self {
        Self { activation: Some(id), ..self }
    }

    /// Whether its body is large, and needs a memory permit until it is sent.
    pub(crate) fn is_large(&self) -> bool {
        self.body.len() as u64 > SMALL_LIST.as_u64()
    }

    /// Attaches the memory permit.
    pub(crate) fn in_room(self, room: Option<Room>) -> Self {
        Self { room, ..self }
    }

    /// Adds the headers common to all responses.
    pub(crate) fn into_response(self, transaction: &str) -> Response {
        let mut response = Response::new(match self.room {
            Some(room) => Body::new(Answer::new(self.body, room)),
            None => Body::from(self.body),
        });
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.reserve(8);
        if let Some(content_type) = self.content_type {
            headers.insert(CONTENT_TYPE, content_type);
        }
        if let Some(value) = self.activation.and_then(|id| HeaderValue::from_str(&id.to_string()).ok()) {
            headers.insert(ACTIVATION, value);
        }
        if let Ok(value) = HeaderValue::from_str(transaction) {
            headers.insert(transaction::HEADER, value);
        }
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANYBODY);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
        response
    }
}

fn unwritten(error: serde_json::Error) -> Refusal {
    tracing::error!(%error, "an answer could not be written");
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "There was an internal server error.")
}

/// `{"error": …, "code": …}`, with a `cause` where the text is one of the API's standard ones.
pub(crate) fn refused(refusal: &Refusal, transaction: &str) -> Response {
    #[derive(Serialize)]
    struct Body<'a> {
        error: &'a str,
        code: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cause: Option<&'a str>,
    }
    let Refusal { status, text, cause, retry_after } = refusal;
    let body = serde_json::to_vec(&Body { error: text, code: transaction, cause: cause.as_deref() });
    let mut response = Reply::raw_json(*status, body.unwrap_or_default()).into_response(transaction);
    response.headers_mut().extend(retry_after.map(|seconds| (RETRY_AFTER, seconds.into())));
    match *status {
        StatusCode::UNAUTHORIZED => {
            response.headers_mut().insert(WWW_AUTHENTICATE, REALM);
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            let methods = text.rsplit_once(": ").and_then(|(_, methods)| HeaderValue::from_str(methods).ok());
            response.headers_mut().extend(methods.map(|methods| (ALLOW, methods)));
        }
        _ => {}
    }
    response
}
