//! Built-in functions, executed by Flint itself: the feeds of `/whisk.system`, which change the server's
//! state. They are called, recorded and throttled like any other; only the attempt runs here instead of in an
//! instance.

use std::time::Instant;

use bytes::Bytes;
use flint_executor::{Body, CallEnd, Reply, ReplyHead};
use flint_invoker::{Before, Refusal};
use flint_model::Function;
use serde_json::{Map, Value, json};

use crate::{
    Controller, ControllerError,
    call::{Admitted, Attempted},
    feeds::{Alarm, Refused, Which},
    invoke::json_body,
    outcome::Verdict,
    record::Draft,
    system,
};

/// The kind of built-in functions. It cannot be deployed, since no executor offers it.
pub(crate) const KIND: &str = "builtin";

/// A built-in function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuiltIn {
    /// Creates and changes a trigger's feed.
    Feed(Which),
}

impl BuiltIn {
    /// The built-in that this function stands for, if any.
    pub(crate) fn of(function: &Function) -> Option<Self> {
        if function.path.namespace.as_str() != system::NAMESPACE || function.kind.as_str() != KIND {
            return None;
        }
        Some(match function.path.local().as_str() {
            "alarms/alarm" => Self::Feed(Which::Alarm(Alarm::Cron)),
            "alarms/interval" => Self::Feed(Which::Alarm(Alarm::Interval)),
            "alarms/once" => Self::Feed(Which::Alarm(Alarm::Once)),
            "messaging/natsFeed" => Self::Feed(Which::Nats),
            _ => return None,
        })
    }
}

impl Controller {
    /// One attempt at a call of a built-in function.
    pub(crate) async fn attempt_built_in(
        &self,
        call: &Admitted,
        built_in: BuiltIn,
        body: Body,
        before: Option<Before>,
    ) -> Attempted {
        let draft = Draft::none();
        let queued = Some(call.arrived.elapsed().as_micros() as u64);
        if let Some(before) = before
            && !before.0.await
        {
            return Attempted::Refused(Refusal::Withdrawn);
        }
        let began = Instant::now();
        let verdict = match self.run_built_in(call, built_in, body).await {
            Ok(result) => {
                let body = Bytes::from(result.to_string());
                Verdict::of_reply(Reply { head: ReplyHead::Json, body }, None)
            }
            Err(error) => {
                let cause = error.detail().unwrap_or_else(|| error.to_string());
                tracing::error!(function = %call.callable.function.path, cause, "a built-in function failed");
                Verdict::not_provisioned(&error.cause().unwrap_or_else(|| error.to_string()))
            }
        };
        let mut draft = Draft { took: Some(began.elapsed()), ..draft };
        draft.timeline.queued = queued;
        Attempted::Over { draft, verdict, end: CallEnd::default() }
    }

    /// The answer; an `error` is an answer too.
    async fn run_built_in(
        &self,
        call: &Admitted,
        built_in: BuiltIn,
        body: Body,
    ) -> Result<Value, ControllerError> {
        // As in OpenWhisk's package, whose action fails with its service's answer.
        let refused = |why: String| Ok(json!({"error": {"error": why}}));
        let Some(caller) = self.caller_of(&call.namespace, &call.subject).await? else {
            return refused("the namespace is gone or blocked".to_owned());
        };
        let body = json_body(&caller, body).await?;
        let parse = move || match serde_json::from_slice::<Map<String, Value>>(&body) {
            Err(_) if body.trim_ascii().is_empty() => Ok(Map::new()),
            given => given,
        };
        let given = match self.aside(&caller.namespace.name, parse).await? {
            Ok(given) => given,
            Err(error) => return refused(format!("the arguments are not a JSON object: {error}")),
        };
        let BuiltIn::Feed(which) = built_in;
        match self.feed_lifecycle(&caller, which, given).await {
            Ok(answer) => Ok(answer),
            Err(Refused::Because(why)) => refused(why),
            Err(Refused::Failed(error)) => Err(error),
        }
    }
}
