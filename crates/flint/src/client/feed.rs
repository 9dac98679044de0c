//! Changes feeds by calling their action with a `lifecycleEvent`.

use http::Method;
use serde_json::{Map, Value, json};

use super::{Client, entity::NOT_THERE, segment};
use crate::failure::{Exit, Failure};

impl Client {
    /// Calls the feed at `action`, `/namespace/[package/]name`, for a trigger; returns its answer.
    pub(crate) async fn feed(
        &self,
        action: &str,
        trigger: &str,
        event: &str,
        given: Map<String, Value>,
    ) -> Result<Value, Failure> {
        let path = feed_path(action)?;
        let mut body = given;
        body.insert("lifecycleEvent".to_owned(), json!(event));
        body.insert("triggerName".to_owned(), json!(trigger));
        // Users' own feeds need it to fire the trigger; Flint's ignore it.
        if let Some(key) = self.authorization.as_ref().and_then(|bearer| bearer.strip_prefix("Bearer ")) {
            body.insert("authKey".to_owned(), json!(key));
        }
        let path = format!("{path}?blocking=true&result=true");
        let failed = |failure: Failure| match failure.code.as_str() {
            "not_found" if failure.message.starts_with(NOT_THERE) => {
                Failure { message: format!("there is no feed {action}"), ..failure }
                    .hint("`flint package get /NAMESPACE/PACKAGE` shows the feeds of a package")
            }
            _ => Failure {
                message: format!("the feed {action} has not done it: {}", failure.message),
                ..failure
            },
        };
        let answer = self.entity(Method::POST, &path, Some(&body.into())).await.map_err(failed)?;
        match answer.get("activationId") {
            Some(id) if answer.as_object().is_some_and(|answer| answer.len() == 1) => Err(Failure::new(
                Exit::FunctionFailed,
                "feed_is_slow",
                format!("the feed {action} has not answered yet: its activation is {id}"),
            )),
            _ => Ok(answer),
        }
    }
}

/// The path of a feed's action; the default namespace is one's own.
pub(crate) fn feed_path(action: &str) -> Result<String, Failure> {
    let parts: Vec<_> = action.strip_prefix('/').unwrap_or(action).split('/').collect();
    let (namespace, rest) = match (action.starts_with('/'), &parts[..]) {
        (true, [namespace, rest @ ..]) => (*namespace, rest),
        (false, [namespace, package, name]) => (*namespace, &[*package, *name][..]),
        (_, rest) => ("_", rest),
    };
    if !(1..=2).contains(&rest.len()) || namespace.is_empty() || rest.iter().any(|part| part.is_empty()) {
        return Err(Failure::usage(format!(
            "'{action}' is not a feed: write /NAMESPACE/PACKAGE/NAME, for example /whisk.system/alarms/alarm"
        )));
    }
    let rest: Vec<_> = rest.iter().map(|part| segment(part)).collect();
    Ok(format!("{}/actions/{}", segment(namespace), rest.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_is_named_by_its_path() {
        for (action, path) in [
            ("/whisk.system/alarms/alarm", "whisk.system/actions/alarms/alarm"),
            ("whisk.system/alarms/alarm", "whisk.system/actions/alarms/alarm"),
            ("mine/alarm", "_/actions/mine/alarm"),
            ("own feed", "_/actions/own%20feed"),
            ("/_/own", "_/actions/own"),
        ] {
            assert_eq!(feed_path(action).ok().as_deref(), Some(path), "{action}");
        }
        for bad in ["", "/", "/ns", "/ns/", "a//b", "/a/b/c/d", "a/b/c/d"] {
            assert!(feed_path(bad).is_err(), "{bad}");
        }
    }
}
