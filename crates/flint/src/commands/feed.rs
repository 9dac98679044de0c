//! Feeds of triggers, as created, shown and deleted by `flint trigger`.

use http::Method;
use serde_json::{Map, Value, json};

use super::entity::{ask, pairs, place, said, shown, whole};
use crate::{
    cli::{EntityOptions, Global},
    client::{Client, feed_path},
    failure::{Exit, Failure},
    output::{ago, clock, tell},
};

const COLLECTION: &str = "triggers";
/// The annotation that names a trigger's feed.
const FEED: &str = "feed";

/// Creates a trigger and its feed. With `--update`, changes an existing trigger's feed.
pub(crate) async fn create(
    global: &Global,
    name: &str,
    action: &str,
    options: EntityOptions,
) -> anyhow::Result<Exit> {
    let asked = feed_path(action)?; // before anything is made
    let client = Client::new(global)?;
    let path = place(COLLECTION, name)?;
    let mut there = match options.update {
        true => find(&client, &path).await?,
        false => None,
    };
    if let Some(there) = &mut there {
        // What it says is only for the report.
        let _ = read_into(&client, there).await;
    }
    let old = there.as_ref().and_then(feed_of);
    let same = match &old {
        Some(old) if feed_path(old).ok().is_none_or(|old| old != asked) => {
            return Err(Failure::usage(format!("the feed of {name} is {old}, which would go on firing it"))
                .hint(format!(
                    "flint trigger delete {name}, which deletes that feed and leaves the rules; then create it with the other"
                ))
                .into());
        }
        old => old.is_some(),
    };
    let before = there.as_ref().map_or(&Value::Null, |there| &there["annotations"]);
    let body = json!({ "annotations": annotated(before, options.annotations, action) });
    let written =
        client.entity(Method::PUT, &format!("{path}?overwrite={}", options.update), Some(&body)).await?;
    let given: Map<_, _> = options.params.into_iter().collect();
    let event = if same { "UPDATE" } else { "CREATE" };
    if let Err(failure) = client.feed(action, &full(name)?, event, given).await {
        let undone = match there.is_some() {
            // A trigger without its feed was not requested.
            false => client.entity(Method::DELETE, &path, None).await,
            true => {
                let old = json!({ "annotations": before });
                client.entity(Method::PUT, &format!("{path}?overwrite=true"), Some(&old)).await
            }
        };
        if let Err(failure) = undone {
            tell!("warning: {name} is not as it was: {failure}");
        }
        return Err(failure.into());
    }
    if !same && !is_feed(&client, &asked).await {
        tell!(
            "warning: {action} is not marked as a feed (annotation feed=true): {name} fires only if it is one"
        );
    }
    let mut written = written;
    let _ = read_into(&client, &mut written).await;
    let next = match written[FEED]["status"]["nextFire"].as_u64() {
        Some(millis) => format!(", fires next at {}", clock(millis)),
        None => String::new(),
    };
    let done = done(there.as_ref(), &written);
    said(global, &written, &format!("{done} {}{next}", shown(&written["name"])))
}

/// Whether the function at this path is marked as a feed. Like OpenWhisk, the server calls any function as one:
/// most answer, and never fire anything.
async fn is_feed(client: &Client, path: &str) -> bool {
    let action = client.entity(Method::GET, &format!("{path}?code=false"), None).await;
    // Who may call it may not be allowed to read it.
    action.is_err() || action.is_ok_and(|action| has_mark(&action))
}

fn has_mark(action: &Value) -> bool {
    action["annotations"].as_array().into_iter().flatten().any(|pair| pair["key"] == FEED)
}

/// What a change has done, from the trigger before, if there was one, and after it.
fn done(before: Option<&Value>, after: &Value) -> &'static str {
    let is_active = |trigger: &Value| trigger[FEED]["status"]["active"].as_bool();
    match (before.map(is_active), is_active(after)) {
        (None, _) => "created",
        // Flint's feeds are active after each change.
        (Some(Some(false)), Some(true)) => "updated and resumed",
        _ => "updated",
    }
}

/// A trigger, if it exists.
pub(crate) async fn find(client: &Client, path: &str) -> Result<Option<Value>, Failure> {
    match client.entity(Method::GET, path, None).await {
        Ok(trigger) => Ok(Some(trigger)),
        Err(failure) if failure.code == "not_found" => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The given annotations, plus the existing feed unless they name another.
pub(crate) fn kept(there: Option<&Value>, mut given: Vec<(String, Value)>) -> Vec<(String, Value)> {
    if let Some(action) = there.and_then(feed_of)
        && given.iter().all(|(key, _)| key != FEED)
    {
        given.push((FEED.to_owned(), action.into()));
    }
    given
}

/// A trigger's annotations, overridden by the given ones and the feed.
fn annotated(before: &Value, given: Vec<(String, Value)>, action: &str) -> Value {
    let mut list: Vec<(String, Value)> = before
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|pair| Some((pair["key"].as_str()?.to_owned(), pair["value"].clone())))
        .collect();
    for (key, value) in given.into_iter().chain([(FEED.to_owned(), json!(action))]) {
        list.retain(|(there, _)| *there != key);
        list.push((key, value));
    }
    pairs(&list)
}

/// Adds the feed's own description to a trigger that has one.
pub(crate) async fn read_into(client: &Client, trigger: &mut Value) -> Result<(), Failure> {
    let Some(action) = feed_of(trigger) else { return Ok(()) };
    let name = format!("/{}/{}", shown(&trigger["namespace"]), shown(&trigger["name"]));
    trigger[FEED] = client.feed(&action, &name, "READ", Map::new()).await?;
    Ok(())
}

/// Sends a lifecycle event to a trigger's feed.
pub(crate) async fn tell(global: &Global, name: &str, event: &str, done: &str) -> anyhow::Result<Exit> {
    let client = Client::new(global)?;
    let trigger = ask(&client, Method::GET, COLLECTION, name, "", None).await?;
    let action = feed_of(&trigger).ok_or_else(|| {
        Failure::usage(format!(
            "{name} has no feed: it fires when `flint trigger fire` or an API call says so"
        ))
    })?;
    let answer = client.feed(&action, &full(name)?, event, Map::new()).await?;
    said(global, &answer, &format!("{done} {name}"))
}

/// Deletes the feed of a trigger that is about to be deleted.
pub(crate) async fn delete(global: &Global, name: &str) -> anyhow::Result<()> {
    let client = Client::new(global)?;
    let trigger = ask(&client, Method::GET, COLLECTION, name, "", None).await?;
    let Some(action) = feed_of(&trigger) else { return Ok(()) };
    // The trigger is deleted all the same: its feed may be gone already.
    if let Err(failure) = client.feed(&action, &full(name)?, "DELETE", Map::new()).await {
        tell!("warning: {failure}");
    }
    Ok(())
}

/// The action that fires a trigger.
fn feed_of(trigger: &Value) -> Option<String> {
    let annotations = trigger["annotations"].as_array()?;
    let feed = annotations.iter().find(|pair| pair["key"] == FEED)?;
    feed["value"].as_str().filter(|action| !action.is_empty()).map(str::to_owned)
}

/// A trigger's name as feeds expect it.
fn full(name: &str) -> Result<String, Failure> {
    let (namespace, name) = whole(name)?;
    Ok(format!("/{namespace}/{name}"))
}

/// The description of one of Flint's own feeds, for people.
pub(crate) fn lines(feed: &Value) -> Vec<(String, String)> {
    let (config, status) = (&feed["config"], &feed["status"]);
    let mut lines = Vec::new();
    for (key, title) in [
        ("cron", "cron"),
        ("timezone", "timezone"),
        ("minutes", "minutes"),
        ("date", "date"),
        ("startDate", "start"),
        ("stopDate", "stop"),
        ("deleteAfterFire", "then deletes"),
        ("servers", "servers"),
        ("subject", "subject"),
        ("queue", "queue"),
        ("stream", "stream"),
    ] {
        if !config[key].is_null() {
            let value = match config[key].as_u64().filter(|_| key.to_ascii_lowercase().ends_with("date")) {
                Some(millis) => clock(millis),
                None => shown(&config[key]),
            };
            lines.push((title.to_owned(), value));
        }
    }
    if config["payload"].as_object().is_some_and(|payload| !payload.is_empty()) {
        lines.push(("payload".to_owned(), config["payload"].to_string()));
    }
    if status["active"] == false {
        let why = status["reason"]["message"].as_str().unwrap_or("not active");
        lines.push(("state".to_owned(), why.to_owned()));
    }
    if let Some(connection) = status["connection"].as_str() {
        lines.push(("connection".to_owned(), connection.to_owned()));
    }
    if let Some(next) = status["nextFire"].as_u64() {
        lines.push(("next firing".to_owned(), clock(next)));
    }
    if let Some(last) = status["lastFire"].as_u64() {
        lines.push(("last firing".to_owned(), format!("{} ({})", clock(last), ago(last))));
    }
    if let Some(fired) = status["fired"].as_u64() {
        lines.push(("fired".to_owned(), fired.to_string()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_feed_of_a_trigger_is_an_annotation() {
        let trigger = |value: Value| json!({"annotations": [{"key": "a", "value": 1}, {"key": "feed", "value": value}]});
        assert_eq!(feed_of(&trigger(json!("/a/b"))).as_deref(), Some("/a/b"));
        for none in [trigger(json!("")), trigger(json!(7)), json!({"annotations": []}), json!({})] {
            assert_eq!(feed_of(&none), None);
        }
    }

    #[test]
    fn a_function_is_a_feed_by_an_annotation_of_any_value() {
        let action = |key: &str, value: Value| json!({"annotations": [{"key": "exec", "value": "x"}, {"key": key, "value": value}]});
        assert!(has_mark(&action("feed", json!(true))) && has_mark(&action("feed", json!(null))));
        assert!(!has_mark(&action("fee", json!(true))) && !has_mark(&json!({})));
    }

    #[test]
    fn an_update_says_that_it_resumed() {
        let trigger = |active: bool| json!({"feed": {"status": {"active": active}}});
        assert_eq!(done(None, &trigger(true)), "created");
        assert_eq!(done(Some(&trigger(false)), &trigger(true)), "updated and resumed");
        assert_eq!(done(Some(&trigger(true)), &trigger(true)), "updated");
        assert_eq!(done(Some(&json!({})), &trigger(true)), "updated", "it had no feed");
    }

    #[test]
    fn an_update_keeps_the_annotations_that_are_there() {
        let before = json!([{"key": "team", "value": "x"}, {"key": "feed", "value": "/a/b"}, {"key": "n", "value": 1}]);
        let after = annotated(&before, vec![("n".to_owned(), json!(2))], "/a/b");
        assert_eq!(
            after,
            json!([{"key": "team", "value": "x"}, {"key": "n", "value": 2}, {"key": "feed", "value": "/a/b"}])
        );
        assert_eq!(annotated(&Value::Null, vec![], "/a/b"), json!([{"key": "feed", "value": "/a/b"}]));
    }

    #[test]
    fn an_update_without_a_feed_keeps_the_one_that_is_there() {
        let there = json!({"annotations": [{"key": "team", "value": "x"}, {"key": "feed", "value": "/a/b"}]});
        let given = || vec![("n".to_owned(), json!(2))];
        let feed = |action: &str| ("feed".to_owned(), json!(action));
        assert_eq!(kept(Some(&there), given()), [given(), vec![feed("/a/b")]].concat());
        assert_eq!(kept(Some(&there), vec![feed("")]), [feed("")]);
        assert_eq!(kept(Some(&json!({"annotations": []})), given()), given());
        assert_eq!(kept(None, given()), given());
    }

    #[test]
    fn a_feed_is_shown_with_its_next_firing() {
        let feed = json!({
            "config": {"name": "t", "payload": {"a": 1}, "cron": "* * * * *", "stopDate": 1_785_933_296_789_u64, "startDate": "2026-01-01"},
            "status": {"active": false, "reason": {"message": "Paused"}, "nextFire": 0, "fired": 3},
        });
        let shown: Vec<_> =
            lines(&feed).into_iter().map(|(title, value)| format!("{title}={value}")).collect();
        assert_eq!(
            shown,
            [
                "cron=* * * * *",
                "start=2026-01-01",
                "stop=2026-08-05T12:34:56.789Z",
                "payload={\"a\":1}",
                "state=Paused",
                "next firing=1970-01-01T00:00:00.000Z",
                "fired=3",
            ]
        );
        let messages = json!({
            "config": {"name": "t", "payload": {}, "servers": ["nats://a:4222"], "subject": "orders.>", "tls": false},
            "status": {"active": true, "connection": "connected", "fired": 0},
        });
        let shown: Vec<_> =
            lines(&messages).into_iter().map(|(title, value)| format!("{title}={value}")).collect();
        assert_eq!(
            shown,
            ["servers=[\"nats://a:4222\"]", "subject=orders.>", "connection=connected", "fired=0"]
        );
        assert_eq!(lines(&Value::Null), []);
    }
}
