//! Deploys: what is refused and named, what is prepared when, and which version a call meets.

use std::{sync::Mutex, time::Duration};

use flint_controller::{
    ControllerError, Deployed, ErrorKind, LimitsWish, PrepareWhen, PutCode, PutFunction, PutPackage, Unnamed,
};
use flint_model::{ByteSize, Contract, Digest, Isolation, Network, Reuse, Start, Status, StrategyRequest};
use serde_json::json;

use crate::support::{
    Server,
    composing::{invoke, result_of, sequence},
    config, eventually,
};

fn code(kind: &str, content: &str) -> Option<PutCode> {
    Some(PutCode { kind: kind.to_owned(), content: content.to_owned().into(), format: None, main: None })
}

async fn put(server: &Server, name: &str, put: PutFunction) -> Result<Deployed, ControllerError> {
    let caller = server.guest().await;
    let path = format!("guest/{name}").parse().unwrap();
    server.controller.put_function(&caller, path, put, &|_| {}).await
}

#[tokio::test]
async fn a_deploy_says_what_was_prepared_and_broken_code_is_refused_and_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let caller = server.guest().await;
    let told = Mutex::new(Vec::new());
    let good = PutFunction { code: code("nodejs", "echo it"), ..PutFunction::default() };
    let progress = |step: &str| told.lock().unwrap().push(step.to_owned());
    let deployed =
        server.controller.put_function(&caller, "guest/f".parse().unwrap(), good, &progress).await.unwrap();
    assert!(deployed.created && deployed.steps == ["prepared"] && !deployed.took.is_zero());
    assert_eq!(*told.lock().unwrap(), ["preparing"]);
    assert_eq!(server.executor.seen().anticipated, ["guest/f"]);

    let broken =
        PutFunction { overwrite: true, code: code("nodejs", "broken no entry"), ..PutFunction::default() };
    let error = put(&server, "f", broken.clone()).await.unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Invalid, "no entry"));
    let kept = server.controller.function(&caller, &"guest/f".parse().unwrap()).await.unwrap();
    assert_eq!(kept.version.to_string(), "0.0.1");
    assert_eq!(server.executor.seen().anticipated.len(), 1, "no calls of it will come");
    // Where the front's users expect it, it is written and fails when it is called.
    put(&server, "f", PutFunction { prepare: PrepareWhen::Background, ..broken }).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn what_is_deleted_leaves_its_place_among_the_metrics_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let mut few = config();
    few.metrics.max_functions = 1;
    let server = Server::start(dir.path(), few).await;
    let caller = server.guest().await;
    let package = PutPackage { overwrite: true, ..PutPackage::default() };
    server.controller.put_package(&caller, "guest/p".parse().unwrap(), package).await.unwrap();
    let echo = || PutFunction { code: code("nodejs", "echo"), ..PutFunction::default() };
    put(&server, "uncalled", echo()).await.unwrap();
    for name in ["one", "two", "p/three", "four"] {
        put(&server, name, echo()).await.unwrap();
        invoke(&server, name, &json!({})).await;
        let metrics = server.controller.render_metrics().await;
        let own =
            format!(r#"flint_activations_total{{namespace="guest",function="{name}",status="success"}} 1"#);
        assert!(metrics.contains(&own) && !metrics.contains(r#""other""#), "{metrics}");
        let path = format!("guest/{name}").parse().unwrap();
        match name {
            "two" => drop(sequence(&server, name, &["guest/uncalled", "guest/uncalled"]).await.unwrap()),
            "p/three" => {
                let package = "guest/p".parse().unwrap();
                drop(server.controller.delete_package(&caller, &package, true).await.unwrap());
            }
            _ => drop(server.controller.delete_function(&caller, &path).await.unwrap()),
        }
    }
    assert!(!server.controller.render_metrics().await.contains("function="));
    server.stop().await;
}

#[tokio::test]
async fn who_is_over_the_quota_is_told_and_others_deploy() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let huge = || PutFunction { code: code("nodejs", "huge archive"), ..PutFunction::default() };
    let error = put(&server, "f", huge()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("prepare.per_namespace") && error.retry_after().is_none(), "{error}");
    let guest = server.guest().await;
    assert!(server.controller.function(&guest, &"guest/f".parse().unwrap()).await.is_err());

    let (_, key) =
        server.controller.create_namespace("other".parse().unwrap(), Default::default()).await.unwrap();
    let other = server.controller.authenticate(&key.expose()).await.unwrap();
    let path = "other/f".parse().unwrap();
    assert!(server.controller.put_function(&other, path, huge(), &|_| {}).await.unwrap().created);

    // Where nobody waited for it, calls say so: it is the namespace's to mend, but its figures are not told to whoever calls.
    put(&server, "f", PutFunction { prepare: PrepareWhen::Background, ..huge() }).await.unwrap();
    let record = invoke(&server, "f", &serde_json::json!({})).await;
    assert_eq!(record.response.status, Status::DeveloperError);
    let said = result_of(&record).to_string();
    assert!(said.contains("prepare.per_namespace") && !said.contains("10 GB"), "{said}");
    server.stop().await;
}

#[tokio::test]
async fn code_that_there_is_no_room_for_is_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let is_stored = async |text: &str| {
        let digest = Digest::from_bytes(*blake3::hash(text.as_bytes()).as_bytes());
        server.blobs().get(digest).await.unwrap().is_some()
    };
    for prepare in [PrepareWhen::Now, PrepareWhen::Background] {
        let mut refused = PutFunction { prepare, code: code("nodejs", "echo 1"), ..PutFunction::default() };
        refused.annotations.set("no-room", true);
        let error = put(&server, "f", refused).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("min_free"), "{error}");
    }
    put(&server, "f", PutFunction { code: code("nodejs", "echo 2"), ..PutFunction::default() })
        .await
        .unwrap();
    assert_eq!((is_stored("echo 1").await, is_stored("echo 2").await), (false, true));
    server.stop().await;
}

#[tokio::test]
async fn a_function_is_ready_before_its_first_call_also_when_nobody_waited_for_that() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let behind = PutFunction {
        code: code("nodejs", "echo it"),
        prepare: PrepareWhen::Background,
        ..PutFunction::default()
    };
    let revision = put(&server, "f", behind).await.unwrap().function.revision;
    eventually("the preparation", || async {
        server.executor.seen().prepared.contains(&("guest/f".to_owned(), revision)).then_some(())
    })
    .await;
    eventually("what its calls will want", || async {
        (server.executor.seen().anticipated == ["guest/f"]).then_some(())
    })
    .await;
    server.stop().await;
}

#[tokio::test]
async fn of_what_is_deployed_again_and_again_only_the_latest_is_prepared_and_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let behind = |text: &str| PutFunction {
        overwrite: true,
        code: code("nodejs", text),
        prepare: PrepareWhen::Background,
        ..PutFunction::default()
    };
    let prepared = |name: &str| {
        let path = format!("guest/{name}");
        let seen = server.executor.seen().prepared.into_iter();
        seen.filter(|(of, _)| *of == path).map(|(_, revision)| revision).collect::<Vec<_>>()
    };
    // These take all the places there are.
    for name in ["s", "t"] {
        put(&server, name, behind("slowly echo it")).await.unwrap();
        eventually("it begins", || async { (!prepared(name).is_empty()).then_some(()) }).await;
    }
    for text in ["echo one", "echo two"] {
        put(&server, "f", behind(text)).await.unwrap();
    }
    let latest = put(&server, "f", behind("echo three")).await.unwrap().function.revision;
    put(&server, "g", behind("echo it")).await.unwrap();
    assert!(prepared("f").is_empty());
    server.executor.go();
    eventually("what waited longest is prepared", || async { (!prepared("g").is_empty()).then_some(()) })
        .await;
    assert_eq!(prepared("f"), [latest]);

    // What only tells more of it leaves it as it is, what changes how it starts does not.
    let caller = server.guest().await;
    let path = "guest/f".parse().unwrap();
    eventually("it is ready", || async {
        let function = server.controller.function(&caller, &path).await.unwrap();
        server.controller.prepared(&function).map(drop)
    })
    .await;
    let mut told = PutFunction { code: None, ..behind("") };
    told.annotations.set("description", "more");
    put(&server, "f", told).await.unwrap();
    let function = server.controller.function(&caller, &path).await.unwrap();
    assert!(function.revision > latest && server.controller.prepared(&function).is_some());
    assert_eq!(prepared("f"), [latest]);
    let memory = LimitsWish { memory: Some(ByteSize::mib(128)), ..LimitsWish::default() };
    let limited = PutFunction { code: None, limits: memory, ..behind("") };
    let revision = put(&server, "f", limited).await.unwrap().function.revision;
    eventually("it is prepared anew", || async { (prepared("f") == [latest, revision]).then_some(()) }).await;
    server.stop().await;
}

#[tokio::test]
async fn a_strategy_that_nothing_here_runs_is_refused_with_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    for (strategy, missing) in [
        (StrategyRequest { start: Some(Start::Fork), ..Default::default() }, "start fork"),
        (StrategyRequest { contract: Some(Contract::Lambda), ..Default::default() }, "the contract lambda"),
        (
            StrategyRequest {
                isolation: Some(Isolation::Microvm),
                start: Some(Start::Restore),
                ..Default::default()
            },
            "isolation microvm, start restore",
        ),
    ] {
        let wish = PutFunction { code: code("nodejs", "echo it"), strategy, ..PutFunction::default() };
        let error = put(&server, "f", wish).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(missing), "{error}");
    }
    let missing = PutFunction { code: code("nodejs:18", "echo it"), ..PutFunction::default() };
    let text =
        "the runtime nodejs:18 is not available on this host: no node 18 was found: apt-get install nodejs";
    assert_eq!(put(&server, "f", missing).await.unwrap_err().to_string(), text);
    let caller = server.guest().await;
    assert_eq!(server.controller.count_functions(&caller, &caller.namespace.name, None).await.unwrap(), 0);
    server.stop().await;
}

#[tokio::test]
async fn what_a_deploy_states_is_kept_and_what_it_does_not_is_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let stated = PutFunction {
        code: code("native", "echo it"),
        strategy: StrategyRequest {
            contract: Some(Contract::Http),
            reuse: Some(Reuse::Never),
            ..Default::default()
        },
        network: Some(Network::Egress),
        limits: LimitsWish {
            cpu_millis: Some(500),
            tmp: Some(ByteSize::mib(10)),
            processes: Some(9),
            ..LimitsWish::default()
        },
        ..PutFunction::default()
    };
    put(&server, "f", stated).await.unwrap();
    let again = PutFunction {
        overwrite: true,
        unnamed: Unnamed::Kept,
        code: code("native", "echo it"),
        ..PutFunction::default()
    };
    let function = put(&server, "f", again).await.unwrap().function;
    assert_eq!(
        (function.contract, function.strategy.reuse, function.network),
        (Contract::Http, Reuse::Never, Network::Egress)
    );
    assert_eq!((function.limits.cpu_millis, function.limits.processes), (500, 9));
    // Another language is another function in this respect.
    let other = PutFunction {
        overwrite: true,
        unnamed: Unnamed::Kept,
        code: code("nodejs", "echo it"),
        ..PutFunction::default()
    };
    let function = put(&server, "f", other).await.unwrap().function;
    assert_eq!((function.contract, function.strategy.reuse), (Contract::Handler, Reuse::Warm));
    for limits in [
        LimitsWish { cpu_millis: Some(0), ..Default::default() },
        LimitsWish { processes: Some(0), ..Default::default() },
        LimitsWish { tmp: Some(ByteSize::mib(9999)), ..Default::default() },
    ] {
        let wish = PutFunction { overwrite: true, limits, ..PutFunction::default() };
        assert_eq!(put(&server, "f", wish).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_deploy_whose_client_goes_away_is_never_half_seen() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let caller = server.guest().await;
    let path = "guest/f".parse().unwrap();
    put(&server, "f", PutFunction { code: code("nodejs", "echo 0"), ..PutFunction::default() })
        .await
        .unwrap();
    for number in 1..60_u64 {
        let wish = PutFunction {
            overwrite: true,
            code: code("nodejs", &format!("echo {number}")),
            prepare: PrepareWhen::Background,
            ..PutFunction::default()
        };
        // It is dropped at one of its waits, early or late.
        let deploy = put(&server, "f", wish);
        let _ = tokio::time::timeout(Duration::from_micros(number * 20), deploy).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        let known = server.controller.function(&caller, &path).await.unwrap();
        let stored = server.controller.functions(
            &caller,
            &caller.namespace.name,
            None,
            flint_store::Page { skip: 0, limit: 9 },
            flint_controller::SMALL_LIST,
        );
        let stored = stored.await.unwrap().remove(0);
        if known.revision < stored.revision {
            // It was committed between the two looks, by a write that goes on by itself: calls meet it in a moment.
            eventually("the committed function", || async {
                let known = server.controller.function(&caller, &path).await.unwrap();
                (known.revision >= stored.revision).then_some(())
            })
            .await;
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn unreferenced_code_is_removed_and_referenced_code_stays() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let first = put(&server, "f", PutFunction { code: code("nodejs", "echo 1"), ..PutFunction::default() })
        .await
        .unwrap();
    server.controller.collect().await.unwrap();
    assert_eq!(server.controller.code(&first.function).await.unwrap(), "echo 1");
    server.stop().await;
}

#[tokio::test]
async fn keys_and_namespaces_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let controller = &server.controller;
    assert!(!controller.has_own_keys().await.unwrap());
    let name: flint_model::NamespaceName = "team".parse().unwrap();
    let (_, first) = controller.create_namespace(name.clone(), Default::default()).await.unwrap();
    assert!(controller.has_own_keys().await.unwrap());
    let again = controller.create_namespace(name.clone(), Default::default()).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
    let other: flint_model::NamespaceName = "other".parse().unwrap();
    let refused = controller
        .create_namespace_for(other.clone(), Default::default(), Some("a/b".into()))
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(controller.namespace(&other).await.is_err(), "a refused one is not there");
    let asked = controller.create_namespace_for(other.clone(), Default::default(), Some("ci".into())).await;
    let caller = controller.authenticate(&asked.unwrap().1.expose()).await.unwrap();
    assert_eq!((caller.namespace.name.as_str(), &*caller.subject), ("other", "ci"));
    assert_eq!(controller.keys(&other).await.unwrap().len(), 1, "there is no other key");
    let own = controller.create_namespace("_".parse().unwrap(), Default::default()).await.unwrap_err();
    assert_eq!(own.kind(), ErrorKind::Invalid, "in a path it means the caller's own");
    let second = controller.create_key(&name, Some("ci".into())).await.unwrap();
    let caller = controller.authenticate(&second.expose()).await.unwrap();
    assert_eq!((caller.namespace.name.as_str(), &*caller.subject), ("team", "ci"));
    assert_eq!(controller.keys(&name).await.unwrap().len(), 2);
    let foreign = controller.delete_key(&"guest".parse().unwrap(), first.id).await.unwrap_err();
    assert_eq!(foreign.kind(), ErrorKind::NotFound);
    controller.delete_key(&name, first.id).await.unwrap();
    assert!(controller.authenticate(&first.expose()).await.is_err());
    controller.delete_namespace(&name).await.unwrap();
    assert!(controller.authenticate(&second.expose()).await.is_err());
    assert_eq!(controller.create_key(&name, None).await.unwrap_err().kind(), ErrorKind::NotFound);
    server.stop().await;
}

#[tokio::test]
async fn of_two_that_create_a_function_at_once_one_may_be_told_to_try_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    for number in 0..20 {
        let name = format!("f{number}");
        let deploy =
            || PutFunction { overwrite: true, code: code("nodejs", "echo it"), ..PutFunction::default() };
        let (first, second) = tokio::join!(put(&server, &name, deploy()), put(&server, &name, deploy()));
        for deployed in [first, second] {
            assert!(matches!(deployed, Ok(_) | Err(ControllerError::Race)), "{deployed:?}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn webassembly_is_looked_into_off_the_async_threads() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let module = PutFunction { code: code("wasm", "\0asm\u{1}\0\0\0"), ..PutFunction::default() };
    let error = server.aside(put(&server, "m", module)).await.unwrap_err();
    assert!(matches!(error, ControllerError::NotOnThisHost { .. }), "{error}");
    server.stop().await;
}
