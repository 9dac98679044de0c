//! Actions: create, overwrite, read, list, delete.

use axum::body::Body;
use flint_controller::{ControllerError, PrepareWhen, PutCode, PutFunction, Unnamed};
use flint_model::{CodeFormat, Function};
use http::StatusCode;

use crate::{
    parse::{DecodedCode, Exec, ListQuery, Name, decode_code, put_body},
    refusal::Refusal,
    reply::Reply,
    request::{Request, entity_name, json_body},
    show::{ActionDetail, ActionSummary, shown_code},
};

/// The largest body of a PUT: the largest code as base64 is longer, but this is what clients know.
const LARGEST_BODY: u64 = 50 * 1024 * 1024;

const COLLECTION: &str = "actions";

/// `PUT …/actions/NAME?overwrite=`
pub(crate) async fn put(request: &Request<'_>, name: Name<'_>, body: Body) -> Result<Reply, Refusal> {
    let path = request.function(name)?;
    let overwrite = request.query.flag("overwrite", false)?;
    let _room = request.uploads.room(request.headers).await;
    let body = json_body(request.headers, body, LARGEST_BODY, |_| Refusal::body_too_large()).await?;
    if body.is_empty() {
        return Err(Refusal::bad_request("Request entity expected but not supplied"));
    }
    let mut body = put_body(&body).map_err(Refusal::malformed)?;
    let put = PutFunction {
        overwrite,
        limits: body.limits(),
        code: body.exec.take().map(|exec| code_of(request, exec)).transpose()?,
        parameters: body.parameters,
        annotations: body.annotations.unwrap_or_default(),
        remove_annotations: body.del_annotations.unwrap_or_default(),
        version: body.version,
        publish: body.publish,
        prepare: PrepareWhen::Behind,
        // An update names what changes, and code that was written for OpenWhisk keeps connections from call to call.
        unnamed: Unnamed::Kept,
        keep_clones: true,
        ..PutFunction::default()
    };
    let deployed = request.controller.put_function(&request.caller, path, put, &|_| {}).await?;
    detail(request, &deployed.function, true).await
}

/// The code that `exec` has.
fn code_of(request: &Request<'_>, exec: Exec) -> Result<PutCode, Refusal> {
    let family = exec.kind.trim().split(':').next().unwrap_or_default().to_ascii_lowercase();
    match family.as_str() {
        "sequence" => return Err(Refusal::not_in_this_version("Sequences")),
        "blackbox" => return Err(Refusal::not_in_this_version("Blackbox actions")),
        _ => {}
    }
    let kind = request.controller.resolve_kind(&exec.kind)?;
    if kind.requires_main && exec.main.as_deref().is_none_or(|main| main.trim().is_empty()) {
        return Err(ControllerError::MainRequired(kind.kind.to_string()).into());
    }
    let code = exec.code.ok_or_else(|| Refusal::malformed("'code' must be a string defined in 'exec'"))?;
    let DecodedCode { content, binary } = decode_code(code);
    Ok(PutCode {
        format: binary.then(|| archive_format(&content, &family)),
        kind: exec.kind,
        content,
        main: exec.main,
    })
}

/// What decoded base64 is: an archive, even if it is a broken one. The executor finds that out.
fn archive_format(content: &[u8], family: &str) -> CodeFormat {
    match content {
        _ if family == "java" => CodeFormat::Jar,
        [0x1f, 0x8b, ..] => CodeFormat::TarGz,
        [b'P', b'K', ..] => CodeFormat::Zip,
        [0x7f, b'E', b'L', b'F', ..] => CodeFormat::Executable,
        _ if family == "native" => CodeFormat::Executable,
        _ => CodeFormat::Zip,
    }
}

/// `GET …/actions/NAME?code=`
pub(crate) async fn get(request: &Request<'_>, name: Name<'_>) -> Result<Reply, Refusal> {
    let path = request.function(name)?;
    let with_code = request.query.flag("code", true)?;
    let function = request.controller.function(&request.caller, &path).await?;
    detail(request, &function, with_code).await
}

/// `DELETE …/actions/NAME`
pub(crate) async fn delete(request: &Request<'_>, name: Name<'_>) -> Result<Reply, Refusal> {
    let path = request.function(name)?;
    let function = request.controller.delete_function(&request.caller, &path).await?;
    detail(request, &function, true).await
}

async fn detail(request: &Request<'_>, function: &Function, with_code: bool) -> Result<Reply, Refusal> {
    let code = match with_code {
        true => Some(shown_code(function, &request.controller.code(function).await?)),
        false => None,
    };
    Reply::json(StatusCode::OK, &ActionDetail::new(function, code))
}

/// `GET …/actions[/PACKAGE/]?limit=&skip=&count=`
pub(crate) async fn list(
    request: &Request<'_>,
    namespace: &str,
    package: Option<&str>,
) -> Result<Reply, Refusal> {
    let namespace = request.namespace(namespace)?;
    let package = package.map(entity_name).transpose()?;
    let ListQuery { page, count } = ListQuery::parse(&request.query, COLLECTION)?;
    let (controller, caller) = (request.controller, &request.caller);
    if package.is_some() && controller.count_functions(caller, &namespace, package.as_ref()).await? == 0 {
        // A package has no life of its own yet: one without actions is not there.
        return Err(ControllerError::NotFound.into());
    }
    if count {
        let all = controller.count_functions(caller, &namespace, package.as_ref()).await?;
        return Reply::json(
            StatusCode::OK,
            &serde_json::json!({ COLLECTION: all.saturating_sub(page.skip) }),
        );
    }
    let functions = controller.functions(caller, &namespace, package.as_ref(), page).await?;
    let shown: Vec<_> = functions.iter().map(ActionSummary::new).collect();
    Reply::json(StatusCode::OK, &shown)
}
