//! Packages and bindings: create, overwrite, read, list, delete.

use axum::body::Body;
use flint_controller::PutPackage;
use flint_model::EntityPath;
use http::StatusCode;
use serde_json::json;

use crate::{
    parse::{ListQuery, Name, package_body},
    refusal::Refusal,
    reply::Reply,
    request::Request,
    show::{PackageDetail, PackageSummary},
};

const COLLECTION: &str = "packages";

/// `PUT …/packages/NAME?overwrite=`
pub(crate) async fn put(request: &Request<'_>, name: Name<'_>, body: Body) -> Result<Reply, Refusal> {
    let path = request.entity(name)?;
    let overwrite = request.query.flag("overwrite", false)?;
    let body = request.entity_body(body, package_body).await?;
    let own = &request.caller.namespace.name;
    let binding = body.binding.map(|binding| {
        let namespace = if binding.namespace.as_str() == "_" { own.clone() } else { binding.namespace };
        EntityPath::new(namespace, binding.name)
    });
    let put = PutPackage {
        overwrite,
        binding,
        parameters: body.parameters,
        annotations: body.annotations,
        publish: body.publish,
        version: body.version,
    };
    let package = request.controller.put_package(&request.caller, path, put).await?;
    Reply::json(StatusCode::OK, &PackageDetail::new(&package))
}

/// `GET …/packages/NAME`
pub(crate) async fn get(request: &Request<'_>, name: Name<'_>) -> Result<Reply, Refusal> {
    let path = request.entity(name)?;
    let read = |most| request.controller.package(&request.caller, &path, most);
    let (contents, room) = request.listed(read).await?;
    Ok(Reply::json(StatusCode::OK, &PackageDetail::with_contents(&contents))?.in_room(room))
}

/// `DELETE …/packages/NAME?force=`
pub(crate) async fn delete(request: &Request<'_>, name: Name<'_>) -> Result<Reply, Refusal> {
    let path = request.entity(name)?;
    let force = request.query.flag("force", false)?;
    let package = request.controller.delete_package(&request.caller, &path, force).await?;
    Reply::json(StatusCode::OK, &PackageDetail::new(&package))
}

/// `GET …/packages?limit=&skip=&count=`; published packages may be listed by anybody.
pub(crate) async fn list(request: &Request<'_>, namespace: &str) -> Result<Reply, Refusal> {
    let namespace = request.namespace(namespace)?;
    let ListQuery { page, count } = ListQuery::parse(&request.query, COLLECTION)?;
    let (controller, caller) = (request.controller, &request.caller);
    if count {
        let all = controller.count_packages(caller, &namespace).await?;
        return Reply::json(StatusCode::OK, &json!({ COLLECTION: all.saturating_sub(page.skip) }));
    }
    let (packages, room) = request.listed(|most| controller.packages(caller, &namespace, page, most)).await?;
    Ok(Reply::list(packages.iter().map(PackageSummary::new))?.in_room(room))
}
