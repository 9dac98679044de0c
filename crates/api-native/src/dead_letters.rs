//! Handlers for dead letters: read, redrive, remove.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use flint_controller::{ControllerError, Redriven};
use flint_model::ActivationId;
use flint_store::LetterQuery;
use serde::Deserialize;

use crate::{
    Native,
    auth::Tenant,
    error::{ApiError, Asked, Path, Sent},
    functions::{MOST, PageQuery, path_of},
    invoke::transaction,
    resource::{
        DeadLetterList, DeadLetterResource, ErrorBody, RedriveRequest, RedriveResult, RedrivenResource,
        RemovedLetters,
    },
};

/// What to do about arguments that a function does not take any more.
const TAKE_AGAIN: &str = "`flint dlq get` shows its arguments; let the function take them again, or remove the letter with `flint dlq rm`";

/// Which letters.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ListQuery {
    limit: Option<usize>,
    skip: usize,
    function: Option<String>,
}

/// Which letters to remove.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RemoveQuery {
    function: Option<String>,
}

fn parse(id: &str) -> Result<ActivationId, ApiError> {
    id.parse().map_err(|_| {
        ApiError::invalid(format!("'{id}' is not the id of a dead letter: it has 32 hex digits"))
            .hint("`flint dlq list` lists them")
    })
}

fn no_letter(error: ControllerError, id: &str) -> ApiError {
    match error {
        ControllerError::NotFound => {
            ApiError::new(StatusCode::NOT_FOUND, "not_found", format!("there is no dead letter {id}"))
                .hint("`flint dlq list` lists them; one that was redriven is a call again")
        }
        ControllerError::NoSuch(function) => ApiError::new(
            StatusCode::NOT_FOUND,
            "function_gone",
            format!("the dead letter {id} calls {function}, which is not there"),
        )
        .hint("deploy that function, or remove the letter with `flint dlq rm`"),
        ControllerError::ReservedParameters => {
            let message = format!("the dead letter {id} sets parameters that have become final");
            ApiError::invalid(message).hint(TAKE_AGAIN)
        }
        other => other.into(),
    }
}

/// List dead letters, the most recently given up first
#[utoipa::path(get, path = "/v1/dead-letters", tag = "activations",
    params(
        ("limit" = Option<usize>, Query, description = "Maximum number of entries, up to 1000; default 100"),
        ("skip" = Option<usize>, Query, description = "Number of entries to skip; default 0"),
        ("function" = Option<String>, Query, description = "Only calls of this function: `name` or `package/name`"),
    ),
    responses(
        (status = 200, description = "A page of dead letters, without their arguments", body = DeadLetterList),
        (status = 401, description = "Missing or invalid key", body = ErrorBody),
    ))]
pub(crate) async fn list(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Asked(query): Asked<ListQuery>,
) -> Result<Json<DeadLetterList>, ApiError> {
    let page = PageQuery { limit: query.limit.unwrap_or(100).min(MOST), skip: query.skip }.page();
    let function = query.function.map(|name| path_of(&tenant.caller, &name)).transpose()?;
    let which = LetterQuery { function, oldest_first: false };
    let namespace = &tenant.caller.namespace.name;
    let letters = native.controller.dead_letters(&tenant.caller, namespace, &which, page).await?;
    let usage = native.controller.dead_letter_usage(&tenant.caller, namespace).await?;
    // Lists do not read arguments, so none are shown.
    let shown = |letter| DeadLetterResource { arguments: None, ..DeadLetterResource::from(letter) };
    Ok(Json(DeadLetterList {
        dead_letters: letters.into_iter().map(shown).collect(),
        total: usage.letters,
        size: usage.bytes,
    }))
}

/// Get a dead letter with its arguments
#[utoipa::path(get, path = "/v1/dead-letters/{id}", tag = "activations",
    params(("id" = String, Path, description = "Activation id of the dead letter, 32 hex digits", pattern = "^[0-9a-fA-F]{32}$")),
    responses(
        (status = 200, description = "The dead letter", body = DeadLetterResource),
        (status = 404, description = "No such dead letter", body = ErrorBody),
    ))]
pub(crate) async fn get(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(id): Path<String>,
) -> Result<Json<DeadLetterResource>, ApiError> {
    let namespace = &tenant.caller.namespace.name;
    let letter = native.controller.dead_letter(&tenant.caller, namespace, parse(&id)?).await;
    Ok(Json(letter.map_err(|error| no_letter(error, &id))?.into()))
}

/// Redrive a dead letter
///
/// Accepts the call again, with as many attempts as the function now allows. The call is durable when the response is sent. A letter is
/// redriven once, however often it is requested.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/redrive", tag = "activations",
    params(("id" = String, Path, description = "Activation id of the dead letter, 32 hex digits", pattern = "^[0-9a-fA-F]{32}$")),
    responses(
        (status = 202, description = "Accepted as a new call", body = RedrivenResource),
        (status = 400, description = "Its arguments set parameters that have become final", body = ErrorBody),
        (status = 404, description = "No such dead letter", body = ErrorBody),
        (status = 429, description = "A limit of the namespace is reached", body = ErrorBody),
    ))]
pub(crate) async fn redrive(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<RedrivenResource>), ApiError> {
    let (letter, transaction) = (parse(&id)?, transaction(&headers));
    let (caller, key) = (&tenant.caller, Some(Arc::clone(&tenant.key)));
    let redriven = native.controller.redrive(caller, &caller.namespace.name, letter, &transaction, key).await;
    let redriven = redriven.map_err(|error| no_letter(error, &id))?;
    Ok((StatusCode::ACCEPTED, Json(redriven.into())))
}

/// Redrive several dead letters, oldest first
///
/// Continues until all letters are calls again or one is refused, because of a limit of the namespace, or because its function is gone, may not be called or does not take the arguments any more.
#[utoipa::path(post, path = "/v1/dead-letters/redrive", tag = "activations", request_body = RedriveRequest,
    responses(
        (status = 202, description = "The letters accepted as new calls, and what stopped the redrive, if anything", body = RedriveResult),
        (status = 400, description = "Invalid request", body = ErrorBody),
    ))]
pub(crate) async fn redrive_some(
    State(native): State<Arc<Native>>,
    headers: HeaderMap,
    Sent(tenant, asked): Sent<RedriveRequest>,
) -> Result<(StatusCode, Json<RedriveResult>), ApiError> {
    let function = asked.function.map(|name| path_of(&tenant.caller, &name)).transpose()?;
    let (caller, namespace) = (&tenant.caller, &tenant.caller.namespace.name);
    let (limit, transaction) = (asked.limit.unwrap_or(MOST), transaction(&headers));
    let key = Some(Arc::clone(&tenant.key));
    let all = native.controller.redrive_some(caller, namespace, function, limit, &transaction, key).await?;
    let usage = native.controller.dead_letter_usage(caller, namespace).await?;
    let result = RedriveResult {
        redriven: all.redriven.into_iter().map(RedrivenResource::from).collect(),
        stopped: all.stopped.map(|error| no_letter(error, "that comes next").into_detail()),
        left: usage.letters,
    };
    Ok((StatusCode::ACCEPTED, Json(result)))
}

/// Delete a dead letter
#[utoipa::path(delete, path = "/v1/dead-letters/{id}", tag = "activations",
    params(("id" = String, Path, description = "Activation id of the dead letter, 32 hex digits", pattern = "^[0-9a-fA-F]{32}$")),
    responses(
        (status = 204, description = "Deleted"),
        (status = 404, description = "No such dead letter", body = ErrorBody),
    ))]
pub(crate) async fn delete(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let (caller, letter) = (&tenant.caller, parse(&id)?);
    let removed = native.controller.remove_dead_letter(caller, &caller.namespace.name, letter).await;
    removed.map_err(|error| no_letter(error, &id))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Delete all dead letters, or those of one function
#[utoipa::path(delete, path = "/v1/dead-letters", tag = "activations",
    params(("function" = Option<String>, Query, description = "Only calls of this function: `name` or `package/name`")),
    responses((status = 200, description = "The number of letters deleted", body = RemovedLetters)))]
pub(crate) async fn delete_some(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Asked(query): Asked<RemoveQuery>,
) -> Result<Json<RemovedLetters>, ApiError> {
    let function = query.function.map(|name| path_of(&tenant.caller, &name)).transpose()?;
    let (caller, namespace) = (&tenant.caller, &tenant.caller.namespace.name);
    let removed = native.controller.remove_dead_letters(caller, namespace, function.as_ref()).await?;
    Ok(Json(RemovedLetters { removed }))
}

impl From<Redriven> for RedrivenResource {
    fn from(redriven: Redriven) -> Self {
        Self { letter: redriven.letter.to_string(), activation: redriven.activation.to_string() }
    }
}
