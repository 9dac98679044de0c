//! Fires the trigger of a feed.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use flint_model::{Feed, FeedSource};
use serde_json::json;
use uuid::Uuid;

use crate::{Controller, ControllerError, Firing};

/// An event of a feed.
pub(super) struct Event {
    /// A JSON object.
    pub(super) payload: String,
    /// Identifies the event: an alarm's instant in ms since 1970, or a stream's last sequence number.
    pub(super) instant: Option<String>,
}

impl Controller {
    /// Fires the trigger of a feed and advances the feed to `after`, in one commit. The called functions find
    /// the feed and the event's identity in `__ow_headers`.
    pub(super) async fn fire_feed(
        self: &Arc<Self>,
        feed: &Feed,
        event: Event,
        after: Feed,
    ) -> Result<(), ControllerError> {
        let Some(caller) = self.caller_of(&feed.namespace, &feed.subject).await? else {
            return Err(ControllerError::BadKey);
        };
        let mut headers = json!({"x-flint-feed": feed_name(&feed.source)});
        if let Some(instant) = event.instant {
            headers["x-flint-instant"] = instant.into();
        }
        let firing = Firing {
            path: feed.path(),
            payload: Bytes::from(event.payload),
            headers,
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
        FeedSource::Nats(_) => "/whisk.system/messaging/natsFeed",
    }
}
