//! Handlers for secrets: set, list, delete, rotate the key.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Request, State},
    http::StatusCode,
};
use flint_controller::ControllerError;
use flint_model::{SealedSecret, SecretName};
use flint_request_body::{Unread, read};

use crate::{
    Native,
    auth::{Operator, Tenant},
    error::{ApiError, Path},
    resource::{ErrorBody, RotatedKey, SecretList, SecretResource},
};

fn name_of(text: &str) -> Result<SecretName, ApiError> {
    text.parse().map_err(|error| ApiError::invalid(format!("{error}")))
}

fn shown(native: &Native, secret: &SealedSecret) -> SecretResource {
    SecretResource {
        name: secret.name.to_string(),
        revision: secret.revision,
        key: secret.key.clone(),
        readable: native.controller.can_open(secret),
        updated: secret.updated.as_millis(),
    }
}

/// The namespace's secrets, without their values.
#[utoipa::path(get, path = "/v1/secrets", tag = "secrets",
    responses((status = 200, body = SecretList), (status = 401, body = ErrorBody)))]
pub(crate) async fn list(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
) -> Result<Json<SecretList>, ApiError> {
    let secrets = native.controller.secrets(&tenant.caller, &tenant.caller.namespace.name).await?;
    Ok(Json(SecretList { secrets: secrets.iter().map(|secret| shown(&native, secret)).collect() }))
}

/// Creates or replaces a secret. The body is its value as it is: text in UTF-8 without NUL. Nothing gives it back; functions that name the
/// secret in their annotation `flint-secrets` are given it in their environment.
#[utoipa::path(put, path = "/v1/secrets/{name}", tag = "secrets",
    params(("name" = String, Path, description = "A letter or _, then letters, digits, _ and -, up to 64 characters", pattern = "^[A-Za-z_][A-Za-z0-9_-]{0,63}$")),
    request_body(content = String, content_type = "text/plain"),
    responses((status = 200, body = SecretResource), (status = 400, body = ErrorBody), (status = 409, body = ErrorBody), (status = 413, body = ErrorBody)))]
pub(crate) async fn put(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(name): Path<String>,
    request: Request,
) -> Result<Json<SecretResource>, ApiError> {
    let name = name_of(&name)?;
    let allowed = native.controller.config().secrets.max_size.as_u64();
    let value = read(request.into_body(), allowed).await.map_err(|unread| match unread {
        Unread::TooLarge { size } => {
            ApiError::from(ControllerError::TooLarge { what: "secret", size, allowed })
        }
        unread => unread.into(),
    })?;
    let namespace = &tenant.caller.namespace.name;
    let secret = native.controller.set_secret(&tenant.caller, namespace, name, &value).await?;
    Ok(Json(shown(&native, &secret)))
}

/// Deletes a secret. Calls of functions that name it fail then, and say so.
#[utoipa::path(delete, path = "/v1/secrets/{name}", tag = "secrets",
    params(("name" = String, Path, description = "Its name")),
    responses((status = 204), (status = 404, body = ErrorBody)))]
pub(crate) async fn delete(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(name): Path<String>,
) -> Result<StatusCode, ApiError> {
    let (name, namespace) = (name_of(&name)?, &tenant.caller.namespace.name);
    let deleted = native.controller.delete_secret(&tenant.caller, namespace, &name).await;
    deleted.map_err(|error| match error {
        ControllerError::NoSuch(name) => ApiError::new(
            StatusCode::NOT_FOUND,
            "not_found",
            format!("there is no secret '{name}' in namespace '{namespace}'"),
        )
        .hint("`flint secret list` lists them"),
        other => other.into(),
    })?;
    Ok(StatusCode::NO_CONTENT)
}

/// Makes another key, and encrypts every secret of every namespace with it. Where the key comes from the server's environment, that is refused
/// with what to do.
#[utoipa::path(post, path = "/v1/secrets/rotate-key", tag = "operator",
    responses((status = 200, body = RotatedKey), (status = 409, body = ErrorBody)))]
pub(crate) async fn rotate_key(
    State(native): State<Arc<Native>>,
    _: Operator,
) -> Result<Json<RotatedKey>, ApiError> {
    Ok(Json(native.controller.rotate_secret_key().await?.into()))
}
