//! Fires a trigger: calls the actions of its active rules.
//!
//! When a firing is answered, all calls that it starts are durable, by one commit, and so is the record that
//! names them. They run like other accepted calls, on the account of the caller who fired. Firings of feeds
//! have no caller: their calls are made durable by the commit that advances the feed, and their record is
//! kept like that of any call.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use flint_model::{
    ActivationId, Annotations, ByteSize, EntityPath, Feed, FiredRule, Parameter, Parameters, Response, Rule,
    RuleOutcome, RuleStatus, Status, Trigger,
};
use flint_store::QueuedCall;
use flint_telemetry::ThrottledBy;
use serde_json::{Value, value::RawValue};

use super::key;
use crate::{
    Caller, Controller, ControllerError, ErrorKind,
    arguments::Defaults,
    asynchronous::{Accepting, policy},
    function_cache::Weigh,
    record,
    resolve::{Callee, Right},
    weight,
};

/// The argument that passes the request's headers to actions.
const HEADERS: &str = "__ow_headers";

/// A trigger with its rules, computed once.
pub(crate) struct ReadyTrigger {
    trigger: Trigger,
    rules: Vec<Rule>,
}

impl ReadyTrigger {
    fn calls_anything(&self) -> bool {
        self.rules.iter().any(|rule| rule.status == RuleStatus::Active)
    }
}

impl Weigh for ReadyTrigger {
    fn weight(&self) -> usize {
        let rules =
            self.rules.iter().map(|rule| size_of::<Rule>() + weight::of_annotations(&rule.annotations));
        size_of::<Self>()
            + weight::of_parameters(&self.trigger.parameters)
            + weight::of_annotations(&self.trigger.annotations)
            + rules.sum::<usize>()
    }
}

/// A request to fire a trigger.
#[derive(Debug)]
pub struct Firing {
    /// The trigger.
    pub path: EntityPath,
    /// A JSON object; empty = `{}`.
    pub payload: Bytes,
    /// The request's headers, an object.
    pub headers: Value,
    /// The request's transaction id.
    pub transaction: Arc<str>,
    /// When the request arrived.
    pub arrived: Instant,
    /// The key it came with, passed on to functions that ask for it.
    pub api_key: Option<Arc<str>>,
}

impl Controller {
    /// Fires a trigger. Returns the trigger's activation, whose record is durable like the calls; without an
    /// active rule there is neither.
    pub async fn fire(
        self: &Arc<Self>,
        caller: &Caller,
        firing: Firing,
    ) -> Result<Option<ActivationId>, ControllerError> {
        if caller.namespace.name != firing.path.namespace {
            return Err(ControllerError::Forbidden(firing.path.to_string()));
        }
        let (controller, caller) = (Arc::clone(self), caller.clone());
        let fired = async move {
            let (ready, arguments) = controller.admit_firing(&caller, &firing).await?;
            if !ready.calls_anything() {
                return Ok(None);
            }
            controller.call_rules(caller, &ready, firing, arguments, None).await
        };
        self.detached(fired).await
    }

    /// Fires a feed's trigger, and advances the feed to `feed` by the commit that makes the calls durable. If
    /// the namespace's limits refuse a call, no call is made and the feed does not advance.
    pub(crate) async fn fire_and_go_on(
        self: &Arc<Self>,
        caller: &Caller,
        firing: Firing,
        feed: Feed,
    ) -> Result<(), ControllerError> {
        let (ready, arguments) = self.admit_firing(caller, &firing).await?;
        if !ready.calls_anything() {
            self.stores.feeds.go_on(&feed, Vec::new(), None).await?;
            return Ok(());
        }
        let (controller, caller) = (Arc::clone(self), caller.clone());
        let firing =
            async move { controller.call_rules(caller, &ready, firing, arguments, Some(feed)).await };
        self.detached(firing).await?;
        Ok(())
    }

    /// Whether a trigger has any rule, active or not.
    pub(crate) async fn has_rules(&self, path: &EntityPath) -> Result<bool, ControllerError> {
        Ok(!self.ready_trigger(path).await?.rules.is_empty())
    }

    /// The trigger, and the arguments of the calls.
    async fn admit_firing(
        &self,
        caller: &Caller,
        firing: &Firing,
    ) -> Result<(Arc<ReadyTrigger>, Bytes), ControllerError> {
        if self.stopping.is_cancelled() {
            return Err(ControllerError::ShuttingDown);
        }
        caller.account().admit_fire(caller.limits().fires_per_minute).inspect_err(|error| {
            if matches!(error, ControllerError::Rate { .. }) {
                self.metrics.throttled(caller.namespace.name.as_str(), ThrottledBy::Fires);
            }
        })?;
        let ready = self.ready_trigger(&firing.path).await?;
        let headers = Parameter { key: HEADERS.to_owned(), value: firing.headers.clone(), init: false };
        let defaults = Parameters(vec![headers]).over(&ready.trigger.parameters);
        let arguments = Defaults::new(&defaults, &Annotations::default()).merge(firing.payload.clone())?;
        Ok((ready, arguments))
    }

    /// Calls the actions of the rules, and keeps the trigger's record.
    async fn call_rules(
        self: Arc<Self>,
        caller: Caller,
        ready: &ReadyTrigger,
        firing: Firing,
        arguments: Bytes,
        goes_on: Option<Feed>,
    ) -> Result<Option<ActivationId>, ControllerError> {
        let (mut calls, mut fired) = (Vec::new(), Vec::with_capacity(ready.rules.len()));
        for rule in &ready.rules {
            let outcome = match self.call_rule(&caller, rule, &firing, &arguments).await {
                Ok(accepting) => {
                    let activation = accepting.call.activation;
                    calls.push(accepting);
                    RuleOutcome::Called { activation }
                }
                // A feed waits until all calls are admitted; a caller is told of refused ones in the record.
                Err(error) if goes_on.is_some() && is_for_now(&error, calls.len()) => return Err(error),
                Err(error) => refused(rule, error),
            };
            fired.push(FiredRule { rule: rule.path(), action: rule.action.clone(), outcome });
        }
        let id = ActivationId::generate();
        // Built first: once calls are accepted, nothing may be refused any more.
        let record = match caller.limits().store_activations {
            true => {
                let response = response(&firing.payload)?;
                Some(record::of_trigger(id, &caller, &ready.trigger, response, fired))
            }
            false => None,
        };
        self.accept_all(calls, goes_on.as_ref()).await?;
        match (record, goes_on) {
            (Some(record), None) => self.write_down(record).await,
            (Some(record), Some(_)) => self.stores.activations.append(record),
            (None, _) => {}
        }
        Ok(Some(id))
    }

    /// The call of one rule, admitted as if the caller had made it.
    async fn call_rule(
        &self,
        caller: &Caller,
        rule: &Rule,
        firing: &Firing,
        arguments: &Bytes,
    ) -> Result<Accepting, ControllerError> {
        if rule.status == RuleStatus::Inactive {
            let (rule, action) = (rule.path(), &rule.action);
            let text = format!("Rule '{rule}' is inactive, action '{action}' was not activated.");
            return Err(ControllerError::Conflicting(text));
        }
        let in_flight = self.admit(caller)?;
        let activation = ActivationId::generate();
        let resolved = self.resolve(caller, &rule.action, Right::Activate).await?.pick(activation);
        // Checked now, so that the trigger's record reports the refusal.
        match &resolved.callee {
            Callee::Function(callable) => drop(callable.defaults.merge(arguments.clone())?),
            Callee::Sequence(sequence) => self.may_call_components(caller, sequence).await?,
        }
        Ok(Accepting {
            call: QueuedCall {
                activation,
                namespace: caller.namespace.name.clone(),
                subject: caller.subject.as_ref().to_owned(),
                path: rule.action.clone(),
                arguments: arguments.clone(),
                transaction: firing.transaction.as_ref().to_owned(),
                accepted: self.stores.clock.now(),
                policy: policy::policy(&resolved, &self.config.asynchronous),
                cause: None,
                promised: false,
            },
            arrived: firing.arrived,
            api_key: firing.api_key.clone(),
            recorded: caller.limits().store_activations,
            in_flight,
        })
    }

    /// A trigger with its rules, cached or from the catalog.
    async fn ready_trigger(&self, path: &EntityPath) -> Result<Arc<ReadyTrigger>, ControllerError> {
        let began = match self.triggers.get(&key(path)) {
            Ok(ready) => return Ok(ready),
            Err(began) => began,
        };
        let trigger = self.trigger_at(path).await?.ok_or(ControllerError::NotFound)?;
        let rules = self.stores.catalog.rules_of(path).await?;
        let ready = Arc::new(ReadyTrigger { trigger, rules });
        self.triggers.insert(key(path), Arc::clone(&ready), began);
        Ok(ready)
    }
}

/// Whether a call that was refused after `calls` others of its firing may succeed later: not if these alone
/// reach their namespace's limit.
fn is_for_now(error: &ControllerError, calls: usize) -> bool {
    match error {
        ControllerError::ShuttingDown => true,
        ControllerError::Rate { allowed, .. } | ControllerError::Concurrency { allowed, .. } => {
            calls == 0 || calls < *allowed as usize
        }
        _ => false,
    }
}

/// The outcome of a rule whose action was not called, for the trigger's record.
fn refused(rule: &Rule, error: ControllerError) -> RuleOutcome {
    let status = match error.kind() {
        ErrorKind::Internal | ErrorKind::NotImplemented | ErrorKind::Unavailable => Status::InternalError,
        _ => Status::ApplicationError,
    };
    if let Some(detail) = error.detail() {
        tracing::error!(rule = %rule.path(), detail, "a rule's action was not called");
    }
    RuleOutcome::Refused { status, error: error.to_string() }
}

/// A trigger's response: its payload.
fn response(payload: &Bytes) -> Result<Response, ControllerError> {
    let text = match payload.trim_ascii() {
        [] => "{}".to_owned(),
        object => String::from_utf8_lossy(object).into_owned(),
    };
    let size = ByteSize::bytes(text.len() as u64);
    let result =
        RawValue::from_string(text).map_err(|error| ControllerError::Malformed(error.to_string()))?;
    Ok(Response { status: Status::Success, result: Some(result), size, content_type: None })
}
