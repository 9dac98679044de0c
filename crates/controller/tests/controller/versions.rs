//! Versions, aliases and rollbacks: which version a call gets, what is kept, and what goes.

use std::{collections::BTreeMap, fs::File, path::Path, time::SystemTime};

use flint_controller::{
    Answer, ControllerError, Deployed, ErrorKind, Invocation, Mode, PutFunction, PutPackage,
};
use flint_model::{
    Activation, AliasName, AliasTarget, DeadLetterReason, FunctionPath, NamespaceLimits, Version,
};
use flint_store::{LetterQuery, Page};
use serde_json::{Value, json};

use crate::support::{
    Server,
    composing::{
        BLOCKING, accept, call, deploy, deploy_with, invocation, invoke, record, result_of, sequence,
    },
    config, eventually,
};

const ALL: Page = Page { skip: 0, limit: usize::MAX };

fn at(name: &str) -> FunctionPath {
    format!("guest/{name}").parse().unwrap()
}

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

async fn roll_back(server: &Server, name: &str, to: Option<&str>) -> Result<Deployed, ControllerError> {
    let caller = server.guest().await;
    server.controller.roll_back(&caller, &at(name), to.map(version), &|_| {}).await
}

async fn alias(
    server: &Server,
    name: &str,
    alias: &str,
    targets: &[(&str, u32)],
) -> Result<(), ControllerError> {
    let targets =
        targets.iter().map(|(text, weight)| AliasTarget { version: version(text), weight: *weight });
    let (caller, alias) = (server.guest().await, AliasName::parse(alias).unwrap());
    server.controller.set_alias(&caller, &at(name), alias, targets.collect()).await.map(drop)
}

/// Versions 0.0.1, 0.0.2, … of a function, each of which answers with its number.
async fn history(server: &Server, name: &str, count: u32) {
    for number in 1..=count {
        deploy(server, name, &format!(r#"answer {{"n":{number}}}"#)).await;
    }
}

/// What a call answers, and the version that its record says.
async fn called(server: &Server, name: &str) -> (Value, String) {
    let record = invoke(server, name, &json!({})).await;
    (result_of(&record)["n"].clone(), record.version.to_string())
}

async fn numbers(server: &Server, name: &str) -> Vec<String> {
    let history = server.controller.history(&server.guest().await, &at(name)).await.unwrap();
    history.versions.iter().map(|function| function.version.to_string()).collect()
}

/// How often each version ran in so many calls.
async fn shares(server: &Server, name: &str, calls: u32) -> BTreeMap<String, u32> {
    let mut shares = BTreeMap::new();
    for _ in 0..calls {
        let (answer, version) = called(server, name).await;
        assert_eq!(format!("0.0.{answer}"), version, "the record says what ran");
        *shares.entry(version).or_default() += 1;
    }
    shares
}

async fn kind_of(server: &Server, name: &str) -> ErrorKind {
    call(server, name, &json!({}), BLOCKING).await.unwrap_err().kind()
}

#[tokio::test]
async fn versions_run_side_by_side_each_with_instances_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    history(&server, "f", 3).await;
    let starts = || server.executor.seen().starts["guest/f"];
    for _ in 0..3 {
        for (name, number) in [("f", 3), ("f@0.0.1", 1), ("f@0.0.2", 2), ("f@0.0.3", 3)] {
            let expected = (json!(number), format!("0.0.{number}"));
            assert_eq!(called(&server, name).await, expected, "{name}");
        }
    }
    assert_eq!(starts(), 3, "one instance a version");
    let id = accept(&server, "f@0.0.2", &json!({})).await;
    let asynchronous = record(&server, id).await;
    let shown = (asynchronous.version.to_string(), asynchronous.path.to_string());
    assert_eq!(shown, ("0.0.2".to_owned(), "guest/f".to_owned()));

    // Another deploy leaves those alone that an alias names.
    alias(&server, "f", "safe", &[("0.0.1", 1)]).await.unwrap();
    called(&server, "f@safe").await;
    let before = starts();
    history(&server, "f", 1).await;
    assert_eq!(called(&server, "f@safe").await.1, "0.0.1");
    assert_eq!(starts(), before, "it was warm all the time");
    for missing in ["f@0.0.9", "f@none", "g@0.0.1", "f@", "f@1"] {
        assert_eq!(kind_of(&server, missing).await, ErrorKind::NotFound, "{missing}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_rollback_is_a_new_version_and_what_comes_next_builds_on_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy_with(&server, "f", r#"answer {"n":1}"#, &[("team", json!("a"))]).await;
    assert_eq!(roll_back(&server, "f", None).await.unwrap_err().kind(), ErrorKind::Conflict);
    deploy_with(&server, "f", r#"answer {"n":2}"#, &[("team", json!("b"))]).await;

    let back = roll_back(&server, "f", None).await.unwrap();
    let shown =
        (back.function.version.to_string(), back.function.restored.map(|version| version.to_string()));
    assert_eq!(shown, ("0.0.3".to_owned(), Some("0.0.1".to_owned())));
    assert_eq!(called(&server, "f").await, (json!(1), "0.0.3".to_owned()));
    assert_eq!(numbers(&server, "f").await, ["0.0.3", "0.0.2", "0.0.1"]);
    let caller = server.guest().await;
    let now = server.controller.function(&caller, &at("f")).await.unwrap();
    assert_eq!(now.annotations.get("team"), Some(&json!("a")), "its configuration too");

    // A change of the configuration alone is one of what was restored, and is no rollback itself.
    let mut put = PutFunction { overwrite: true, ..PutFunction::default() };
    put.annotations.set("more", true);
    let changed = server.controller.put_function(&caller, at("f"), put, &|_| {}).await.unwrap().function;
    assert_eq!((changed.version, changed.restored), (version("0.0.4"), None));
    assert_eq!(called(&server, "f").await, (json!(1), "0.0.4".to_owned()));

    assert_eq!(roll_back(&server, "f", Some("0.0.2")).await.unwrap().function.version, version("0.0.5"));
    assert_eq!(called(&server, "f").await, (json!(2), "0.0.5".to_owned()));
    for (to, kind) in [("0.0.9", ErrorKind::NotFound), ("0.0.5", ErrorKind::Conflict)] {
        assert_eq!(roll_back(&server, "f", Some(to)).await.unwrap_err().kind(), kind, "{to}");
    }
    // What the namespace may not deploy, it may not go back to.
    let guest = caller.namespace.name.clone();
    let limits = |allowed_kinds| NamespaceLimits { allowed_kinds, ..NamespaceLimits::default() };
    server.controller.set_limits(&guest, limits(Some(vec!["python:3".into()]))).await.unwrap();
    let refused = roll_back(&server, "f", Some("0.0.2")).await.unwrap_err();
    assert!(matches!(refused, ControllerError::KindForbidden(_)), "{refused}");
    assert_eq!(numbers(&server, "f").await[0], "0.0.5");
    server.controller.set_limits(&guest, limits(None)).await.unwrap();
    sequence(&server, "s", &["guest/f"]).await.unwrap();
    assert_eq!(roll_back(&server, "s", None).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(roll_back(&server, "none", None).await.unwrap_err().kind(), ErrorKind::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn a_call_of_an_alias_gets_one_of_its_versions() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    history(&server, "f", 3).await;
    alias(&server, "f", "canary", &[("0.0.1", 50), ("0.0.3", 50)]).await.unwrap();
    let shares = shares(&server, "f@canary", 100).await;
    // 100 throws of a coin that all fall alike are not seen in this world.
    assert_eq!(shares.keys().collect::<Vec<_>>(), ["0.0.1", "0.0.3"], "{shares:?}");
    assert_eq!(called(&server, "f").await.1, "0.0.3", "calls by the bare name are not touched");
    alias(&server, "f", "canary", &[("0.0.2", 1)]).await.unwrap();
    assert_eq!(called(&server, "f@canary").await.1, "0.0.2");

    for targets in [&[("0.0.9", 1)][..], &[("0.0.1", 1), ("0.0.9", 1)]] {
        assert_eq!(alias(&server, "f", "a", targets).await.unwrap_err().kind(), ErrorKind::NotFound);
    }
    for targets in [&[][..], &[("0.0.1", 0)], &[("0.0.1", 1), ("0.0.1", 2)]] {
        assert_eq!(alias(&server, "f", "a", targets).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    let (caller, name) = (server.guest().await, AliasName::parse("canary").unwrap());
    server.controller.delete_alias(&caller, &at("f"), &name).await.unwrap();
    assert_eq!(kind_of(&server, "f@canary").await, ErrorKind::NotFound);
    let again = server.controller.delete_alias(&caller, &at("f"), &name).await;
    assert_eq!(again.unwrap_err().kind(), ErrorKind::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn live_says_what_calls_by_the_bare_name_get_whoever_makes_them() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    history(&server, "f", 2).await;
    sequence(&server, "s", &["guest/f"]).await.unwrap();
    alias(&server, "f", "live", &[("0.0.1", 1)]).await.unwrap();
    assert_eq!(called(&server, "f").await.1, "0.0.1");
    assert_eq!(result_of(&invoke(&server, "s", &json!({})).await), json!({"n": 1}));
    let id = accept(&server, "f", &json!({})).await;
    assert_eq!(record(&server, id).await.version, version("0.0.1"));

    // A deploy is not a release then; what is read and changed by the name is the newest.
    history(&server, "f", 1).await;
    assert_eq!(called(&server, "f").await.1, "0.0.1");
    let newest = server.controller.function(&server.guest().await, &at("f")).await.unwrap();
    assert_eq!(newest.version, version("0.0.3"));

    // A rollback makes both the same; which version was meant has to be said.
    assert_eq!(roll_back(&server, "f", None).await.unwrap_err().kind(), ErrorKind::Invalid);
    roll_back(&server, "f", Some("0.0.2")).await.unwrap();
    assert_eq!(called(&server, "f").await, (json!(2), "0.0.4".to_owned()));
    alias(&server, "f", "live", &[("0.0.1", 1)]).await.unwrap();
    roll_back(&server, "f", Some("0.0.4")).await.unwrap();
    assert_eq!(called(&server, "f").await.1, "0.0.5", "also to the newest, which calls do not get");

    let name = AliasName::live();
    server.controller.delete_alias(&server.guest().await, &at("f"), &name).await.unwrap();
    history(&server, "f", 1).await;
    assert_eq!(called(&server, "f").await.1, "0.0.6");
    server.stop().await;
}

#[tokio::test]
async fn one_composition_gets_one_version_of_a_conductor() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    for _ in 0..2 {
        deploy_with(&server, "c", "echo", &[("conductor", json!(true))]).await;
    }
    deploy(&server, "f", r#"answer {"n":1}"#).await;
    alias(&server, "c", "live", &[("0.0.1", 1), ("0.0.2", 1)]).await.unwrap();
    let mut seen = BTreeMap::<Version, u32>::new();
    for _ in 0..24 {
        let over = invoke(&server, "c", &json!({"action": "f", "params": {}})).await;
        let mut steps = Vec::new();
        for id in &over.components {
            steps.push(record(&server, *id).await);
        }
        let conducted: Vec<&Activation> = steps.iter().filter(|step| step.name.as_str() == "c").collect();
        assert_eq!(conducted.len(), 2);
        assert!(conducted.iter().all(|step| step.version == over.version), "{conducted:?}");
        *seen.entry(over.version).or_default() += 1;
    }
    assert_eq!(seen.len(), 2, "{seen:?}");
    server.stop().await;
}

#[tokio::test]
async fn what_is_there_by_the_whole_name_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    history(&server, "f", 2).await;
    alias(&server, "f", "live", &[("0.0.2", 1)]).await.unwrap();
    assert_eq!(called(&server, "f@0.0.1").await.0, json!(1));
    deploy(&server, "f@0.0.1", r#"answer {"n":"its own"}"#).await;
    assert_eq!(called(&server, "f@0.0.1").await, (json!("its own"), "0.0.1".to_owned()));
    assert_eq!(called(&server, "f@0.0.1@0.0.1").await.0, json!("its own"));
    assert_eq!(called(&server, "f").await.0, json!(2));
    // To write, read, or delete what is not there by that name is not to touch what is there by the other.
    let caller = server.guest().await;
    server.controller.delete_function(&caller, &at("f@0.0.1")).await.unwrap();
    assert_eq!(called(&server, "f@0.0.1").await.0, json!(1));
    let missing = server.controller.delete_function(&caller, &at("f@0.0.1")).await;
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(
        server.controller.action(&caller, &at("f@0.0.1")).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    server.stop().await;
}

#[tokio::test]
async fn a_deleted_function_takes_its_past_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let caller = server.guest().await;
    history(&server, "f", 3).await;
    alias(&server, "f", "live", &[("0.0.1", 1)]).await.unwrap();
    called(&server, "f").await;
    called(&server, "f@0.0.2").await;
    server.controller.delete_function(&caller, &at("f")).await.unwrap();
    for gone in ["f", "f@0.0.1", "f@0.0.2", "f@live"] {
        assert_eq!(kind_of(&server, gone).await, ErrorKind::NotFound, "{gone}");
    }
    deploy(&server, "f", r#"answer {"n":"new"}"#).await;
    assert_eq!(called(&server, "f").await, (json!("new"), "0.0.1".to_owned()));
    assert_eq!(called(&server, "f@0.0.1").await.0, json!("new"));
    assert_eq!(kind_of(&server, "f@0.0.2").await, ErrorKind::NotFound);
    assert_eq!(numbers(&server, "f").await, ["0.0.1"]);

    // A sequence that takes its place has none either.
    history(&server, "f", 1).await;
    deploy(&server, "g", r#"answer {"n":"g"}"#).await;
    sequence(&server, "f", &["guest/g"]).await.unwrap();
    assert_eq!(kind_of(&server, "f@0.0.1").await, ErrorKind::NotFound);
    deploy(&server, "f", r#"answer {"n":"again"}"#).await;
    assert_eq!(numbers(&server, "f").await.len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn an_action_of_an_aliass_name_is_met_through_a_binding_too() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let caller = server.guest().await;
    for (name, binding) in [("guest/p", None), ("guest/b", Some("guest/p".parse().unwrap()))] {
        let put = PutPackage { binding, ..PutPackage::default() };
        server.controller.put_package(&caller, name.parse().unwrap(), put).await.unwrap();
    }
    history(&server, "p/f", 2).await;
    alias(&server, "p/f", "old", &[("0.0.1", 1)]).await.unwrap();
    let both = async || (called(&server, "p/f@old").await.0, called(&server, "b/f@old").await.0);
    assert_eq!(both().await, (json!(1), json!(1)));
    deploy(&server, "p/f@old", r#"answer {"n":"its own"}"#).await;
    assert_eq!(both().await, (json!("its own"), json!("its own")));
    server.controller.delete_function(&caller, &at("p/f@old")).await.unwrap();
    assert_eq!(both().await, (json!(1), json!(1)));
    server.stop().await;
}

#[tokio::test]
async fn others_get_what_is_offered_and_no_old_version() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let caller = server.guest().await;
    let put = PutPackage { publish: Some(true), ..PutPackage::default() };
    server.controller.put_package(&caller, "guest/p".parse().unwrap(), put).await.unwrap();
    history(&server, "p/f", 2).await;
    alias(&server, "p/f", "old", &[("0.0.1", 1)]).await.unwrap();
    let created = server.controller.create_namespace("other".parse().unwrap(), Default::default()).await;
    let other = server.controller.authenticate(&created.unwrap().1.expose()).await.unwrap();
    let call = async |name: &str| match server
        .controller
        .invoke(&other, invocation(name, &json!({}), BLOCKING))
        .await
    {
        Ok(Answer::Finished(record)) => Ok(record.version.to_string()),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.kind()),
    };
    assert_eq!(call("p/f").await, Ok("0.0.2".to_owned()));
    assert_eq!(
        call("p/f@old").await,
        Ok("0.0.1".to_owned()),
        "an alias is for whoever may call the function"
    );
    // Also when its owner has called it just before, and whether it is there or not.
    called(&server, "p/f@0.0.1").await;
    for version in ["p/f@0.0.1", "p/f@0.0.2", "p/f@0.0.9"] {
        assert_eq!(call(version).await, Err(ErrorKind::Forbidden), "{version}");
    }
    // Through a binding it is the same.
    let binding = Some("guest/p".parse().unwrap());
    let put = PutPackage { binding, ..PutPackage::default() };
    server.controller.put_package(&other, "other/b".parse().unwrap(), put).await.unwrap();
    let bound = async |name: &str| {
        let path = format!("other/b/{name}").parse().unwrap();
        let invocation = Invocation { path, ..invocation(name, &json!({}), BLOCKING) };
        match server.controller.invoke(&other, invocation).await {
            Ok(Answer::Finished(record)) => Ok(record.version.to_string()),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.kind()),
        }
    };
    assert_eq!(bound("f@old").await, Ok("0.0.1".to_owned()));
    assert_eq!(bound("f@0.0.1").await, Err(ErrorKind::Forbidden));
    for refused in [
        server.controller.history(&other, &at("p/f")).await.map(drop),
        server.controller.roll_back(&other, &at("p/f"), None, &|_| {}).await.map(drop),
        server.controller.delete_alias(&other, &at("p/f"), &"old".parse().unwrap()).await,
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Forbidden);
    }
    server.stop().await;
}

#[tokio::test]
async fn an_accepted_call_gets_what_its_name_means_when_it_begins() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config();
    (config.asynchronous.running, config.versions.keep) = (1, 1);
    let server = Server::start(dir.path(), config).await;
    history(&server, "f", 2).await;
    deploy(&server, "busy", "wait").await;
    accept(&server, "busy", &json!({})).await;
    let (named, by_alias, by_number) = {
        alias(&server, "f", "a", &[("0.0.2", 1)]).await.unwrap();
        let named = accept(&server, "f", &json!({})).await;
        let by_alias = accept(&server, "f@a", &json!({})).await;
        (named, by_alias, accept(&server, "f@0.0.1", &json!({})).await)
    };
    // 0.0.1 is pushed out, and the alias names another one.
    deploy(&server, "f", r#"answer {"n":3}"#).await;
    deploy(&server, "f", r#"answer {"n":4}"#).await;
    alias(&server, "f", "a", &[("0.0.3", 1)]).await.unwrap();
    assert_eq!(numbers(&server, "f").await, ["0.0.4", "0.0.3", "0.0.2"]);
    eventually("the call that keeps the others waiting", || async {
        server.executor.go();
        server
            .controller
            .activation(&server.guest().await, &server.guest().await.namespace.name, named)
            .await
            .ok()
    })
    .await;
    assert_eq!(record(&server, named).await.version, version("0.0.4"));
    assert_eq!(record(&server, by_alias).await.version, version("0.0.3"));
    let caller = server.guest().await;
    let namespace = &caller.namespace.name;
    let letter = eventually("its dead letter", || async {
        let query = LetterQuery::default();
        server.controller.dead_letters(&caller, namespace, &query, ALL).await.unwrap().pop()
    })
    .await;
    assert_eq!((letter.call.activation, letter.reason), (by_number, DeadLetterReason::FunctionGone));
    server.stop().await;
}

/// Files of code in a data directory; all of them are made to look old.
fn code_files(data_dir: &Path) -> usize {
    let mut count = 0;
    for fan in std::fs::read_dir(data_dir.join("blobs")).unwrap() {
        for file in std::fs::read_dir(fan.unwrap().path()).unwrap() {
            // One that is removed meanwhile does not count.
            let Ok(file) = File::options().write(true).open(file.unwrap().path()) else { continue };
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
            count += 1;
        }
    }
    count
}

#[tokio::test]
async fn code_stays_as_long_as_a_version_needs_it_and_everything_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let config = || {
        let mut config = config();
        config.versions.keep = 2;
        config
    };
    let server = Server::start(dir.path(), config()).await;
    history(&server, "f", 2).await;
    alias(&server, "f", "first", &[("0.0.1", 1)]).await.unwrap();
    for number in 3..=6 {
        deploy(&server, "f", &format!(r#"answer {{"n":{number}}}"#)).await;
    }
    assert_eq!(numbers(&server, "f").await, ["0.0.6", "0.0.5", "0.0.4", "0.0.1"]);
    server.stop().await;
    assert_eq!(code_files(dir.path()), 6);

    let server = Server::start(dir.path(), config()).await;
    let left = || async { (code_files(dir.path()) == 4).then_some(()) };
    eventually("the end of what no version needs", left).await;
    // Of a deploy that is not written yet, however long ago its code was stored.
    let slow = deploy(&server, "slow", r#"slowly answer {"n":7}"#);
    let collect = async {
        eventually("its preparation", || async {
            server.executor.seen().prepared.contains(&("guest/slow".to_owned(), 1)).then_some(())
        })
        .await;
        assert_eq!(code_files(dir.path()), 5);
        server.controller.collect().await.unwrap();
        server.executor.go();
    };
    tokio::join!(slow, collect);
    assert_eq!(
        code_files(dir.path()),
        5,
        "of versions that are kept, of what is being deployed, and of no other"
    );
    assert_eq!(called(&server, "slow").await.0, json!(7));
    for (name, number) in [("f", 6), ("f@0.0.5", 5), ("f@0.0.4", 4), ("f@first", 1)] {
        assert_eq!(called(&server, name).await.0, json!(number), "{name}");
    }
    assert_eq!(roll_back(&server, "f", Some("0.0.1")).await.unwrap().function.version, version("0.0.7"));
    server.stop().await;
}

#[tokio::test]
async fn a_number_stays_what_it_is_as_long_as_an_alias_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let caller = server.guest().await;
    history(&server, "f", 3).await;
    let put = async |number: Option<&str>| {
        let version = number.map(version);
        let mut put = PutFunction { overwrite: true, version, ..PutFunction::default() };
        put.annotations.set("changed", number.unwrap_or("next"));
        Ok::<_, ControllerError>(
            server
                .controller
                .put_function(&caller, at("f"), put, &|_| {})
                .await?
                .function
                .version
                .to_string(),
        )
    };
    alias(&server, "f", "safe", &[("0.0.2", 1)]).await.unwrap();
    let refused = put(Some("0.0.2")).await.unwrap_err();
    assert!(refused.kind() == ErrorKind::Conflict && refused.to_string().contains("'safe'"), "{refused}");
    assert_eq!(put(Some("0.0.1")).await.unwrap(), "0.0.1");
    assert_eq!(put(Some("0.0.1")).await.unwrap(), "0.0.1", "the number that it has");
    // Counting goes on where no version is.
    assert_eq!(put(None).await.unwrap(), "0.0.4");
    assert_eq!(numbers(&server, "f").await, ["0.0.4", "0.0.1", "0.0.3", "0.0.2"]);
    server.stop().await;
}

#[tokio::test]
async fn aliases_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config();
    config.versions.max_aliases = 2;
    let server = Server::start(dir.path(), config).await;
    history(&server, "f", 1).await;
    for name in ["a", "b", "a"] {
        alias(&server, "f", name, &[("0.0.1", 1)]).await.unwrap();
    }
    let refused = alias(&server, "f", "c", &[("0.0.1", 1)]).await.unwrap_err();
    assert!(refused.kind() == ErrorKind::Conflict && refused.to_string().contains("versions.max_aliases"));
    let missing = call(&server, "f@c", &json!({}), Mode::NonBlocking).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn no_number_is_given_twice_after_the_last() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    deploy(&server, "f", r#"answer {"n":1}"#).await;
    let caller = server.guest().await;
    let last =
        PutFunction { overwrite: true, version: Some(version("0.0.4294967295")), ..PutFunction::default() };
    server.controller.put_function(&caller, at("f"), last, &|_| {}).await.unwrap();
    let further = || PutFunction { overwrite: true, ..PutFunction::default() };
    let refused = server.controller.put_function(&caller, at("f"), further(), &|_| {}).await.unwrap_err();
    assert!(
        refused.kind() == ErrorKind::Conflict && refused.to_string().contains("0.0.4294967295"),
        "{refused}"
    );
    assert_eq!(numbers(&server, "f").await, ["0.0.4294967295", "0.0.1"], "nothing is lost");
    let chosen = PutFunction { version: Some(version("0.1.0")), ..further() };
    server.controller.put_function(&caller, at("f"), chosen, &|_| {}).await.unwrap();
    assert_eq!(numbers(&server, "f").await[0], "0.1.0");
    server.stop().await;
}
