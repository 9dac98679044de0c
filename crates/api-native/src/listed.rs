//! Lists: what is more than small has room, before it is read and until its answer is sent.

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

/// What is listed, read in so many bytes at most, and its room.
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

/// The answer with a list.
pub(crate) fn answer(list: &impl Serialize, room: Option<Room>) -> Result<Response, ApiError> {
    let Some(room) = room else { return Ok(Json(list).into_response()) };
    let body = serde_json::to_vec(list)
        .map_err(|error| ControllerError::Internal(format!("a list could not be written: {error}")))?;
    let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    Ok((json, Body::new(Answer::new(body.into(), room))).into_response())
}
