//! Handlers for versions of functions: list, roll back, aliases.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use flint_controller::ControllerError;
use flint_model::{AliasName, AliasTarget, FunctionPath, Version};

use crate::{
    Native,
    auth::Tenant,
    error::{ApiError, Path, Sent},
    functions::path_of,
    resource::{
        AliasRequest, AliasResource, DeployResult, ErrorBody, FunctionResource, RollbackRequest, VersionList,
    },
};

/// Errors that name the function: the controller's own messages do not.
fn refused(error: ControllerError, path: &FunctionPath) -> ApiError {
    match error {
        ControllerError::NoSuch(what) => {
            ApiError::new(StatusCode::NOT_FOUND, "not_found", format!("there is no {what}"))
                .hint(format!("`flint versions {}` lists its versions and aliases", path.local()))
        }
        live @ ControllerError::LiveDecides(_) => {
            let name = path.local();
            ApiError::from(live)
                .hint(format!("`flint rollback {name} --to VERSION`; `flint versions {name}` lists them"))
        }
        other => ApiError::no_function(other, path.namespace.as_str(), &path.local()),
    }
}

fn version(text: &str) -> Result<Version, ApiError> {
    text.parse().map_err(|error| ApiError::invalid(format!("{error}")))
}

fn alias(text: &str) -> Result<AliasName, ApiError> {
    text.parse().map_err(|error| ApiError::invalid(format!("{error}")))
}

/// List a function's versions and aliases
///
/// The versions can be called as `name@version`, the aliases as `name@alias`.
#[utoipa::path(get, path = "/v1/functions/{name}/versions", tag = "functions",
    params(("name" = String, Path, description = "Function name: `name`, or `package%2Fname`")),
    responses(
        (status = 200, description = "The versions and aliases", body = VersionList),
        (status = 404, description = "No such function", body = ErrorBody),
    ))]
pub(crate) async fn list(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(name): Path<String>,
) -> Result<Json<VersionList>, ApiError> {
    let path = path_of(&tenant.caller, &name)?;
    let history = native.controller.history(&tenant.caller, &path).await;
    Ok(Json(history.map_err(|error| refused(error, &path))?.into()))
}

/// Roll back to an earlier version
///
/// Deploys a new version with the code and configuration of the earlier one, which calls then use. If there is an alias `live`, `to` is
/// required, and the alias then names the new version.
#[utoipa::path(post, path = "/v1/functions/{name}/rollback", tag = "functions", request_body = RollbackRequest,
    params(("name" = String, Path, description = "Function name: `name`, or `package%2Fname`")),
    responses(
        (status = 200, description = "The new version", body = DeployResult),
        (status = 404, description = "No such function or version", body = ErrorBody),
        (status = 409, description = "Already the newest version, or no earlier one is kept", body = ErrorBody),
        (status = 429, description = "Too many builds wait already; `Retry-After` says when to try again", body = ErrorBody),
    ))]
pub(crate) async fn rollback(
    State(native): State<Arc<Native>>,
    Path(name): Path<String>,
    Sent(tenant, asked): Sent<RollbackRequest>,
) -> Result<Json<DeployResult>, ApiError> {
    let path = path_of(&tenant.caller, &name)?;
    let to = asked.to.as_deref().map(version).transpose()?;
    let deployed = native.controller.roll_back(&tenant.caller, &path, to, &|_| {}).await;
    let deployed = deployed.map_err(|error| refused(error, &path))?;
    Ok(Json(DeployResult {
        notes: Vec::new(),
        function: FunctionResource::with(&deployed.function, deployed.prepared.as_deref()),
        created: deployed.created,
        steps: deployed.steps,
        prepare_us: u64::try_from(deployed.took.as_micros()).unwrap_or(u64::MAX),
    }))
}

/// Create or change an alias
///
/// Takes effect on calls at once. The alias `live` determines what calls by the function's bare name use.
#[utoipa::path(put, path = "/v1/functions/{name}/aliases/{alias}", tag = "functions", request_body = AliasRequest,
    params(
        ("name" = String, Path, description = "Function name: `name`, or `package%2Fname`"),
        ("alias" = String, Path, description = "Alias name: a letter, then letters, digits, _ and -, up to 64 characters", pattern = "^[A-Za-z][A-Za-z0-9_-]{0,63}$"),
    ),
    responses(
        (status = 200, description = "The alias", body = AliasResource),
        (status = 400, description = "Invalid request", body = ErrorBody),
        (status = 404, description = "No such function or version", body = ErrorBody),
        (status = 409, description = "The function has as many aliases as it may have (`versions.max_aliases`)", body = ErrorBody),
    ))]
pub(crate) async fn set_alias(
    State(native): State<Arc<Native>>,
    Path((name, alias_name)): Path<(String, String)>,
    Sent(tenant, asked): Sent<AliasRequest>,
) -> Result<Json<AliasResource>, ApiError> {
    let (path, alias_name) = (path_of(&tenant.caller, &name)?, alias(&alias_name)?);
    let target = |target: crate::resource::AliasTargetResource| {
        Ok(AliasTarget { version: version(&target.version)?, weight: target.weight })
    };
    let targets = asked.versions.into_iter().map(target).collect::<Result<_, ApiError>>()?;
    let set = native.controller.set_alias(&tenant.caller, &path, alias_name, targets).await;
    Ok(Json((&set.map_err(|error| refused(error, &path))?).into()))
}

/// Delete an alias
///
/// The versions it named are kept until newer ones displace them.
#[utoipa::path(delete, path = "/v1/functions/{name}/aliases/{alias}", tag = "functions",
    params(
        ("name" = String, Path, description = "Function name: `name`, or `package%2Fname`"),
        ("alias" = String, Path, description = "Alias name"),
    ),
    responses(
        (status = 204, description = "Deleted"),
        (status = 404, description = "No such function or alias", body = ErrorBody),
    ))]
pub(crate) async fn delete_alias(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path((name, alias_name)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let (path, alias_name) = (path_of(&tenant.caller, &name)?, alias(&alias_name)?);
    let deleted = native.controller.delete_alias(&tenant.caller, &path, &alias_name).await;
    deleted.map_err(|error| refused(error, &path))?;
    Ok(StatusCode::NO_CONTENT)
}
