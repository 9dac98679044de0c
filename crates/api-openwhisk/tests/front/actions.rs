//! Contract §3: actions.

use std::{
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use flint_controller::GUEST_KEY;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::support::{self, Api, basic, request};

async fn put(api: &Api, name: &str, body: Value) -> support::Reply {
    api.call("PUT", &format!("actions/{name}?overwrite=true"), Some(body)).await
}

fn annotation<'a>(entity: &'a Value, key: &str) -> Option<&'a Value> {
    entity["annotations"].as_array()?.iter().find(|pair| pair["key"] == key).map(|pair| &pair["value"])
}

#[tokio::test]
async fn an_action_is_created_with_the_defaults_of_the_api() {
    let api = Api::start().await;
    let action = api.action("f", "echo it").await;
    let updated = action["updated"].as_u64().unwrap();
    let expected = json!({
        "namespace": "guest", "name": "f", "version": "0.0.1", "publish": false, "parameters": [],
        "annotations": [{"key": "provide-api-key", "value": false}, {"key": "exec", "value": "nodejs:20"}],
        "limits": {"timeout": 60_000, "memory": 256, "logs": 10, "concurrency": 1},
        "exec": {"kind": "nodejs:20", "code": "echo it", "binary": false},
        "updated": updated
    });
    assert_eq!(action, expected);
    assert_eq!(api.get("actions/f").await.json(), expected);
    assert_eq!(api.get("/api/v1/namespaces/guest/actions/f?code=true").await.json(), expected);
    let without_code = api.get("actions/f?code=false").await.json();
    assert_eq!(without_code["exec"], json!({"kind": "nodejs:20", "binary": false}));
    let summary = &api.get("actions").await.json()[0];
    assert_eq!(summary["exec"], json!({"binary": false}));
    assert!(summary.get("parameters").is_none() && annotation(summary, "exec") == Some(&json!("nodejs:20")));
}

#[tokio::test]
async fn clients_that_do_not_read_take_no_more_memory_than_there_are_rooms_for_code() {
    let api = Api::start().await;
    let code = format!("echo {}", "x".repeat(2 << 20));
    for name in ["large", "gone"] {
        assert_eq!(api.action(name, &code).await["exec"]["code"], code);
    }
    api.action("small", "echo it").await;
    let key = basic(GUEST_KEY);
    let ask = |method, path, body| api.unread(request(method, path, body, &[("authorization", &key)]));
    let unread = [ask("GET", "actions/large", None).await, ask("GET", "actions/large", None).await];
    let update = || Some(json!({"annotations": [{"key": "a", "value": 1}]}));
    let refused = |reply: &support::Reply| {
        assert_eq!((reply.status, reply.header("retry-after")), (503, Some("5")), "{reply:?}");
        let cause = reply.json()["cause"].as_str().unwrap().to_owned();
        assert!(cause.contains("answers with more than 1 MB of code"), "{cause}");
    };
    let (got, updated, deleted) = tokio::join!(
        api.get("actions/large"),
        api.call("PUT", "actions/large?overwrite=true", update()),
        api.call("DELETE", "actions/gone", None),
    );
    [got, updated, deleted].iter().for_each(refused);
    // What was refused was not done, and what shows no code, or little, is not refused.
    assert_eq!(api.get("actions/large?code=false").await.json()["version"], "0.0.1");
    assert_eq!(api.get("actions/gone?code=false").await.status, 200);
    assert_eq!(api.get("actions/small").await.status, 200);
    for response in unread {
        let whole = response.into_body().collect().await.unwrap().to_bytes();
        let action: Value = serde_json::from_slice(&whole).unwrap();
        assert_eq!(action["exec"]["code"], code);
    }
    assert_eq!(api.call("PUT", "actions/large?overwrite=true", update()).await.json()["exec"]["code"], code);
    assert_eq!(api.call("DELETE", "actions/gone", None).await.json()["exec"]["code"], code);
}

#[tokio::test]
async fn lists_read_no_parameters_are_bounded_and_have_room_where_they_are_long() {
    let api = Api::start().await;
    let long = "x".repeat(900_000);
    let parameters = json!([{"key": "p", "value": long}]);
    for number in 0..10 {
        let body = json!({"exec": {"kind": "nodejs:20", "code": "echo it"}, "parameters": parameters, "annotations": []});
        assert_eq!(put(&api, &format!("f{number}"), body).await.status, 200);
    }
    let listed = api.get("actions").await;
    assert_eq!((listed.status, listed.json().as_array().unwrap().len()), (200, 10));
    assert!(listed.text.len() < 10_000, "{}", listed.text.len());
    assert_eq!(api.get("actions/f1?code=false").await.json()["parameters"], parameters);

    // Annotations are listed. A page that has too many of them is refused, a smaller one is not.
    for number in 0..10 {
        let body = json!({"annotations": [{"key": "a", "value": long}]});
        assert_eq!(put(&api, &format!("f{number}"), body).await.status, 200);
    }
    let text = "The requested list is larger than allowed: > 8 MB. Ask for fewer of its entities at once.";
    assert_eq!(api.get("actions").await.refusal(), (400, text.to_owned()));
    assert_eq!(api.get("actions?count=true").await.json(), json!({"actions": 10}));
    let key = basic(GUEST_KEY);
    let ask = || api.unread(request("GET", "actions?limit=3", None, &[("authorization", &key)]));
    let unread = [ask().await, ask().await];
    let refused = api.get("actions?limit=3").await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("5")), "{refused:?}");
    assert_eq!(api.get("actions?limit=1").await.status, 200, "what is short needs no room");
    for response in unread {
        let whole = response.into_body().collect().await.unwrap().to_bytes();
        let listed: Value = serde_json::from_slice(&whole).unwrap();
        let has_all = |action: &Value| annotation(action, "a") == Some(&json!(long));
        assert!(listed.as_array().unwrap().len() == 3 && listed.as_array().unwrap().iter().all(has_all));
    }
    assert_eq!(api.get("actions?limit=3&skip=7").await.status, 200);
}

#[tokio::test]
async fn overwriting_needs_to_be_said_and_bumps_the_version() {
    let api = Api::start().await;
    api.action("f", "echo it").await;
    let body = json!({"exec": {"kind": "nodejs:20", "code": "echo it"}});
    for query in ["", "?overwrite=false", "?"] {
        let reply = api.call("PUT", &format!("actions/f{query}"), Some(body.clone())).await;
        assert_eq!(reply.refusal(), (409, "resource already exists".to_owned()), "{query}");
    }
    assert_eq!(put(&api, "f", body).await.json()["version"], "0.0.2");
    assert_eq!(put(&api, "f", json!({"version": "2.0.0"})).await.json()["version"], "2.0.0");
    assert_eq!(put(&api, "f", json!({"publish": true})).await.json()["version"], "2.0.1");
    assert_eq!(put(&api, "new", json!({})).await.refusal(), (400, "exec undefined".to_owned()));
}

#[tokio::test]
async fn an_overwrite_merges_as_the_api_says() {
    let api = Api::start().await;
    let first = json!({
        "exec": {"kind": "nodejs:20", "code": "echo it"},
        "parameters": [{"key": "a", "value": 1}, {"key": "b", "value": 2}],
        "annotations": [{"key": "x", "value": 1}, {"key": "y", "value": 2}, {"key": "exec", "value": "mine"}],
        "limits": {"timeout": 1000, "memory": 128}
    });
    put(&api, "f", first).await;
    let second = json!({
        "parameters": [{"key": "c", "value": {"d": null}, "init": true}],
        "annotations": [{"key": "z", "value": 3}, {"key": "y", "value": 4}],
        "delAnnotations": ["x"],
        "limits": {"memory": 512}
    });
    let merged = put(&api, "f", second).await.json();
    assert_eq!(merged["parameters"], json!([{"key": "c", "value": {"d": null}, "init": true}]));
    assert_eq!(merged["limits"], json!({"timeout": 1000, "memory": 512, "logs": 10, "concurrency": 1}));
    assert_eq!(merged["exec"]["code"], "echo it");
    for (key, value) in
        [("y", json!(4)), ("z", json!(3)), ("exec", json!("nodejs:20")), ("provide-api-key", json!(false))]
    {
        assert_eq!(annotation(&merged, key), Some(&value), "{key}");
    }
    assert_eq!(annotation(&merged, "x"), None);
    let third = put(&api, "f", json!({})).await.json();
    assert_eq!((&third["parameters"], &third["limits"]), (&merged["parameters"], &merged["limits"]));
}

#[tokio::test]
async fn code_comes_back_in_the_form_it_was_sent() {
    let api = Api::start().await;
    let zip = STANDARD.encode(b"PK\x03\x04 not really");
    for (kind, code, main, binary) in [
        ("nodejs:20", "function main() { return {} }\n".to_owned(), None, false),
        ("nodejs:20", zip.clone(), Some("lib.main"), true),
        ("java:default", zip.clone(), Some("com.example.Hello"), true),
        ("python:default", "abcd".to_owned(), None, true),
        ("python", "ünïcödé = '\u{1F600}'".to_owned(), None, false),
    ] {
        let mut exec = json!({"kind": kind, "code": code});
        if let Some(main) = main {
            exec["main"] = main.into();
        }
        assert_eq!(put(&api, "f", json!({"exec": exec})).await.status, 200);
        let shown = api.get("actions/f").await.json()["exec"].clone();
        assert_eq!((&shown["code"], &shown["binary"]), (&json!(code), &json!(binary)), "{kind}");
        assert_eq!(shown.get("main").and_then(Value::as_str), main);
    }
    let jar = json!({"exec": {"kind": "java", "jar": zip, "main": "Hello"}});
    assert_eq!(put(&api, "f", jar).await.json()["exec"]["code"], json!(zip));
}

#[tokio::test]
async fn a_program_comes_back_as_it_was_sent_and_so_does_its_image() {
    let api = Api::start().await;
    let script = "#!/bin/sh\necho '{\"a\": \"\u{e9}\"}'\n";
    let program = STANDARD.encode(b"\x7fELF not really");
    for (exec, binary) in [
        (json!({"kind": "blackbox", "image": "openwhisk/dockerskeleton", "code": script}), false),
        (
            json!({"kind": "blackbox", "image": "docker.io/openwhisk/dockerskeleton:1.14.0", "code": script}),
            false,
        ),
        (json!({"kind": "blackbox", "image": "openwhisk/actionloop-v2:nightly", "code": program}), true),
        (json!({"kind": "native", "code": script}), false),
        (json!({"kind": "native", "code": program}), true),
    ] {
        let put = put(&api, "f", json!({"exec": exec})).await;
        assert_eq!(put.status, 200, "{put:?}");
        let mut expected = exec.clone();
        expected["binary"] = json!(binary);
        assert_eq!(put.json()["exec"], expected);
        assert_eq!(api.get("actions/f").await.json()["exec"], expected);
        assert_eq!(api.get("actions").await.json()[0]["exec"], json!({"binary": binary}));
        let updated = api.call("PUT", "actions/f?overwrite=true", Some(json!({"publish": true}))).await;
        assert_eq!(updated.json()["exec"], expected, "an update of something else");
        expected.as_object_mut().unwrap().remove("code");
        assert_eq!(api.get("actions/f?code=false").await.json()["exec"], expected);
    }
}

#[tokio::test]
async fn kinds_are_resolved_and_stored_resolved() {
    let api = Api::start().await;
    for (asked, stored) in [
        ("nodejs:default", "nodejs:20"),
        ("nodejs", "nodejs:20"),
        (" NodeJS:20 ", "nodejs:20"),
        ("python:3", "python:3.11"),
        ("python:default", "python:3.11"),
    ] {
        let action = put(&api, "f", json!({"exec": {"kind": asked, "code": "echo it"}})).await.json();
        assert_eq!(action["exec"]["kind"], stored, "{asked}");
        assert_eq!(annotation(&action, "exec"), Some(&json!(stored)));
    }
    let refused = async |exec: Value| put(&api, "g", json!({ "exec": exec })).await.refusal();
    let text = "The request content was malformed:\nThe specified runtime 'cobol:60' is not supported by this platform. \
                Valid values are: 'blackbox', 'java:21', 'native', 'nodejs:18', 'nodejs:20', 'python:3.11', 'wasm'.";
    assert_eq!(refused(json!({"kind": "cobol:60", "code": "x"})).await, (400, text.to_owned()));
    let (status, text) = refused(json!({"kind": "nodejs:18", "code": "x"})).await;
    assert!(status == 400 && text.contains("no node 18 was found: apt-get install nodejs"), "{text}");
    let (status, text) = refused(json!({"kind": "java", "code": "x"})).await;
    assert!(status == 400 && text.contains("'main' must be a string defined in 'exec'"), "{text}");
    assert_eq!(refused(json!({"code": "x"})).await.0, 400);
    assert_eq!(refused(json!({"kind": "nodejs:20"})).await.0, 400);

    let key = api.namespace("small", json!({"allowedKinds": ["nodejs:20"]})).await;
    let python = json!({"exec": {"kind": "python", "code": "echo it"}});
    let text =
        "The supplied authentication is not authorized to access actions of kind 'python:3.11'.".to_owned();
    assert_eq!(api.call_as(&key, "PUT", "actions/f", Some(python)).await.refusal(), (403, text));
    let node = json!({"exec": {"kind": "nodejs", "code": "echo it"}});
    assert_eq!(api.call_as(&key, "PUT", "actions/f", Some(node)).await.status, 200);
}

#[tokio::test]
async fn limits_out_of_range_are_refused() {
    let api = Api::start().await;
    api.action("f", "echo it").await;
    for (limits, text) in [
        (json!({"memory": 1024}), "memory size 1024 MB exceeds allowed threshold of 512 MB"),
        (json!({"memory": 1}), "memory size 1 MB below allowed threshold of 128 MB"),
        (json!({"logs": 11}), "logs size 11 MB exceeds allowed threshold of 10 MB"),
        (
            json!({"timeout": 300_001}),
            "duration 300001 milliseconds exceeds allowed threshold of 300000 milliseconds",
        ),
        (json!({"timeout": 99}), "duration 99 milliseconds below allowed threshold of 100 milliseconds"),
        (json!({"concurrency": 2}), "concurrency 2 exceeds allowed threshold of 1"),
        (
            json!({"instances": 1001}),
            "Max action instance concurrency must not exceed your namespace concurrency of 1000.",
        ),
    ] {
        assert_eq!(
            put(&api, "f", json!({ "limits": limits })).await.refusal(),
            (400, text.to_owned()),
            "{limits}"
        );
    }
    assert_eq!(put(&api, "f", json!({"limits": {"memory": u64::MAX}})).await.status, 400);
    assert_eq!(
        put(&api, "f", json!({"limits": {"logs": 0, "instances": 3}})).await.json()["limits"]["instances"],
        3
    );
}

#[tokio::test]
async fn what_is_too_large_is_refused_with_its_size() {
    let api = Api::start().await;
    let big = |length: usize| "x".repeat(length);
    let (status, text) =
        put(&api, "f", json!({"exec": {"kind": "nodejs", "code": big((48 << 20) + 1)}})).await.refusal();
    assert_eq!((status, text.as_str()), (413, "exec larger than allowed: 50331649 > 50331648 bytes."));
    api.action("f", "echo it").await;
    let value = |length| json!([{"key": "k", "value": big(length)}]);
    let (status, text) = put(&api, "f", json!({"parameters": value(1 << 20)})).await.refusal();
    assert!(status == 413 && text.starts_with("parameters larger than allowed: "), "{text}");
    let (status, text) = put(&api, "f", json!({"annotations": value(1 << 20)})).await.refusal();
    assert!(status == 413 && text.starts_with("annotations larger than allowed: "), "{text}");
    // Room for the largest code as base64, and no more.
    let (status, text) =
        put(&api, "f", json!({"exec": {"kind": "nodejs", "code": big((60 << 20) + 1)}})).await.refusal();
    assert_eq!((status, text.as_str()), (413, "exec larger than allowed: 62914561 > 50331648 bytes."));
    let (status, text) =
        put(&api, "f", json!({"exec": {"kind": "nodejs", "code": big(70 << 20)}})).await.refusal();
    assert_eq!((status, text.starts_with("The request is larger ")), (413, true), "{text}");
}

#[tokio::test]
async fn deleting_gives_what_was_there() {
    let api = Api::start().await;
    let action = api.action("f", "echo it").await;
    assert_eq!(api.call("DELETE", "actions/f", None).await.json(), action);
    let missing = (404, "The requested resource does not exist.".to_owned());
    for method in ["GET", "DELETE", "POST"] {
        assert_eq!(api.call(method, "actions/f", None).await.refusal(), missing, "{method}");
    }
    assert_eq!(api.action("f", "echo it").await["version"], "0.0.1");
}

#[tokio::test]
async fn no_package_exists_yet() {
    let api = Api::start().await;
    let body = json!({"exec": {"kind": "nodejs:20", "code": "echo it"}});
    let text = "The requested resource 'guest/p' does not exist.".to_owned();
    assert_eq!(put(&api, "p/f", body).await.refusal(), (404, text));
    assert_eq!(api.get("actions/p/f").await.status, 404);
    assert_eq!(api.get("actions/p/").await.status, 404);
}

#[tokio::test]
async fn a_call_meets_the_function_that_was_written_last() {
    let api = Api::start().await;
    for number in 0..20 {
        let script = format!("answer {{\"n\":{number}}}");
        api.action("f", &script).await;
        let reply = api.call("POST", "actions/f?blocking=true&result=true", None).await;
        assert_eq!(reply.text, format!("{{\"n\":{number}}}"));
    }
}

#[tokio::test]
async fn a_fault_of_the_servers_own_tells_its_callers_nothing_about_it() {
    let api = Api::start().await;
    let code = "echo it, of which there is one file";
    api.action("f", code).await;
    // A disk that has lost it.
    let is_code = |path: &PathBuf| {
        // Others are not opened: with its database closed a process loses its locks on it.
        fs::metadata(path).is_ok_and(|file| file.len() == code.len() as u64)
            && fs::read(path).is_ok_and(|found| found == code.as_bytes())
    };
    let lost: Vec<_> = files(api.dir.path()).into_iter().filter(is_code).collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    fs::remove_file(&lost[0]).unwrap();
    let reply = api.get("actions/f").await;
    assert_eq!(reply.refusal(), (500, "There was an internal server error.".to_owned()));
    assert_eq!(reply.json().as_object().unwrap().len(), 2, "{reply:?}");
    assert_eq!(api.get("actions/f?code=false").await.status, 200);
    api.action("f", code).await;
    assert_eq!(api.get("actions/f").await.json()["exec"]["code"], code);
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn writes_at_the_same_time_are_told_apart() {
    let api = Api::start().await;
    api.action("f", "echo it").await;
    let put = async || put(&api, "f", json!({"publish": true})).await;
    let replies = tokio::join!(put(), put(), put(), put(), put(), put());
    let replies = [replies.0, replies.1, replies.2, replies.3, replies.4, replies.5];
    let good = replies.iter().filter(|reply| reply.status == 200).count();
    for refused in replies.iter().filter(|reply| reply.status != 200) {
        assert_eq!(refused.refusal(), (409, "Concurrent modification to resource detected.".to_owned()));
    }
    assert_eq!(api.get("actions/f").await.json()["version"], format!("0.0.{}", good + 1));
}

#[tokio::test]
async fn large_bodies_are_parsed_off_the_async_threads() {
    let api = Api::start().await;
    let code = format!("echo it {}", "x".repeat(70_000));
    let body = json!({"exec": {"kind": "nodejs", "code": code}});
    let made = api.server.aside(put(&api, "f", body)).await.json();
    assert_eq!(made["exec"]["code"], code);
    let many = vec![json!({"": 0}); 1 << 20];
    let annotations = json!({"annotations": [{"key": "a", "value": many}]});
    let (status, text) = api.server.aside(put(&api, "f", annotations)).await.refusal();
    assert!(status == 413 && text.starts_with("annotations larger than allowed: "), "{text}");
    let components = json!({"exec": {"kind": "sequence", "components": many}});
    let text = "The request is larger than the server is willing or able to process.";
    for (path, body) in [("actions/s", components), ("packages/p", json!({ "binding": many }))] {
        assert_eq!(api.call("PUT", path, Some(body)).await.refusal(), (413, text.to_owned()), "{path}");
    }
}
