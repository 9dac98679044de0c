//! Actions: create, overwrite, read, list, delete.

use axum::body::Body;
use flint_controller::{ControllerError, PrepareWhen, PutCode, PutFunction, PutSequence, Unnamed};
use flint_model::{CodeFormat, Entity, Function, FunctionPath, Parameters, StrategyRequest};
use http::StatusCode;

use crate::{
    parse::{DecodedCode, Exec, ListQuery, Name, decode_code, put_body},
    refusal::Refusal,
    reply::Reply,
    request::{Request, entity_name},
    show::{ActionDetail, ActionSummary, BLACKBOX, contract_of_image, shown_code},
};

const COLLECTION: &str = "actions";

/// The kind of programs that name no container image.
const NATIVE: &str = "native";

/// `PUT …/actions/NAME?overwrite=`
pub(crate) async fn put(request: &Request<'_>, name: Name<'_>, body: Body) -> Result<Reply, Refusal> {
    let path = request.function(name)?;
    let overwrite = request.query.flag("overwrite", false)?;
    let mut room = request.room().await;
    let mut body = request.read_body(room.as_ref(), body, put_body).await?;
    if let Some(components) = components_of(request, &path, overwrite, body.exec.as_mut()).await? {
        let put = PutSequence {
            overwrite,
            components,
            annotations: body.annotations.clone().unwrap_or_default(),
            remove_annotations: body.del_annotations.clone().unwrap_or_default(),
            limits: body.limits(),
            version: body.version,
            publish: body.publish,
        };
        let sequence = request.controller.put_sequence(&request.caller, path, put).await?;
        return Reply::json(StatusCode::OK, &ActionDetail::of_sequence(&sequence, &Parameters::default()));
    }
    let strategy = strategy_of(body.exec.as_ref())?;
    let image = body.exec.as_ref().and_then(|exec| exec.image.as_deref());
    let image = image.map(|image| image.trim().to_owned()).filter(|_| strategy.contract.is_some());
    let code = match body.exec.take() {
        Some(exec) => Some(code_of(request, exec).await?),
        None => None,
    };
    let put = PutFunction {
        overwrite,
        image,
        limits: body.limits(),
        strategy,
        code,
        parameters: body.parameters,
        annotations: body.annotations.unwrap_or_default(),
        remove_annotations: body.del_annotations.unwrap_or_default(),
        version: body.version,
        publish: body.publish,
        prepare: PrepareWhen::Background,
        // An update names only what changes, and code written for OpenWhisk keeps connections between calls.
        unnamed: Unnamed::Kept,
        keep_clones: true,
        ..PutFunction::default()
    };
    if put.code.is_none() && overwrite {
        // Before the write, which must not be refused afterwards. A request with code holds a permit already,
        // or is small.
        room = request.room_to_show(&path).await?;
    }
    let deployed = request.controller.put_function(&request.caller, path, put, &|_| {}).await?;
    Ok(detail(request, &deployed.function, true).await?.in_room(room))
}

/// The requested components of a sequence: `None` if the action is no sequence, `Some(None)` if it is one
/// that keeps its components.
async fn components_of(
    request: &Request<'_>,
    path: &FunctionPath,
    overwrite: bool,
    exec: Option<&mut Exec>,
) -> Result<Option<Option<Vec<FunctionPath>>>, Refusal> {
    match exec {
        Some(exec) if exec.kind.trim().eq_ignore_ascii_case("sequence") => {
            Ok(Some(Some(exec.components.take().unwrap_or_default())))
        }
        None if overwrite => match request.controller.action(&request.caller, path).await {
            Ok(Entity::Sequence(_)) => Ok(Some(None)),
            // Errors are reported by the write.
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// The contract that a blackbox action's image implies. Flint runs no container images, but supports those
/// that only call a program, which is sent as code.
fn strategy_of(exec: Option<&Exec>) -> Result<StrategyRequest, Refusal> {
    let Some(exec) = exec.filter(|exec| exec.kind.trim().eq_ignore_ascii_case(BLACKBOX)) else {
        return Ok(StrategyRequest::default());
    };
    let image = exec.image.as_deref().unwrap_or_default();
    match (contract_of_image(image), &exec.code) {
        (Some(contract), Some(_)) => {
            Ok(StrategyRequest { contract: Some(contract), ..StrategyRequest::default() })
        }
        _ => Err(Refusal::not_in_this_version(
            "Container images other than openwhisk/dockerskeleton and openwhisk/actionloop-base with a program as code (wsk action create --native)",
        )),
    }
}

/// The code in `exec`.
async fn code_of(request: &Request<'_>, exec: Exec) -> Result<PutCode, Refusal> {
    let family = exec.kind.trim().split(':').next().unwrap_or_default().to_ascii_lowercase();
    let kind = request.controller.resolve_kind(&exec.kind)?;
    if kind.requires_main && exec.main.as_deref().is_none_or(|main| main.trim().is_empty()) {
        return Err(ControllerError::MainRequired(kind.kind.to_string()).into());
    }
    let code = exec.code.ok_or_else(|| Refusal::malformed("'code' must be a string defined in 'exec'"))?;
    let DecodedCode { content, binary } = request.aside(code.len(), || decode_code(code)).await?;
    Ok(PutCode {
        format: match family.as_str() {
            // A script, which is shown as it came.
            BLACKBOX | NATIVE if !binary => Some(CodeFormat::Source),
            _ => binary.then(|| archive_format(&content, &family)),
        },
        kind: exec.kind,
        content,
        main: exec.main,
    })
}

/// The format of decoded base64: an archive. The executor notices a broken one.
fn archive_format(content: &[u8], family: &str) -> CodeFormat {
    match content {
        _ if family == "java" => CodeFormat::Jar,
        [0x1f, 0x8b, ..] => CodeFormat::TarGz,
        [b'P', b'K', ..] => CodeFormat::Zip,
        [0x7f, b'E', b'L', b'F', ..] => CodeFormat::Executable,
        _ if family == NATIVE || family == BLACKBOX => CodeFormat::Executable,
        _ => CodeFormat::Zip,
    }
}

/// `GET …/actions/NAME?code=`
pub(crate) async fn get(request: &Request<'_>, name: Name<'_>) -> Result<Reply, Refusal> {
    let path = request.function(name)?;
    let with_code = request.query.flag("code", true)?;
    let (action, of_place) = request.controller.action_in_place(&request.caller, &path).await?;
    let room = match with_code {
        true => request.room_for_code_of(&action).await?,
        false => None,
    };
    Ok(shown(request, &action, &of_place, with_code).await?.in_room(room))
}

/// `DELETE …/actions/NAME`
pub(crate) async fn delete(request: &Request<'_>, name: Name<'_>) -> Result<Reply, Refusal> {
    let path = request.function(name)?;
    // Before it is deleted: the answer contains its code.
    let room = request.room_to_show(&path).await?;
    let action = request.controller.delete_action(&request.caller, &path).await?;
    Ok(shown(request, &action, &Parameters::default(), true).await?.in_room(room))
}

/// An action, and a sequence with the parameters of its place.
async fn shown(
    request: &Request<'_>,
    action: &Entity,
    of_place: &Parameters,
    with_code: bool,
) -> Result<Reply, Refusal> {
    match action {
        Entity::Function(function) => detail(request, function, with_code).await,
        Entity::Sequence(sequence) => {
            Reply::json(StatusCode::OK, &ActionDetail::of_sequence(sequence, of_place))
        }
        _ => Err(ControllerError::NotFound.into()),
    }
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
    if count {
        let all = controller.count_actions(caller, &namespace, package.as_ref()).await?;
        return Reply::json(
            StatusCode::OK,
            &serde_json::json!({ COLLECTION: all.saturating_sub(page.skip) }),
        );
    }
    let read = |most| controller.actions(caller, &namespace, package.as_ref(), page, most);
    let (actions, room) = request.listed(read).await?;
    Ok(Reply::list(actions.iter().filter_map(ActionSummary::of))?.in_room(room))
}
