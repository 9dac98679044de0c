//! Calls that failed for good are kept, within bounds, and run again when that is asked for.

use std::{sync::Arc, time::Duration};

use flint_controller::{ControllerError, ErrorKind, Mode, PutCode, PutFunction, PutPackage, PutSequence};
use flint_model::{DeadLetterReason, NamespaceLimits, Parameter, Parameters, Status, Timestamp};
use serde_json::json;

use crate::support::{
    ManualClock, Server,
    composing::invocation,
    eventually, places_are_free,
    retrying::{accept, deploy, letter, letters, metric, minutes, record, result, start, waiting},
};

#[tokio::test]
async fn a_call_that_used_up_its_attempts_is_a_letter_and_runs_again_once_when_it_is_redriven() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    deploy(&server, "f", "fails timeout 3", json!({"retries": 1})).await;
    let id = accept(&server, "f").await;
    waiting(&server, 1).await;
    clock.advance(60000);
    let letter = letter(&server, id).await;
    assert_eq!((&*letter.call.arguments, letter.reason), (&b"{\"n\":1}"[..], DeadLetterReason::AttemptsUsed));
    let record = record(&server, id).await;
    assert_eq!((record.response.status, record.timed_out), (Status::DeveloperError, true));
    assert_eq!(record.annotations.get("deadLetter"), Some(&json!("attempts_used")));
    assert_eq!(letter.attempts.len(), 2);
    assert_eq!(letter.attempts[0], record.attempts[0]);
    assert!(letter.attempts.iter().all(|attempt| attempt.ended_by.starts_with("timeout: ")));
    metric(&server, "flint_dead_letters", 1).await;
    metric(&server, "flint_dead_letters_buried_total{reason=\"attempts_used\"}", 1).await;
    places_are_free(&server).await;

    let caller = server.guest().await;
    let namespace = caller.namespace.name.clone();
    let redrive = || server.controller.redrive(&caller, &namespace, id, "t2", Some("another".into()));
    let outcomes = futures_util::future::join_all((0..5).map(|_| redrive())).await;
    let redriven: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
    assert_eq!(redriven.len(), 1);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(_) | Err(ControllerError::NotFound))));
    waiting(&server, 1).await;
    clock.advance(60000);
    let again = self::record(&server, redriven[0].activation).await;
    assert_eq!(again.cause, Some(id));
    let known = json!({"activation": again.id.to_string(), "apiKey": "another", "times": 4});
    assert_eq!((result(&again), again.attempts.len()), (known, 1), "with all its attempts");
    assert_eq!(server.executor.calls_of("guest/f"), ["{\"n\":1}"; 4]);
    metric(&server, "flint_async_queue_depth", 0).await;
    metric(&server, "flint_dead_letters_redriven_total", 1).await;
    assert!(letters(&server).await.is_empty());
    places_are_free(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn so_many_wait_and_no_more() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let mut few = minutes();
    few.asynchronous.retries_waiting = 3;
    few.dead_letters.max_count = 2;
    let server = Server::start_by(dir.path(), few, Arc::clone(&clock) as _).await;
    deploy(&server, "f", "fails developer 99", json!({"retries": 2})).await;
    for calls in 1..=3 {
        accept(&server, "f").await;
        waiting(&server, calls).await;
    }
    let mut last = None;
    for _ in 0..3 {
        let id = accept(&server, "f").await;
        assert_eq!(letter(&server, id).await.reason, DeadLetterReason::TooManyWaiting);
        last = Some(id);
    }
    assert_eq!(letters(&server).await[0].call.activation, last.unwrap());
    assert_eq!(letters(&server).await.len(), 2, "letters have their bound too");
    metric(&server, "flint_dead_letters_dropped_total{by=\"bound\"}", 1).await;
    waiting(&server, 3).await;
    server.stop().await;
}

#[tokio::test]
async fn a_call_whose_function_is_gone_is_kept_until_there_is_one_again() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    deploy(&server, "f", "fails developer 1", json!(3)).await;
    let id = accept(&server, "f").await;
    waiting(&server, 1).await;
    let caller = server.guest().await;
    let namespace = caller.namespace.name.clone();
    server.controller.delete_function(&caller, &"guest/f".parse().unwrap()).await.unwrap();
    clock.advance(60000);
    assert_eq!(letter(&server, id).await.reason, DeadLetterReason::FunctionGone);
    let record = record(&server, id).await;
    assert_eq!(result(&record), json!({"error": "Action could not be found or may have been deleted."}));
    let refused = server.controller.redrive(&caller, &namespace, id, "t", None).await;
    assert!(matches!(&refused, Err(ControllerError::NoSuch(path)) if path == "guest/f"), "{refused:?}");
    assert_eq!(letters(&server).await.len(), 1, "it stays");
    deploy(&server, "f", "echo", json!(null)).await;
    let redriven = server.controller.redrive(&caller, &namespace, id, "t", None).await.unwrap();
    assert_eq!(result(&self::record(&server, redriven.activation).await), json!({"n": 1}));
    server.stop().await;
}

#[tokio::test]
async fn a_sequence_whose_step_may_not_be_called_any_more_stays_a_letter() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    let (guest, controller) = (server.guest().await, &server.controller);
    let (_, key) = controller.create_namespace("team".parse().unwrap(), Default::default()).await.unwrap();
    let team = controller.authenticate(&key.expose()).await.unwrap();
    let publish = async |published: bool| {
        let put = PutPackage { overwrite: true, publish: Some(published), ..PutPackage::default() };
        controller.put_package(&team, "team/p".parse().unwrap(), put).await.unwrap();
    };
    publish(true).await;
    let content = "fails application 1".to_owned().into();
    let code = PutCode { kind: "nodejs".into(), content, format: None, main: None };
    let put = PutFunction { code: Some(code), ..PutFunction::default() };
    controller.put_function(&team, "team/p/f".parse().unwrap(), put, &|_| {}).await.unwrap();
    let retry = json!([{"key": "flint-retry", "value": {"retries": 0, "on": ["application"]}}]);
    let put = PutSequence {
        components: Some(vec!["team/p/f".parse().unwrap()]),
        annotations: serde_json::from_value(retry).unwrap(),
        ..PutSequence::default()
    };
    controller.put_sequence(&guest, "guest/s".parse().unwrap(), put).await.unwrap();
    let id = accept(&server, "s").await;
    letter(&server, id).await;

    publish(false).await;
    let redrive = || controller.redrive(&guest, &guest.namespace.name, id, "t", None);
    let refused = redrive().await.unwrap_err();
    let call = invocation("s", &json!({}), Mode::NonBlocking);
    let as_a_call = controller.invoke(&guest, call).await.unwrap_err();
    assert_eq!((refused.kind(), refused.to_string()), (ErrorKind::Forbidden, as_a_call.to_string()));
    assert_eq!(letters(&server).await.len(), 1, "it stays");
    places_are_free(&server).await;
    publish(true).await;
    let redriven = redrive().await.unwrap();
    assert_eq!(record(&server, redriven.activation).await.response.status, Status::Success);
    server.stop().await;
}

#[tokio::test]
async fn a_call_that_sets_what_has_become_final_stays_a_letter() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    let (guest, controller) = (server.guest().await, &server.controller);
    let namespace = &guest.namespace.name;
    deploy(&server, "f", "fails developer 1", json!(0)).await;
    let id = accept(&server, "f").await;
    letter(&server, id).await;
    let fix = async |key: &str| {
        let code =
            PutCode { kind: "nodejs".into(), content: "echo".to_owned().into(), format: None, main: None };
        let parameter = Parameter { key: key.to_owned(), value: json!(2), init: false };
        let parameters = Some(Parameters(vec![parameter]));
        let mut put = PutFunction { overwrite: true, code: Some(code), parameters, ..PutFunction::default() };
        put.annotations.set("final", true);
        controller.put_function(&guest, "guest/f".parse().unwrap(), put, &|_| {}).await.unwrap();
    };

    fix("n").await;
    let refused = controller.redrive(&guest, namespace, id, "t", None).await.unwrap_err();
    let call = invocation("f", &json!({"n": 1}), Mode::NonBlocking);
    let as_a_call = controller.invoke(&guest, call).await.unwrap_err();
    assert!(matches!(refused, ControllerError::ReservedParameters), "{refused}");
    assert_eq!(refused.to_string(), as_a_call.to_string());
    let some = controller.redrive_some(&guest, namespace, None, 9, "t", None).await.unwrap();
    assert!(some.redriven.is_empty());
    assert!(matches!(some.stopped, Some(ControllerError::ReservedParameters)), "{:?}", some.stopped);
    assert_eq!(letters(&server).await.len(), 1, "it stays");
    places_are_free(&server).await;
    fix("m").await;
    let redriven = controller.redrive(&guest, namespace, id, "t", None).await.unwrap();
    assert_eq!(result(&record(&server, redriven.activation).await), json!({"m": 2, "n": 1}));
    server.stop().await;
}

#[tokio::test]
async fn with_a_namespace_everything_of_its_goes() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    deploy(&server, "dead", "fails developer 9", json!(0)).await;
    deploy(&server, "waits", "fails developer 9", json!(3)).await;
    let id = accept(&server, "dead").await;
    letter(&server, id).await;
    accept(&server, "waits").await;
    waiting(&server, 1).await;
    server.controller.delete_namespace(&"guest".parse().unwrap()).await.unwrap();
    metric(&server, "flint_dead_letters", 0).await;
    metric(&server, "flint_async_queue_depth", 0).await;
    server.die();
    // Another one of that name is another one.
    let server = start(dir.path(), &clock).await;
    deploy(&server, "waits", "echo", json!(3)).await;
    clock.advance(3600000);
    let own = accept(&server, "waits").await;
    record(&server, own).await;
    assert_eq!((server.executor.calls_of("guest/waits").len(), letters(&server).await.len()), (1, 0));
    server.stop().await;
}

#[tokio::test]
async fn letters_are_redriven_together_as_far_as_there_are_places() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    for name in ["f", "g"] {
        deploy(&server, name, "fails developer 99", json!(0)).await;
        for _ in 0..4 {
            let id = accept(&server, name).await;
            letter(&server, id).await;
        }
    }
    let namespace: flint_model::NamespaceName = "guest".parse().unwrap();
    let limits = NamespaceLimits { concurrent_invocations: Some(3), ..NamespaceLimits::default() };
    server.controller.set_limits(&namespace, limits).await.unwrap();
    deploy(&server, "f", "wait", json!(null)).await;
    let caller = server.guest().await;
    let some = |limit| {
        let function = Some("guest/f".parse().unwrap());
        server.controller.redrive_some(&caller, &namespace, function, limit, "t", None)
    };
    let first = some(2).await.unwrap();
    assert!(first.stopped.is_none() && first.redriven.len() == 2);
    let second = some(100).await.unwrap();
    assert_eq!(second.redriven.len(), 1);
    assert!(matches!(second.stopped, Some(ControllerError::Concurrency { count: 3, allowed: 3 })));
    assert_eq!(letters(&server).await.len(), 5, "what was refused stays");
    for redriven in first.redriven.into_iter().chain(second.redriven) {
        eventually("the record", || async {
            server.executor.go();
            server.controller.activation(&caller, &namespace, redriven.activation).await.ok()
        })
        .await;
    }
    let function = "guest/g".parse().unwrap();
    assert_eq!(server.controller.remove_dead_letters(&caller, &namespace, Some(&function)).await.unwrap(), 4);
    let left = letters(&server).await;
    assert_eq!(left.len(), 1);
    let id = left[0].call.activation;
    server.controller.remove_dead_letter(&caller, &namespace, id).await.unwrap();
    let again = server.controller.remove_dead_letter(&caller, &namespace, id).await;
    assert!(matches!(again, Err(ControllerError::NotFound)));
    server.stop().await;
}

#[tokio::test]
async fn letters_grow_too_old() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let mut config = minutes();
    config.dead_letters.max_age = Duration::from_secs(3600);
    let server = Server::start_by(dir.path(), config, Arc::clone(&clock) as _).await;
    deploy(&server, "f", "fails developer 9", json!(0)).await;
    let old = accept(&server, "f").await;
    letter(&server, old).await;
    clock.advance(1800000);
    let young = accept(&server, "f").await;
    letter(&server, young).await;
    clock.advance(1801000);
    metric(&server, "flint_dead_letters_dropped_total{by=\"age\"}", 1).await;
    let left: Vec<_> = letters(&server).await.into_iter().map(|letter| letter.call.activation).collect();
    assert_eq!(left, [young]);
    server.stop().await;
}
