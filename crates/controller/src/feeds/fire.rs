//! A feed fires its trigger.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use flint_model::{Feed, FeedSource, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{Controller, ControllerError, Firing};

impl Controller {
    /// Fires the trigger of a feed for an instant, and lets the feed go on as `after`, by one commit. The functions that are called
    /// find both in `__ow_headers`, so that they can tell one event from another.
    pub(super) async fn fire_feed(
        self: &Arc<Self>,
        feed: &Feed,
        instant: Timestamp,
        after: Feed,
    ) -> Result<(), ControllerError> {
        let Some(caller) = self.caller_of(&feed.namespace, &feed.subject).await? else {
            return Err(ControllerError::BadKey);
        };
        let firing = Firing {
            path: feed.path(),
            payload: Bytes::from(Value::Object(feed.payload.clone()).to_string()),
            headers: json!({"x-flint-feed": feed_name(&feed.source), "x-flint-instant": instant.as_millis().to_string()}),
            transaction: Uuid::new_v4().simple().to_string().into(),
            arrived: Instant::now(),
            api_key: None,
        };
        self.fire_and_go_on(&caller, firing, after).await
    }
}

fn feed_name(source: &FeedSource) -> &'static str {
    match source {
        FeedSource::Alarm { .. } => "/whisk.system/alarms/alarm",
        FeedSource::Interval { .. } => "/whisk.system/alarms/interval",
        FeedSource::Once { .. } => "/whisk.system/alarms/once",
    }
}
