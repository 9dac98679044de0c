//! Handlers for logs, of past calls and as calls end.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use flint_controller::ControllerError;
use flint_model::Activation;
use flint_store::{ActivationQuery, Page};
use serde::Deserialize;

use crate::{
    Native,
    activations::{listed_name, page_of},
    auth::Tenant,
    body::written,
    error::{ApiError, Asked, Path},
    feed::{FOLLOWERS, News},
    functions::{MOST, path_of},
    listed::roomy,
    resource::{ActivationList, ActivationResource},
};

/// Idle time after which a comment is sent to keep the stream alive.
const ALIVE_EVERY: Duration = Duration::from_secs(15);

/// Which logs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LogsQuery {
    follow: bool,
    limit: Option<usize>,
}

/// Get the logs of a function's or sequence's latest activations
///
/// With `follow=true`, streams server-sent events: one record for each call that ends.
#[utoipa::path(get, path = "/v1/functions/{name}/logs", tag = "activations",
    params(
        ("name" = String, Path, description = "Function or sequence name: `name`, or `package%2Fname`"),
        ("follow" = Option<bool>, Query, description = "Stream server-sent events; default false. Each call that ends from now on sends `data: ` with an `ActivationResource`; long logs are cut and long results left out. `event: missed` gives the number of events missed; `event: refused` ends the stream when the key no longer opens the namespace"),
        ("limit" = Option<usize>, Query, description = "Maximum number of activations, up to 1000; default 10"),
    ),
    responses(
        (status = 200, description = "The latest activations with their logs, or the event stream", content((ActivationList = "application/json"), (String = "text/event-stream"))),
        (status = 429, body = crate::resource::ErrorBody, description = "32 clients already follow the namespace's logs"),
        (status = 404, description = "No such function or sequence", body = crate::resource::ErrorBody),
    ))]
pub(crate) async fn of_function(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Path(name): Path<String>,
    Asked(query): Asked<LogsQuery>,
) -> Result<Response, ApiError> {
    let path = path_of(&tenant.caller, &name)?;
    match native.controller.function(&tenant.caller, &path).await {
        // A sequence has records of its own.
        Ok(_) | Err(ControllerError::NoFunction(_)) => {}
        Err(error) => return Err(ApiError::no_function(error, path.namespace.as_str(), &path.local())),
    }
    let listed = listed_name(&native, &tenant, &name).await?;
    logs(&native, tenant, Some(listed), &query).await
}

/// Get the logs of the namespace's latest activations
///
/// With `follow=true`, streams server-sent events: one record for each call that ends.
#[utoipa::path(get, path = "/v1/logs", tag = "activations",
    params(("follow" = Option<bool>, Query, description = "Stream server-sent events as calls end, as for one function; default false"), ("limit" = Option<usize>, Query, description = "Maximum number of activations, up to 1000; default 10")),
    responses(
        (status = 200, description = "The latest activations with their logs, or the event stream", content((ActivationList = "application/json"), (String = "text/event-stream"))),
        (status = 429, body = crate::resource::ErrorBody, description = "32 clients already follow the namespace's logs"),
    ))]
pub(crate) async fn of_all(
    State(native): State<Arc<Native>>,
    tenant: Tenant,
    Asked(query): Asked<LogsQuery>,
) -> Result<Response, ApiError> {
    logs(&native, tenant, None, &query).await
}

async fn logs(
    native: &Arc<Native>,
    tenant: Tenant,
    function: Option<String>,
    query: &LogsQuery,
) -> Result<Response, ApiError> {
    if query.follow {
        return follow(Arc::clone(native), tenant, function);
    }
    let which = ActivationQuery { name: function, ..ActivationQuery::default() };
    let page = Page { skip: 0, limit: query.limit.unwrap_or(10).min(MOST) };
    roomy(native, &tenant, || page_of(native, &tenant, &which, page, true)).await
}

/// Writes events in a task until the client goes away, its key no longer opens the namespace, or the server
/// stops.
fn follow(native: Arc<Native>, tenant: Tenant, function: Option<String>) -> Result<Response, ApiError> {
    let follower = native.config.feed.follow(&tenant.caller.namespace.name);
    let mut follower = follower.ok_or_else(|| {
        ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "throttled",
            format!(
                "the logs of this namespace are followed {FOLLOWERS} times at once, as often as they may be"
            ),
        )
        .hint("end one of those who follow, or ask again and again without `follow`")
    })?;
    // A small buffer, since records are large.
    let (sender, body) = written(1);
    tokio::spawn(async move {
        // Tells the client that the stream is established.
        let mut event = Some(Bytes::from_static(b": following\n\n"));
        loop {
            if let Some(event) = event.take() {
                let opens = native.still_opens(&tenant).await;
                let event = if opens { event } else { Bytes::from_static(b"event: refused\ndata: null\n\n") };
                if sender.send(Ok(event)).await.is_err() || !opens {
                    return;
                }
            }
            let news = tokio::select! {
                news = tokio::time::timeout(ALIVE_EVERY, follower.next()) => news,
                () = sender.closed() => return,
            };
            event = match news {
                Ok(Some(News::Ended(record))) => {
                    is_wanted(&record, function.as_deref()).then(|| event_of(&record))
                }
                Ok(Some(News::Missed(count))) => Some(format!("event: missed\ndata: {count}\n\n").into()),
                Ok(None) => return,
                Err(_) => Some(Bytes::from_static(b": alive\n\n")),
            };
        }
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, body).into_response())
}

fn is_wanted(record: &Activation, function: Option<&str>) -> bool {
    let mut listed = String::new();
    function.is_none_or(|name| {
        record.listed_name(&mut listed);
        listed == name
    })
}

fn event_of(record: &Activation) -> Bytes {
    let json = serde_json::to_string(&ActivationResource::from(record.clone())).unwrap_or_default();
    // A result is as the function wrote it: line breaks between its values would end the event's data.
    let json = json.replace(['\n', '\r'], " ");
    format!("data: {json}\n\n").into()
}
