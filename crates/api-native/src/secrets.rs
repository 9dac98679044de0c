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

/// List the namespace's secrets, without their values
#[utoipa::path(get, path = "/v1/secrets", tag = "secrets",
    responses(
        (status = 200, description = "The secrets", body = SecretList),
        (status = 401, description = "Missing or invalid key", body = ErrorBody),
    ))]
pub(crate) async fn list(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
) -> Result<Json<SecretList>, ApiError> {
    let secrets = native.controller.secrets(&tenant.caller, &tenant.caller.namespace.name).await?;
    Ok(Json(SecretList { secrets: secrets.iter().map(|secret| shown(&native, secret)).collect() }))
}

/// Create or replace a secret
///
/// The body is the value: UTF-8 text without NUL. No request returns it. Functions that name the secret in their annotation `flint-secrets`
/// receive it in their environment.
#[utoipa::path(put, path = "/v1/secrets/{name}", tag = "secrets",
    params(("name" = String, Path, description = "Secret name: a letter or _, then letters, digits, _ and -, up to 64 characters", pattern = "^[A-Za-z_][A-Za-z0-9_-]{0,63}$")),
    request_body(content = String, content_type = "text/plain"),
    responses(
        (status = 200, description = "The secret, without its value", body = SecretResource),
        (status = 400, description = "Invalid name or value", body = ErrorBody),
        (status = 409, description = "The namespace has as many secrets as it may have, or the server lacks the key of existing ones", body = ErrorBody),
        (status = 413, description = "The value is too large", body = ErrorBody),
    ))]
pub(crate) async fn put(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(name): Path<String>,
    request: Request,
) -> Result<Json<SecretResource>, ApiError> {
    let name = name_of(&name)?;
    let allowed = native.controller.config().secrets.max_size.as_u64();
    let namespace = &tenant.caller.namespace.name;
    let arrival = native.config.uploads.arrival(namespace.as_str());
    let value = read(request.into_body(), allowed, Some(arrival)).await.map_err(|unread| match unread {
        Unread::TooLarge { size } => {
            ApiError::from(ControllerError::TooLarge { what: "secret", size, allowed })
        }
        unread => unread.into(),
    })?;
    let secret = native.controller.set_secret(&tenant.caller, namespace, name, &value).await?;
    Ok(Json(shown(&native, &secret)))
}

/// Delete a secret
///
/// Calls of functions that name it then fail, with an error that says so.
#[utoipa::path(delete, path = "/v1/secrets/{name}", tag = "secrets",
    params(("name" = String, Path, description = "Secret name")),
    responses(
        (status = 204, description = "Deleted"),
        (status = 404, description = "No such secret", body = ErrorBody),
    ))]
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

/// Rotate the key that encrypts secrets
///
/// Creates a new key and encrypts every secret of every namespace with it. If the key comes from the server's environment, the request is
/// refused with an error that says what to do.
#[utoipa::path(post, path = "/v1/secrets/rotate-key", tag = "operator",
    responses(
        (status = 200, description = "The result of the rotation", body = RotatedKey),
        (status = 409, description = "There is no key yet, or the server cannot replace its key", body = ErrorBody),
    ))]
pub(crate) async fn rotate_key(
    State(native): State<Arc<Native>>,
    _: Operator,
) -> Result<Json<RotatedKey>, ApiError> {
    Ok(Json(native.controller.rotate_secret_key().await?.into()))
}
