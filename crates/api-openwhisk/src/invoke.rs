//! Invocation of actions.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use flint_controller::{Accepts, Answer, ControllerError, Invocation, Mode};
use flint_model::{Activation, ActivationId, Status};
use http::StatusCode;

use crate::{
    parse::Name,
    refusal::Refusal,
    reply::Reply,
    request::{Request, json_body},
    show::Record,
};

/// `POST …/actions/NAME?blocking=&result=&timeout=`
pub(crate) async fn invoke(request: &Request<'_>, name: Name<'_>, body: Body) -> Result<Reply, Refusal> {
    let path = request.function(name)?;
    let bounds = &request.caller.limits().bounds;
    let blocking = request.query.flag("blocking", false)?;
    let result_only = request.query.flag("result", false)?;
    let wait = request.query.timeout(bounds.max_blocking_wait.as_millis() as u64)?;
    let allowed = bounds.max_payload.as_u64();
    let too_large = |size| ControllerError::TooLarge { what: "Request", size, allowed }.into();
    let body = json_body(request.headers, body, allowed, request.arrival(None), too_large).await?;
    let invocation = Invocation {
        path,
        body: body.into(),
        head: None,
        mode: match blocking {
            true => Mode::Blocking { wait: Duration::from_millis(wait) },
            false => Mode::NonBlocking,
        },
        accepts: Accepts::Json,
        transaction: Arc::clone(&request.transaction),
        arrived: request.arrived,
        api_key: Some(request.key.as_str().into()),
    };
    match request.controller.invoke(&request.caller, invocation).await? {
        Answer::Accepted(id) => Ok(accepted(id)),
        Answer::Finished(record) => finished(&record, result_only),
        // Impossible for a caller that takes JSON only.
        Answer::Http(answer) => Ok(accepted(answer.activation)),
    }
}

/// The answer to a call that goes on without its caller.
pub(crate) fn accepted(id: ActivationId) -> Reply {
    Reply::raw_json(StatusCode::ACCEPTED, format!("{{\"activationId\":\"{id}\"}}")).of_activation(id)
}

/// The answer to a call that is over: its record, or only its result. An array is always returned alone.
fn finished(record: &Activation, result_only: bool) -> Result<Reply, Refusal> {
    let status = match record.response.status {
        Status::Success => StatusCode::OK,
        Status::ApplicationError | Status::DeveloperError => StatusCode::BAD_GATEWAY,
        Status::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let result = record.response.result.as_ref().map_or("{}", |result| result.get());
    let reply = match result_only || result.trim_start().starts_with('[') {
        true => Reply::raw_json(status, result.to_owned()),
        false => Reply::json(status, &Record::of(record))?,
    };
    Ok(reply.of_activation(record.id))
}
