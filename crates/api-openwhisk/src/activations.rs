//! Activation records: list, read, result, logs.

use flint_model::{Activation, ActivationId};
use http::StatusCode;
use serde_json::json;

use crate::{
    parse::ListQuery,
    refusal::Refusal,
    reply::Reply,
    request::Request,
    show::{Record, ResponseBody, Summary, shown_logs},
};

const COLLECTION: &str = "activations";

/// `GET …/activations?limit=&skip=&count=&docs=&since=&upto=&name=`
pub(crate) async fn list(request: &Request<'_>, namespace: &str) -> Result<Reply, Refusal> {
    let namespace = request.namespace(namespace)?;
    let ListQuery { page, count } = ListQuery::parse(&request.query, COLLECTION)?;
    let docs = request.query.flag("docs", false)?;
    let filter = ListQuery::activations(&request.query)?;
    if count && docs {
        return Err(Refusal::bad_request("The parameter 'docs' is not permitted with 'count'."));
    }
    let (controller, caller) = (request.controller, &request.caller);
    if count {
        let all = controller.count_activations(caller, &namespace, &filter).await?;
        return Reply::json(StatusCode::OK, &json!({ COLLECTION: all.saturating_sub(page.skip) }));
    }
    let records = controller.activations(caller, &namespace, &filter, page, docs).await?;
    match docs {
        true => Reply::json(StatusCode::OK, &records.iter().map(Record::of).collect::<Vec<_>>()),
        false => Reply::json(StatusCode::OK, &records.iter().map(Summary::of).collect::<Vec<_>>()),
    }
}

/// `GET …/activations/ID`
pub(crate) async fn get(request: &Request<'_>, namespace: &str, id: &str) -> Result<Reply, Refusal> {
    Reply::json(StatusCode::OK, &Record::of(&read(request, namespace, id).await?))
}

/// `GET …/activations/ID/result`
pub(crate) async fn result(request: &Request<'_>, namespace: &str, id: &str) -> Result<Reply, Refusal> {
    Reply::json(StatusCode::OK, &ResponseBody::of(&read(request, namespace, id).await?.response))
}

/// `GET …/activations/ID/logs`
pub(crate) async fn logs(request: &Request<'_>, namespace: &str, id: &str) -> Result<Reply, Refusal> {
    let record = read(request, namespace, id).await?;
    Reply::json(StatusCode::OK, &json!({ "logs": shown_logs(&record) }))
}

async fn read(request: &Request<'_>, namespace: &str, id: &str) -> Result<Activation, Refusal> {
    let namespace = request.namespace(namespace)?;
    let id: ActivationId = id.parse()?;
    Ok(request.controller.activation(&request.caller, &namespace, id).await?)
}
