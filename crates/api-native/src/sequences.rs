//! Handlers for sequences: write, read, list, delete. They are called like functions.

use std::sync::Arc;

use axum::{Json, extract::State, response::Response};
use flint_controller::{ControllerError, LimitsWish, PutSequence};
use flint_model::{Annotations, Entity, RetryOptions};
use flint_store::Page;
use serde::Deserialize;

use crate::{
    Native,
    auth::Tenant,
    error::{ApiError, Asked, Path, Sent},
    functions::path_of,
    listed::{answer, listed},
    resource::{ErrorBody, SequenceList, SequenceRequest, SequenceResource},
};

/// What to do about a name that is taken.
const REPLACES: &str =
    "`flint sequence create --update` replaces what has that name, as does a request without `create_only`";

/// Which part of a list; all of it unless there is a limit.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PartQuery {
    limit: Option<usize>,
    skip: usize,
}

/// List sequences, most recently written first
///
/// A list of more than 8 MiB is refused: ask for a smaller page.
#[utoipa::path(get, path = "/v1/sequences", tag = "functions",
    params(("limit" = Option<usize>, Query, description = "Maximum number of sequences; default all"), ("skip" = Option<usize>, Query, description = "Number of entries to skip; default 0")),
    responses(
        (status = 200, description = "The sequences requested", body = SequenceList),
        (status = 400, description = "Invalid request, or a list that is too large", body = ErrorBody),
        (status = 401, description = "Missing or invalid key", body = ErrorBody),
        (status = 503, description = "The server is sending too many large responses at the moment", body = ErrorBody),
    ))]
pub(crate) async fn list(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Asked(query): Asked<PartQuery>,
) -> Result<Response, ApiError> {
    let (controller, caller) = (&native.controller, &tenant.caller);
    let page = Page { skip: query.skip, limit: query.limit.unwrap_or(usize::MAX) };
    let read = |most| controller.sequences(caller, &caller.namespace.name, page, most);
    let (sequences, room) = listed(&native, &tenant, read).await?;
    let sequences = sequences.iter().map(SequenceResource::from).collect();
    answer(&SequenceList { sequences }, room)
}

/// Get a sequence
#[utoipa::path(get, path = "/v1/sequences/{name}", tag = "functions",
    params(("name" = String, Path, description = "Sequence name: `name`, or `package%2Fname`")),
    responses(
        (status = 200, description = "The sequence", body = SequenceResource),
        (status = 404, description = "No such sequence", body = ErrorBody),
    ))]
pub(crate) async fn get(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(name): Path<String>,
) -> Result<Json<SequenceResource>, ApiError> {
    let path = path_of(&tenant.caller, &name)?;
    match native.controller.action(&tenant.caller, &path).await {
        Ok(Entity::Sequence(sequence)) => Ok(Json(SequenceResource::from(&sequence))),
        Ok(_) => Err(ControllerError::NoSequence(path.to_string()).into()),
        Err(error) => Err(ApiError::no_sequence(error, path.namespace.as_str(), &path.local())),
    }
}

/// Create or replace a sequence
///
/// A call of the sequence calls its components in order; each receives the answer of the one before.
#[utoipa::path(put, path = "/v1/sequences/{name}", tag = "functions",
    params(("name" = String, Path, description = "Sequence name: `name`, or `package%2Fname`")),
    request_body = SequenceRequest,
    responses(
        (status = 200, description = "The sequence", body = SequenceResource),
        (status = 400, description = "Invalid request", body = ErrorBody),
        (status = 409, description = "The name is taken and `create_only` is set, or there was a concurrent write", body = ErrorBody),
    ))]
pub(crate) async fn put(
    State(native): State<Arc<Native>>,
    Path(name): Path<String>,
    Sent(tenant, asked): Sent<SequenceRequest>,
) -> Result<Json<SequenceResource>, ApiError> {
    let path = path_of(&tenant.caller, &name)?;
    let components: Result<_, _> =
        asked.components.iter().map(|component| path_of(&tenant.caller, component)).collect();
    let mut annotations = Annotations::default();
    if let Some(retry) = &asked.retry {
        retry.note(&mut annotations);
    }
    // A write through this API is complete: no old retry policy stays.
    let mut remove_annotations = vec![RetryOptions::ANNOTATION.to_owned()];
    let mut limits = LimitsWish::default();
    // Nothing stays of a function that it replaces: otherwise a sequence in place of a web action would be
    // one.
    if let Ok(Entity::Function(function)) = native.controller.action(&tenant.caller, &path).await {
        remove_annotations.extend(function.annotations.iter().map(|(key, _)| key.to_owned()));
        limits = native.controller.config().defaults.clone().into();
    }
    let put = PutSequence {
        annotations,
        remove_annotations,
        overwrite: !asked.create_only,
        components: Some(components?),
        limits,
        ..PutSequence::default()
    };
    let sequence = native.controller.put_sequence(&tenant.caller, path.clone(), put).await;
    let sequence = sequence.map_err(|error| match error {
        ControllerError::Exists => ApiError::from(error).hint(REPLACES),
        other => ApiError::no_package(other, &path),
    })?;
    Ok(Json(SequenceResource::from(&*sequence)))
}

/// Delete a sequence
///
/// Returns the deleted sequence. Its components are kept.
#[utoipa::path(delete, path = "/v1/sequences/{name}", tag = "functions",
    params(("name" = String, Path, description = "Sequence name: `name`, or `package%2Fname`")),
    responses(
        (status = 200, description = "The deleted sequence", body = SequenceResource),
        (status = 404, description = "No such sequence", body = ErrorBody),
    ))]
pub(crate) async fn delete(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(name): Path<String>,
) -> Result<Json<SequenceResource>, ApiError> {
    let path = path_of(&tenant.caller, &name)?;
    let deleted = native.controller.delete_sequence(&tenant.caller, &path).await;
    let deleted =
        deleted.map_err(|error| ApiError::no_sequence(error, path.namespace.as_str(), &path.local()))?;
    Ok(Json(SequenceResource::from(&deleted)))
}
