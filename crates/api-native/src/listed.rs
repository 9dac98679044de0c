//! Memory permits for lists and records: anything larger than a small list holds one from before it is read
//! until its response is sent.

use axum::{
    Json,
    body::Body,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use flint_controller::{ControllerError, LARGEST_LIST, SMALL_LIST};
use flint_model::ByteSize;
use flint_request_body::{Answer, Room};
use serde::Serialize;

use crate::{Native, auth::Tenant, error::ApiError};

/// A list of limited size, read with a permit if it is not small.
pub(crate) async fn listed<T, F>(
    native: &Native,
    tenant: &Tenant,
    read: impl Fn(ByteSize) -> F,
) -> Result<(T, Option<Room>), ApiError>
where
    F: Future<Output = Result<T, ControllerError>>,
{
    match read(SMALL_LIST).await {
        Err(ControllerError::ListTooLarge { .. }) => {}
        small => return Ok((small?, None)),
    }
    let namespace = &tenant.caller.namespace.name;
    let room = native.config.uploads.answer(namespace.as_str(), LARGEST_LIST.as_u64()).await?;
    Ok((read(LARGEST_LIST).await?, room))
}

/// A response whose size is unknown in advance. A large one is built again once it has a permit.
pub(crate) async fn roomy<T, F>(
    native: &Native,
    tenant: &Tenant,
    make: impl Fn() -> F,
) -> Result<Response, ApiError>
where
    T: Serialize,
    F: Future<Output = Result<T, ApiError>>,
{
    let body = written(&make().await?)?;
    let size = body.len() as u64;
    if size <= SMALL_LIST.as_u64() {
        return Ok(json(body));
    }
    drop(body);
    let namespace = &tenant.caller.namespace.name;
    let room = native.config.uploads.answer(namespace.as_str(), size).await?;
    answer(&make().await?, room)
}

/// The response with a list.
pub(crate) fn answer(list: &impl Serialize, room: Option<Room>) -> Result<Response, ApiError> {
    let Some(room) = room else { return Ok(Json(list).into_response()) };
    let body = written(list)?;
    Ok(json(Body::new(Answer::new(body.into(), room))))
}

fn json(body: impl Into<Body>) -> Response {
    let headers = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (headers, body.into()).into_response()
}

fn written(list: &impl Serialize) -> Result<Vec<u8>, ControllerError> {
    serde_json::to_vec(list)
        .map_err(|error| ControllerError::Internal(format!("an answer could not be written: {error}")))
}
