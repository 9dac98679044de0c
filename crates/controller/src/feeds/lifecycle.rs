//! The lifecycle of a feed as its users see it: `CREATE`, `READ`, `UPDATE`, `PAUSE`, `UNPAUSE`, `DELETE`.
//!
//! Requests are calls of the feed's action, which runs here instead of in a sandbox. Arguments and answers
//! are those of OpenWhisk's package. The key that clients send along (`authKey`) is neither needed nor kept:
//! the caller is already authenticated.

use std::sync::Arc;

use flint_model::{
    EntityName, EntityPath, Feed, FeedSource, FeedState, NamespaceName, ThenDelete, Timestamp,
};
use flint_nats::Reach;
use flint_store::{Expected, StoreError};
use serde_json::{Map, Value, json};

use super::{
    arguments::{Alarm, Arguments, check_one_end},
    config::FeedsConfig,
    messaging,
    schedule::Schedule,
};
use crate::{Caller, Controller, ControllerError};

/// Attempts at a change that conflicts with a firing.
const TRIES: usize = 8;

/// Why a lifecycle event failed.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The request is invalid.
    Because(String),
    /// Flint failed.
    Failed(ControllerError),
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self::Because(why)
    }
}

impl From<ControllerError> for Refused {
    fn from(error: ControllerError) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::TooMany { allowed } => Self::Because(format!(
                "this namespace has {allowed} feeds, which is the most that it may: delete one, or ask the operator for more"
            )),
            StoreError::Conflict => {
                Self::Because("somebody else is changing this feed: try again".to_owned())
            }
            other => Self::Failed(other.into()),
        }
    }
}

/// What a call says. Whatever reads it runs aside: a schedule takes many searches for its instants.
struct Asked {
    given: Map<String, Value>,
    now: Timestamp,
    config: FeedsConfig,
}

impl Asked {
    fn arguments(&self) -> Arguments<'_> {
        Arguments { given: &self.given, now: self.now, config: &self.config }
    }
}

impl Controller {
    /// Handles a call of a feed's action.
    pub(crate) async fn feed_lifecycle(
        &self,
        caller: &Caller,
        which: Which,
        given: Map<String, Value>,
    ) -> Result<Value, Refused> {
        let trigger = trigger_of(&given, &caller.namespace.name)?;
        let (now, config) = (self.stores.clock.now(), self.config.feeds.clone());
        let event = match given.get("lifecycleEvent") {
            None | Some(Value::Null) => "CREATE".to_owned(),
            Some(Value::String(event)) => event.to_ascii_uppercase(),
            Some(other) => other.to_string(),
        };
        let asked = Asked { given, now, config };
        match event.as_str() {
            "CREATE" => self.create_feed(caller, which, trigger, asked).await,
            "READ" => Ok(self.shown(&self.feed_of(&trigger).await?)),
            "UPDATE" => {
                let reach = self.config.feeds.reach();
                self.change_feed(&trigger, move |feed| updated(feed, &asked.arguments(), &reach)).await
            }
            "PAUSE" => self.change_feed(&trigger, move |feed| paused(feed, now)).await,
            "UNPAUSE" => self.change_feed(&trigger, move |feed| resumed(feed, now)).await,
            "DELETE" => {
                // The feed was deleted with its trigger, but clients still send this.
                self.stores.feeds.delete_feed(&trigger).await?;
                self.feeding.tell(&trigger);
                Ok(json!({"status": "success"}))
            }
            _ => Err("unsupported lifecycleEvent".to_owned().into()),
        }
    }

    async fn create_feed(
        &self,
        caller: &Caller,
        which: Which,
        trigger: EntityPath,
        asked: Asked,
    ) -> Result<Value, Refused> {
        let now = asked.now;
        let reach = self.config.feeds.reach();
        let read = move || {
            let arguments = asked.arguments();
            let source = match which {
                Which::Alarm(alarm) => arguments.source(alarm)?,
                Which::Nats => arguments.nats_source(&reach)?,
            };
            let next = Schedule::of(&source)?.and_then(|schedule| schedule.next(now));
            let payload = arguments.payload()?.unwrap_or_default();
            Ok::<_, String>((source, next, payload, arguments.max_triggers()?))
        };
        let (source, next, payload, left) = self.aside(&trigger.namespace, read).await??;
        match self.trigger_at(&trigger).await {
            Ok(Some(_)) => {}
            Ok(None) | Err(ControllerError::OtherCollection) => {
                return Err(format!("there is no trigger /{trigger}: create it first").into());
            }
            Err(error) => return Err(Refused::Failed(error)),
        }
        let feed = Feed {
            namespace: trigger.namespace,
            trigger: trigger.name,
            subject: caller.subject.as_ref().to_owned(),
            revision: 0, // the store chooses it
            source,
            payload,
            state: FeedState::Active,
            since: now,
            next,
            retry_at: None,
            last: None,
            fired: 0,
            position: None,
            left,
        };
        match self.stores.feeds.put_feed(&feed, Expected::Absent, self.config.feeds.per_namespace).await {
            Err(StoreError::Conflict) if self.stored_feed(&feed.path()).await?.is_some() => {
                Err(format!("the trigger /{} has a feed already: update or delete that", feed.path()).into())
            }
            other => {
                other?;
                self.feeding.tell(&feed.path());
                Ok(json!({"status": "success"}))
            }
        }
    }

    /// The stored feed with the state of its connection.
    fn shown(&self, feed: &Feed) -> Value {
        let mut shown = shown(feed);
        set(
            &mut shown["status"],
            "connection",
            self.feeding.connections.of(&feed.path()).map(|state| json!(state)),
        );
        shown
    }

    /// A trigger's feed. One that the disk has damaged is its owner's to replace, and no failure of this call.
    async fn stored_feed(&self, trigger: &EntityPath) -> Result<Option<Feed>, Refused> {
        match self.stores.feeds.feed(trigger).await {
            Err(error @ StoreError::Damaged { .. }) => {
                tracing::error!(%trigger, %error, "a trigger's feed cannot be read");
                Err(format!("the feed of the trigger /{trigger} is damaged and does not fire: delete the trigger, and create it again").into())
            }
            read => Ok(read?),
        }
    }

    async fn feed_of(&self, trigger: &EntityPath) -> Result<Feed, Refused> {
        let feed = self.stored_feed(trigger).await?;
        feed.ok_or_else(|| format!("the trigger /{trigger} has no feed of this server's").into())
    }

    /// Writes the feed that `change` returns; repeated if the feed has fired meanwhile.
    async fn change_feed(
        &self,
        trigger: &EntityPath,
        change: impl Fn(Feed) -> Result<Feed, String> + Send + Sync + 'static,
    ) -> Result<Value, Refused> {
        let change = Arc::new(change);
        for _ in 0..TRIES {
            let old = self.feed_of(trigger).await?;
            let expected = Expected::Revision(old.revision);
            if old.state == FeedState::Leaving {
                return Err(format!("the trigger /{trigger} has fired and is being deleted").into());
            }
            let change = Arc::clone(&change);
            let changed = self.aside(&trigger.namespace, move || change(old)).await??;
            match self.stores.feeds.put_feed(&changed, expected, usize::MAX).await {
                Err(StoreError::Conflict) => {}
                other => {
                    other?;
                    self.feeding.tell(trigger);
                    return Ok(json!({"status": "success"}));
                }
            }
        }
        Err(StoreError::Conflict.into())
    }
}

/// The feed with the requested changes. It is active again, even if it had ended.
fn updated(feed: Feed, arguments: &Arguments<'_>, reach: &Reach) -> Result<Feed, String> {
    let source = match &feed.source {
        FeedSource::Nats(source) => arguments.changed_nats(source, reach)?,
        alarm => arguments.changed(alarm)?,
    };
    let payload = arguments.payload()?;
    let (is_bounded_anew, most) = (arguments.get("maxTriggers").is_some(), arguments.max_triggers()?);
    if source.is_none() && payload.is_none() && !is_bounded_anew {
        return Err("no updatable parameters were specified".to_owned());
    }
    // Its schedule stays as it is, including an instant that is due and waiting.
    let keeps_time = source.is_none() && feed.state == FeedState::Active;
    let source = source.unwrap_or(feed.source.clone());
    // -1 removes the bound.
    let left = if is_bounded_anew { most } else { feed.left };
    if is_bounded_anew || source != feed.source {
        let before = "it has a maxTriggers from before, which maxTriggers -1 beside the stopDate removes";
        check_one_end(&source, left).map_err(|both| match is_bounded_anew {
            true => both,
            false => format!("{both}: {before}"),
        })?;
    }
    let changed = Feed { source, payload: payload.unwrap_or(feed.payload.clone()), left, ..feed };
    if keeps_time { Ok(changed) } else { resumed(changed, arguments.now) }
}

fn paused(feed: Feed, now: Timestamp) -> Result<Feed, String> {
    match feed.state {
        FeedState::Active => {
            Ok(Feed { state: FeedState::Paused, since: now, next: None, retry_at: None, ..feed })
        }
        _ => Ok(feed),
    }
}

/// The feed, active from now on. Instants that passed while it was not are skipped.
fn resumed(feed: Feed, now: Timestamp) -> Result<Feed, String> {
    let after = feed.last.map_or(now, |last| last.max(now));
    let next = match Schedule::of(&feed.source)? {
        None => None,
        Some(schedule) => {
            let never = || "it would not fire any more: give a later date or stopDate".to_owned();
            Some(schedule.next(after).ok_or_else(never)?)
        }
    };
    if feed.left == Some(0) {
        return Err("it has fired as often as it may: give maxTriggers".to_owned());
    }
    let since = if feed.state == FeedState::Active { feed.since } else { now };
    Ok(Feed { state: FeedState::Active, since, next, retry_at: None, ..feed })
}

/// The trigger in a request: always one of the caller's namespace, given by name or path.
fn trigger_of(given: &Map<String, Value>, own: &NamespaceName) -> Result<EntityPath, String> {
    let Some(Value::String(name)) = given.get("triggerName") else {
        return Err("no trigger name parameter was provided".to_owned());
    };
    let shown: String = name.chars().take(100).collect();
    let (namespace, name) = match name.strip_prefix('/') {
        Some(path) => path.split_once('/').unwrap_or((path, "")),
        None => ("_", name.as_str()),
    };
    if namespace != "_" && namespace != own.as_str() {
        return Err(format!(
            "the trigger '{shown}' is not in the namespace of the key that was used, '{own}'"
        ));
    }
    let name = EntityName::parse(name).map_err(|error| format!("'{shown}' is no trigger's name: {error}"))?;
    Ok(EntityPath::new(own.clone(), name))
}

/// The action that was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Alarm(Alarm),
    Nats,
}

/// A feed as its users see it.
fn shown(feed: &Feed) -> Value {
    let mut config = json!({"name": feed.trigger, "namespace": feed.namespace, "payload": feed.payload});
    let mut status = json!({
        "active": feed.state == FeedState::Active,
        "dateChanged": feed.since.as_millis(),
        "dateChangedISO": iso(feed.since),
        "fired": feed.fired,
    });
    match &feed.source {
        FeedSource::Alarm { cron, timezone, start, stop } => {
            config["cron"] = json!(cron);
            set(&mut config, "timezone", timezone.as_ref().map(|name| json!(name)));
            set(&mut config, "startDate", start.as_ref().map(|date| date.written()));
            set(&mut config, "stopDate", stop.as_ref().map(|date| date.written()));
        }
        FeedSource::Interval { minutes, start, stop } => {
            config["minutes"] = json!(minutes);
            config["startDate"] = start.written();
            set(&mut config, "stopDate", stop.as_ref().map(|date| date.written()));
        }
        FeedSource::Once { date, then_delete } => {
            config["date"] = date.written();
            let then_delete = match then_delete {
                ThenDelete::Nothing => None,
                ThenDelete::Trigger => Some(json!("true")),
                ThenDelete::Rules => Some(json!("rules")),
            };
            set(&mut config, "deleteAfterFire", then_delete);
        }
        FeedSource::Nats(source) => {
            for (key, value) in messaging::shown(source) {
                config[key] = value;
            }
        }
    }
    for (name, moment) in [("nextFire", feed.next), ("lastFire", feed.last)] {
        set(&mut status, name, moment.map(|moment| json!(moment.as_millis())));
        set(&mut status, &format!("{name}ISO"), moment.map(|moment| json!(iso(moment))));
    }
    set(&mut status, "triggersLeft", feed.left.map(|left| json!(left)));
    set(
        &mut status,
        "reason",
        match &feed.state {
            FeedState::Active | FeedState::Leaving => None,
            FeedState::Paused => Some(json!({"kind": "USER", "message": "Paused"})),
            FeedState::Ended(why) => Some(json!({"kind": "AUTO", "message": why})),
        },
    );
    json!({"config": config, "status": status})
}

fn set(object: &mut Value, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        object[key] = value;
    }
}

/// `2026-11-22T06:48:31Z`
fn iso(at: Timestamp) -> String {
    let at =
        i64::try_from(at.as_millis()).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    at.map_or_else(String::new, |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}
