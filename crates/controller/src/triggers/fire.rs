//! A trigger fires: the actions of its active rules are called.
//!
//! When the firing is answered, every call that it starts is durable, all by one commit, and after them the record that names them. They run as
//! other accepted calls do, on the account of whoever fired the trigger. Firings of feeds are answered to nobody: their calls are durable by the
//! same commit as the feed's step to its next instant, and their record is kept as that of any call.

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

/// What the actions of a trigger find the request's headers under.
const HEADERS: &str = "__ow_headers";

/// A trigger with its rules, worked out once.
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

/// An event.
#[derive(Debug)]
pub struct Firing {
    /// Which trigger it is of.
    pub path: EntityPath,
    /// A JSON object; empty = `{}`.
    pub payload: Bytes,
    /// The request's headers, an object.
    pub headers: Value,
    /// The request's transaction id.
    pub transaction: Arc<str>,
    /// When the request arrived.
    pub arrived: Instant,
    /// The key it came with, handed on to functions that ask for it.
    pub api_key: Option<Arc<str>>,
}

impl Controller {
    /// Fires a trigger. The activation is that of the trigger, whose record is durable like the calls; there is none, and no record, when it has no
    /// active rule.
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

    /// Fires a trigger because of its feed, which goes on as `feed` by the commit that makes the calls durable. While the namespace's limits
    /// refuse a call, none is made, and the feed stays where it is.
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

    /// The trigger, and what its event is to the functions that are called.
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

    /// Calls what the rules say, and writes the trigger's record.
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
                // What a feed fires with waits for its calls; what is fired by hand is told of them.
                Err(error) if goes_on.is_some() && is_for_now(&error, calls.len()) => return Err(error),
                Err(error) => refused(rule, error),
            };
            fired.push(FiredRule { rule: rule.path(), action: rule.action.clone(), outcome });
        }
        let id = ActivationId::generate();
        // Whatever can be refused is refused while nothing is accepted.
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

    /// The call that one rule makes, admitted as if the firing user had asked for it.
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
        if let Callee::Function(callable) = &resolved.callee {
            // What the call would be refused for when it runs, the record of the trigger says now.
            callable.defaults.merge(arguments.clone())?;
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
            },
            arrived: firing.arrived,
            api_key: firing.api_key.clone(),
            recorded: caller.limits().store_activations,
            in_flight,
        })
    }

    /// A trigger with its rules, from memory or from the catalog.
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

/// Whether a call that was refused beside so many others of its firing may be made later with them: not where they alone are as many as
/// their namespace may make.
fn is_for_now(error: &ControllerError, calls: usize) -> bool {
    match error {
        ControllerError::ShuttingDown => true,
        ControllerError::Rate { allowed, .. } | ControllerError::Concurrency { allowed, .. } => {
            calls == 0 || calls < *allowed as usize
        }
        _ => false,
    }
}

/// What the trigger's record says of a rule whose action was not called.
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

/// A trigger answers with its payload alone.
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
