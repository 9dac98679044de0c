//! Handlers about the server itself: health, metrics, capabilities, backup.

use std::{path::PathBuf, sync::Arc};

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    Native,
    auth::{Operator, Tenant},
    error::{ApiError, Body},
    resource::{AbilityResource, DoctorReport, Health, RuntimeResource},
};

fn health_of(native: &Native, status: &str) -> Health {
    Health {
        status: status.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_s: native.started.elapsed().as_secs(),
    }
}

/// Check whether the server is running
#[utoipa::path(get, path = "/health", tag = "server", security(()),
    responses((status = 200, description = "The server is running", body = Health)))]
pub(crate) async fn health(State(native): State<Arc<Native>>) -> Json<Health> {
    Json(health_of(&native, "ok"))
}

/// Check whether the server accepts calls
#[utoipa::path(get, path = "/ready", tag = "server", security(()),
    responses(
        (status = 200, description = "Ready", body = Health),
        (status = 503, description = "Not ready; `status` gives the reason", body = Health),
    ))]
pub(crate) async fn ready(State(native): State<Arc<Native>>) -> (StatusCode, Json<Health>) {
    match native.controller.ready().await {
        Ok(()) => (StatusCode::OK, Json(health_of(&native, "ok"))),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, Json(health_of(&native, &why))),
    }
}

/// Get metrics as OpenMetrics text
///
/// Needs no key if the server listens on loopback only.
#[utoipa::path(get, path = "/metrics", tag = "server",
    responses(
        (status = 200, description = "The metrics", content_type = "application/openmetrics-text", body = String),
        (status = 401, description = "Missing or invalid operator's key", body = crate::resource::ErrorBody),
    ))]
pub(crate) async fn metrics(
    State(native): State<Arc<Native>>,
    operator: Option<Operator>,
) -> Result<Response, ApiError> {
    if operator.is_none() && !native.config.open_metrics {
        return Err(ApiError::no_key().hint("metrics of a server that others can reach need the operator's key (operator.json in its data directory)"));
    }
    let text = native.controller.render_metrics().await;
    Ok(([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
        .into_response())
}

/// Get what the host can run, and what it lacks
///
/// Any key is accepted.
#[utoipa::path(get, path = "/v1/doctor", tag = "server",
    responses((status = 200, description = "The report", body = DoctorReport)))]
pub(crate) async fn doctor(
    State(native): State<Arc<Native>>,
    operator: Option<Operator>,
    tenant: Result<Tenant, ApiError>,
) -> Result<Json<DoctorReport>, ApiError> {
    if operator.is_none() {
        tenant?;
    }
    Ok(Json(report(native.config.abilities.clone(), &native)))
}

fn report(abilities: Vec<AbilityResource>, native: &Native) -> DoctorReport {
    let runtimes: Vec<_> = native
        .controller
        .kinds()
        .into_iter()
        .map(|runtime| RuntimeResource {
            kind: runtime.kind.to_string(),
            default: runtime.default,
            available: runtime.state.is_ok(),
            detail: runtime.state.unwrap_or_else(|missing| missing),
        })
        .collect();
    DoctorReport { ok: runtimes.iter().any(|runtime| runtime.available), abilities, runtimes }
}

/// Where to copy the data.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackupRequest {
    /// Absolute path of a directory on the server's machine that is empty or does not exist.
    #[schema(value_type = String)]
    to: PathBuf,
}

/// Result of a backup.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct BackupResult {
    /// Number of files copied.
    files: usize,
    /// Total size of the files, in bytes.
    bytes: u64,
}

/// Back up the server's data
///
/// Copies the data as of one moment while the server runs.
#[utoipa::path(post, path = "/v1/backup", tag = "operator", request_body = BackupRequest,
    responses(
        (status = 200, description = "The backup is complete", body = BackupResult),
        (status = 409, description = "The backup failed", body = crate::resource::ErrorBody),
    ))]
pub(crate) async fn backup(
    State(native): State<Arc<Native>>,
    _: Operator,
    Body(asked): Body<BackupRequest>,
) -> Result<Json<BackupResult>, ApiError> {
    let Some(maintenance) = &native.config.maintenance else {
        return Err(ApiError::new(
            StatusCode::NOT_IMPLEMENTED,
            "not_implemented",
            "this server cannot copy its data",
        ));
    };
    if !asked.to.is_absolute() {
        return Err(ApiError::invalid(format!("'{}' is not an absolute path", asked.to.display())));
    }
    match maintenance.backup(asked.to).await {
        Ok((files, bytes)) => Ok(Json(BackupResult { files, bytes })),
        Err(why) => Err(ApiError::new(StatusCode::CONFLICT, "backup_failed", why)),
    }
}
