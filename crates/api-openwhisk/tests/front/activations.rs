//! Contract §5: records.

use serde_json::{Value, json};

use crate::support::Api;

fn annotation<'a>(record: &'a Value, key: &str) -> Option<&'a Value> {
    record["annotations"].as_array()?.iter().find(|pair| pair["key"] == key).map(|pair| &pair["value"])
}

#[tokio::test]
async fn a_record_tells_what_ran_how_long_and_what_it_logged() {
    let api = Api::start().await;
    api.action("f", "echo it").await;
    let cold = api.record(&api.blocking("f", json!({"a": 1})).await.activation()).await;
    let warm = api.record(&api.blocking("f", json!({"a": 2})).await.activation()).await;
    assert_eq!(annotation(&cold, "path"), Some(&json!("guest/f")));
    assert_eq!(annotation(&cold, "kind"), Some(&json!("nodejs:20")));
    let limits = json!({"timeout": 60_000, "memory": 256, "logs": 10, "concurrency": 1});
    assert_eq!(annotation(&cold, "limits"), Some(&limits));
    assert_eq!(annotation(&cold, "timeout"), Some(&json!(false)));
    assert!(annotation(&cold, "waitTime").unwrap().is_u64());
    assert!(annotation(&cold, "initTime").unwrap().is_u64(), "cold");
    assert_eq!(annotation(&warm, "initTime"), None, "warm");
    let line = cold["logs"][0].as_str().unwrap();
    assert_eq!((&line[10..11], &line[29..]), ("T", "Z stdout: called"), "{line}");
    assert!(cold["end"].as_u64() >= cold["start"].as_u64());
}

#[tokio::test]
async fn the_parts_of_a_record_can_be_read_alone() {
    let api = Api::start().await;
    api.action("f", r#"answer {"error":"mine"}"#).await;
    let id = api.blocking("f", json!({})).await.activation();
    let record = api.record(&id).await;
    let expected =
        json!({"status": "application error", "success": false, "result": {"error": "mine"}, "size": 16});
    assert_eq!(api.get(&format!("activations/{id}/result")).await.json(), expected);
    assert_eq!(api.get(&format!("activations/{id}/logs")).await.json(), json!({"logs": record["logs"]}));
    let upper = id.to_ascii_uppercase();
    assert_eq!(api.get(&format!("activations/{upper}")).await.status, 200, "digits have no case");
}

#[tokio::test]
async fn ids_that_are_none_are_told_from_ids_that_are_not_there() {
    let api = Api::start().await;
    for (id, status, text) in [
        ("abc", 400, "Activation id length is 3 but must be 32."),
        (&"z".repeat(32), 400, "The activation id is not valid."),
        (&"0".repeat(32), 404, "The requested resource does not exist."),
    ] {
        for part in ["", "/result", "/logs"] {
            let reply = api.get(&format!("activations/{id}{part}")).await;
            assert_eq!(reply.refusal(), (status, text.to_owned()), "{id}{part}");
        }
    }
}

#[tokio::test]
async fn lists_are_filtered_and_counted() {
    let api = Api::start().await;
    api.action("f", "echo it").await;
    api.action("g", "throw boom").await;
    let mut records = Vec::new();
    for name in ["f", "g", "f", "g", "f"] {
        records.push(api.record(&api.blocking(name, json!({})).await.activation()).await);
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    }
    let ids = async |query: String| {
        let list = api.get(&format!("activations{query}")).await.json();
        list.as_array().unwrap().iter().map(|item| item["activationId"].clone()).collect::<Vec<_>>()
    };
    let id = |number: usize| records[number]["activationId"].clone();
    assert_eq!(ids(String::new()).await, [4, 3, 2, 1, 0].map(id));
    assert_eq!(ids("?limit=2&skip=1".into()).await, [3, 2].map(id));
    assert_eq!(ids("?name=g".into()).await, [3, 1].map(id));
    assert_eq!(ids("?name=nobody".into()).await, Vec::<Value>::new());
    let start = records[2]["start"].as_u64().unwrap();
    assert_eq!(ids(format!("?since={start}")).await, [4, 3, 2].map(id));
    assert_eq!(ids(format!("?upto={start}")).await, [2, 1, 0].map(id));
    assert_eq!(ids(format!("?since={start}&upto={start}")).await, [2].map(id));
    assert_eq!(api.get("activations?count=true").await.json(), json!({"activations": 5}));
    assert_eq!(api.get("activations?count=true&skip=4&name=f").await.json(), json!({"activations": 0}));

    let summary = &api.get("activations?name=g&limit=1").await.json()[0];
    let keys: Vec<_> = summary.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "activationId",
        "annotations",
        "duration",
        "end",
        "name",
        "namespace",
        "publish",
        "start",
        "statusCode",
        "version",
    ];
    assert_eq!((keys, &summary["statusCode"]), (expected.to_vec(), &json!(2)));
    let docs = api.get("activations?docs=true&name=g&limit=1").await.json();
    assert_eq!(docs, json!([records[3]]));
}

#[tokio::test]
async fn wrong_filters_are_refused() {
    let api = Api::start().await;
    for (query, text) in [
        (
            "since=yesterday",
            "The query parameter 'since' was malformed:\nParameter is not a valid value for epoch seconds: yesterday",
        ),
        (
            "upto=-1",
            "The query parameter 'upto' was malformed:\nParameter is not a valid value for epoch seconds: -1",
        ),
        (
            "name=a/b/c",
            "The query parameter 'name' was malformed:\nParameter may be a 'simple' name or 'package-name/simple' name: a/b/c",
        ),
        ("count=true&docs=true", "The parameter 'docs' is not permitted with 'count'."),
    ] {
        assert_eq!(
            api.get(&format!("activations?{query}")).await.refusal(),
            (400, text.to_owned()),
            "{query}"
        );
    }
}

#[tokio::test]
async fn logs_end_with_what_the_developer_needs_to_know() {
    let api = Api::start().await;
    api.action("cut", r#"answer {"logs":true}"#).await;
    api.action("exits", "exit now").await;
    for (name, end) in [
        (
            "cut",
            " stderr: Logs were truncated because the total bytes size exceeds the limit of 10485760 bytes.",
        ),
        ("exits", " stderr: The action did not initialize or run as expected. Log data might be missing."),
    ] {
        let record = api.record(&api.blocking(name, json!({})).await.activation()).await;
        let last = record["logs"].as_array().unwrap().last().unwrap().as_str().unwrap();
        assert_eq!(&last[30..], end, "{name}");
    }
}
