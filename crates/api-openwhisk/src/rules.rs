//! Rules: create, overwrite, read, list, delete, enable and disable.

use axum::body::Body;
use flint_controller::PutRule;
use http::StatusCode;
use serde_json::json;

use crate::{
    parse::{ListQuery, Name, rule_body, rule_status},
    refusal::Refusal,
    reply::Reply,
    request::Request,
    show::{RuleDetail, RuleSummary},
};

const COLLECTION: &str = "rules";

/// `PUT …/rules/NAME?overwrite=`
pub(crate) async fn put(request: &Request<'_>, name: Name<'_>, body: Body) -> Result<Reply, Refusal> {
    let path = request.entity(name)?;
    let overwrite = request.query.flag("overwrite", false)?;
    let body = request.entity_body(body, rule_body).await?;
    let own = &request.caller.namespace.name;
    let put = PutRule {
        overwrite,
        trigger: body.trigger.map(|name| name.resolve(own)),
        action: body.action.map(|name| name.resolve(own)),
        annotations: body.annotations,
        publish: body.publish,
        version: body.version,
    };
    let rule = request.controller.put_rule(&request.caller, path, put).await?;
    Reply::json(StatusCode::OK, &RuleDetail::new(&rule))
}

/// `GET …/rules/NAME`
pub(crate) async fn get(request: &Request<'_>, name: Name<'_>) -> Result<Reply, Refusal> {
    let path = request.entity(name)?;
    let rule = request.controller.rule(&request.caller, &path).await?;
    Reply::json(StatusCode::OK, &RuleDetail::new(&rule))
}

/// `DELETE …/rules/NAME`
pub(crate) async fn delete(request: &Request<'_>, name: Name<'_>) -> Result<Reply, Refusal> {
    let path = request.entity(name)?;
    let rule = request.controller.delete_rule(&request.caller, &path).await?;
    Reply::json(StatusCode::OK, &RuleDetail::new(&rule))
}

/// `GET …/rules?limit=&skip=&count=`
pub(crate) async fn list(request: &Request<'_>, namespace: &str) -> Result<Reply, Refusal> {
    let namespace = request.namespace(namespace)?;
    let ListQuery { page, count } = ListQuery::parse(&request.query, COLLECTION)?;
    let (controller, caller) = (request.controller, &request.caller);
    if count {
        let all = controller.count_rules(caller, &namespace).await?;
        return Reply::json(StatusCode::OK, &json!({ COLLECTION: all.saturating_sub(page.skip) }));
    }
    let (rules, room) = request.listed(|most| controller.rules(caller, &namespace, page, most)).await?;
    Ok(Reply::list(rules.iter().map(RuleSummary::new))?.in_room(room))
}

/// `POST …/rules/NAME` with `{"status": …}`
pub(crate) async fn set_status(request: &Request<'_>, name: Name<'_>, body: Body) -> Result<Reply, Refusal> {
    let path = request.entity(name)?;
    let status = request.entity_body(body, rule_status).await?;
    request.controller.set_rule_status(&request.caller, &path, status).await?;
    Ok(Reply::empty())
}
