//! Handlers for namespaces and their keys, for the operator.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use flint_controller::{ControllerError, check_new_namespace};
use flint_model::{KeyId, LimitBounds, Namespace, NamespaceName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    Native,
    auth::Operator,
    error::{ApiError, Body, Path},
    resource::{ErrorDetail, KeyCreated, KeyResource, NamespaceCreate, NamespacePatch, NamespaceResource},
};

/// All namespaces.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct NamespaceList {
    namespaces: Vec<NamespaceResource>,
}

/// A key to create.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct KeyCreate {
    /// The subject that the key calls as; absent = the namespace's name.
    subject: Option<String>,
}

fn parse(name: &str) -> Result<NamespaceName, ApiError> {
    NamespaceName::parse(name).map_err(|error| {
        ApiError::invalid(format!("'{name}' cannot be the name of a namespace: {error}"))
            .hint("letters, digits, _ @ . & - and inner spaces are allowed, up to 256 characters")
    })
}

/// Why a server with these bounds would refuse the namespace even if there is none of its name: for commands
/// that have to make a server's data first.
pub fn namespace_refusal(asked: &NamespaceCreate, server: &LimitBounds) -> Option<ErrorDetail> {
    let refused = |error: ControllerError| ApiError::no_namespace(error, &asked.name);
    let checked = parse(&asked.name).and_then(|name| {
        check_new_namespace(&name, &asked.limits, asked.subject.as_deref(), server).map_err(refused)
    });
    checked.err().map(ApiError::into_detail)
}

async fn with_keys(native: &Native, namespace: &Namespace) -> Result<NamespaceResource, ControllerError> {
    let keys = native.controller.keys(&namespace.name).await?;
    let keys = keys.iter().map(|key| KeyResource {
        id: key.id.to_string(),
        subject: key.subject.clone(),
        created: key.created.as_millis(),
    });
    Ok(NamespaceResource { keys: keys.collect(), ..NamespaceResource::from(namespace) })
}

/// List all namespaces
#[utoipa::path(get, path = "/v1/namespaces", tag = "operator",
    responses(
        (status = 200, description = "All namespaces", body = NamespaceList),
        (status = 403, description = "The operator's key is required", body = crate::resource::ErrorBody),
    ))]
pub(crate) async fn list(
    State(native): State<Arc<Native>>,
    _: Operator,
) -> Result<Json<NamespaceList>, ApiError> {
    let mut namespaces = Vec::new();
    for namespace in native.controller.namespaces().await? {
        match with_keys(&native, &namespace).await {
            Ok(namespace) => namespaces.push(namespace),
            // Deleted since.
            Err(ControllerError::NoSuch(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Json(NamespaceList { namespaces }))
}

/// Create a namespace with a first key
///
/// The key is shown only in this response.
#[utoipa::path(post, path = "/v1/namespaces", tag = "operator", request_body = NamespaceCreate,
    responses(
        (status = 201, description = "Created", body = KeyCreated),
        (status = 409, description = "The namespace already exists", body = crate::resource::ErrorBody),
    ))]
pub(crate) async fn create(
    State(native): State<Arc<Native>>,
    _: Operator,
    Body(asked): Body<NamespaceCreate>,
) -> Result<(StatusCode, Json<KeyCreated>), ApiError> {
    let name = parse(&asked.name)?;
    let refused = |error: ControllerError| ApiError::no_namespace(error, &asked.name);
    let controller = &native.controller;
    let created = controller.create_namespace_for(name.clone(), asked.limits, asked.subject.clone()).await;
    let (_, key) = created.map_err(refused)?;
    let subject = asked.subject.unwrap_or_else(|| name.to_string());
    Ok((StatusCode::CREATED, Json(KeyCreated { namespace: name.to_string(), subject, key: key.expose() })))
}

/// Get a namespace
#[utoipa::path(get, path = "/v1/namespaces/{namespace}", tag = "operator", params(("namespace" = String, Path, description = "Namespace name")),
    responses(
        (status = 200, description = "The namespace", body = NamespaceResource),
        (status = 404, description = "No such namespace", body = crate::resource::ErrorBody),
    ))]
pub(crate) async fn get(
    State(native): State<Arc<Native>>,
    _: Operator,
    Path(name): Path<String>,
) -> Result<Json<NamespaceResource>, ApiError> {
    let parsed = parse(&name)?;
    let refused = |error: ControllerError| ApiError::no_namespace(error, &name);
    let namespace = native.controller.namespace(&parsed).await.map_err(refused)?;
    Ok(Json(with_keys(&native, &namespace).await.map_err(refused)?))
}

/// Change a namespace's limits, or block its keys
#[utoipa::path(patch, path = "/v1/namespaces/{namespace}", tag = "operator", params(("namespace" = String, Path, description = "Namespace name")), request_body = NamespacePatch,
    responses(
        (status = 200, description = "The changed namespace", body = NamespaceResource),
        (status = 404, description = "No such namespace", body = crate::resource::ErrorBody),
    ))]
pub(crate) async fn patch(
    State(native): State<Arc<Native>>,
    _: Operator,
    Path(name): Path<String>,
    Body(patch): Body<NamespacePatch>,
) -> Result<Json<NamespaceResource>, ApiError> {
    let parsed = parse(&name)?;
    let refused = |error: ControllerError| ApiError::no_namespace(error, &name);
    let mut namespace = native.controller.namespace(&parsed).await.map_err(refused)?;
    if let Some(limits) = patch.limits {
        namespace = native.controller.set_limits(&parsed, limits).await.map_err(refused)?;
    }
    if let Some(blocked) = patch.blocked {
        namespace = native.controller.set_blocked(&parsed, blocked).await.map_err(refused)?;
    }
    Ok(Json(with_keys(&native, &namespace).await.map_err(refused)?))
}

/// Delete a namespace with its keys and functions
#[utoipa::path(delete, path = "/v1/namespaces/{namespace}", tag = "operator", params(("namespace" = String, Path, description = "Namespace name")),
    responses(
        (status = 204, description = "Deleted"),
        (status = 404, description = "No such namespace", body = crate::resource::ErrorBody),
    ))]
pub(crate) async fn delete(
    State(native): State<Arc<Native>>,
    _: Operator,
    Path(name): Path<String>,
) -> Result<StatusCode, ApiError> {
    native
        .controller
        .delete_namespace(&parse(&name)?)
        .await
        .map_err(|error| ApiError::no_namespace(error, &name))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Create another key for a namespace
///
/// The key is shown only in this response.
#[utoipa::path(post, path = "/v1/namespaces/{namespace}/keys", tag = "operator", params(("namespace" = String, Path, description = "Namespace name")), request_body = KeyCreate,
    responses(
        (status = 201, description = "Created", body = KeyCreated),
        (status = 404, description = "No such namespace", body = crate::resource::ErrorBody),
    ))]
pub(crate) async fn create_key(
    State(native): State<Arc<Native>>,
    _: Operator,
    Path(name): Path<String>,
    Body(asked): Body<KeyCreate>,
) -> Result<(StatusCode, Json<KeyCreated>), ApiError> {
    let key = native.controller.create_key(&parse(&name)?, asked.subject.clone()).await;
    let key = key.map_err(|error| ApiError::no_namespace(error, &name))?;
    let subject = asked.subject.unwrap_or_else(|| name.clone());
    Ok((StatusCode::CREATED, Json(KeyCreated { namespace: name, subject, key: key.expose() })))
}

/// Delete a key
#[utoipa::path(delete, path = "/v1/namespaces/{namespace}/keys/{id}", tag = "operator",
    params(("namespace" = String, Path, description = "Namespace name"), ("id" = String, Path, description = "The key's UUID")),
    responses(
        (status = 204, description = "Deleted"),
        (status = 404, description = "No such namespace or key", body = crate::resource::ErrorBody),
    ))]
pub(crate) async fn delete_key(
    State(native): State<Arc<Native>>,
    _: Operator,
    Path((name, id)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let uuid =
        id.parse().map_err(|_| ApiError::invalid(format!("'{id}' is not the id of a key: it is a UUID")))?;
    let deleted = native.controller.delete_key(&parse(&name)?, KeyId(uuid)).await;
    deleted.map_err(|error| ApiError::no_namespace(error, &name))?;
    Ok(StatusCode::NO_CONTENT)
}
