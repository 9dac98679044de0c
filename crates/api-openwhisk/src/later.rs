//! The place of packages, triggers, rules and web actions, which a later version brings: lists are empty, nothing is found,
//! and nothing can be created.

use flint_controller::ControllerError;
use http::StatusCode;
use serde_json::json;

use crate::{
    parse::{Collection, ListQuery},
    refusal::Refusal,
    reply::Reply,
    request::{Request, entity_name},
};

/// `GET …/packages` and its like. Anybody may list the shared packages of anybody.
pub(crate) fn list(request: &Request<'_>, namespace: &str, collection: Collection) -> Result<Reply, Refusal> {
    let namespace = request.namespace(namespace)?;
    if collection != Collection::Packages && namespace != request.caller.namespace.name {
        return Err(ControllerError::Forbidden(namespace.to_string()).into());
    }
    let name = collection.as_str();
    match ListQuery::parse(&request.query, name)?.count {
        true => Reply::json(StatusCode::OK, &json!({ name: 0 })),
        false => Ok(Reply::raw_json(StatusCode::OK, "[]")),
    }
}

/// `GET` and `DELETE` of one.
pub(crate) fn read(
    request: &Request<'_>,
    namespace: &str,
    _collection: Collection,
    name: &str,
) -> Result<Reply, Refusal> {
    let (namespace, name) = (request.namespace(namespace)?, entity_name(name)?);
    match namespace == request.caller.namespace.name {
        true => Err(ControllerError::NotFound.into()),
        false => Err(ControllerError::Forbidden(format!("{namespace}/{name}")).into()),
    }
}

/// `PUT` and `POST`.
pub(crate) fn write(collection: Collection) -> Result<Reply, Refusal> {
    Err(Refusal::not_in_this_version(match collection {
        Collection::Packages => "Packages",
        Collection::Triggers => "Triggers",
        Collection::Rules => "Rules",
    }))
}

/// Anything below `/api/v1/web`.
pub(crate) fn web() -> Result<Reply, Refusal> {
    Err(Refusal::not_in_this_version("Web actions"))
}
