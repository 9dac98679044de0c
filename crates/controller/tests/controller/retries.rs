//! Calls that fail are attempted again as their function's policy says, by a clock that the test moves.

use std::{sync::Arc, time::Duration};

use flint_controller::{Answer, Firing, PutCode, PutFunction, PutRule, PutTrigger};
use flint_model::{Activation, DeadLetterReason, NamespaceLimits, Status, Timestamp};
use flint_store::{CallPhase, conformance::sample};
use flint_store_sqlite::{SqliteStore, StoreConfig};
use serde_json::json;

use crate::support::{
    ManualClock, Server,
    composing::{BLOCKING, invocation, sequence},
    config, eventually,
    gated::Gated,
    places_are_free,
    retrying::{
        accept, accept_as, attempts, deploy, letter, letters, metric, minutes, record, result, start, waiting,
    },
};

#[tokio::test]
async fn attempts_come_after_their_back_off_and_each_has_its_record() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    deploy(&server, "f", "fails developer 2", json!({"retries": 3, "backoff": "1min"})).await;
    let id = accept(&server, "f").await;
    waiting(&server, 1).await;
    // Who waits for its delay holds no place.
    places_are_free(&server).await;
    clock.advance(29_999);
    assert_eq!(server.executor.calls_of("guest/f").len(), 1, "half of the back-off at least");
    clock.advance(31000);
    eventually("the second attempt", || async {
        (server.executor.calls_of("guest/f").len() == 2).then_some(())
    })
    .await;
    waiting(&server, 1).await;
    clock.advance(120000);
    let record = record(&server, id).await;
    let known = result(&record);
    assert_eq!(
        known,
        json!({"activation": id.to_string(), "apiKey": "the key", "times": 3}),
        "every attempt is the same call"
    );
    assert_eq!((record.response.status, record.cause, record.attempts.len()), (Status::Success, None, 2));
    let attempts = attempts(&server, id).await;
    assert_eq!(attempts.len(), 2);
    for (number, (attempt, of_call)) in (1..).zip(attempts.iter().zip(&record.attempts)) {
        assert_eq!(of_call.activation, Some(attempt.id));
        assert!(
            of_call.ended_by.starts_with("developer: {\"error\":\"The action did not produce"),
            "{of_call:?}"
        );
        assert_eq!((attempt.response.status, attempt.path.local().as_str()), (Status::DeveloperError, "f"));
        assert_eq!(attempt.annotations.get("attempt"), Some(&json!(number)));
        assert_eq!(attempt.logs.first().map(|line| line.text.as_str()), Some("called"));
    }
    metric(&server, "flint_async_queue_depth", 0).await;
    assert!(letters(&server).await.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn a_start_that_fails_is_an_attempt_and_comes_after_its_back_off() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    let policy = json!({"retries": 2, "backoff": "1min"});
    for (name, code) in [("exits", "init-exits"), ("breaks", "init-platform no memory")] {
        deploy(&server, name, code, policy.clone()).await;
        let id = accept(&server, name).await;
        for attempts in 1..=2 {
            let guest = server.guest().await;
            let state = eventually("the attempt", || async {
                let state = server.queue().find(&guest.namespace.name, id).await.unwrap()?;
                (state.begun == attempts && matches!(state.phase, CallPhase::Delayed(_))).then_some(state)
            })
            .await;
            assert_eq!(state.attempts.len(), attempts as usize, "{name}");
            places_are_free(&server).await;
            clock.advance(300_000);
        }
        let record = record(&server, id).await;
        assert_eq!(letter(&server, id).await.reason, DeadLetterReason::AttemptsUsed, "{name}");
        assert_eq!(record.attempts.len(), 2, "{name}");
        let numbers: Vec<_> =
            attempts(&server, id).await.iter().map(|one| one.annotations.get("attempt").cloned()).collect();
        assert_eq!(numbers, [Some(json!(1)), Some(json!(2))], "{name}");
        places_are_free(&server).await;
    }
    server.stop().await;
}

/// A back-off can be over before the attempt's own task has learnt that it began.
#[tokio::test]
async fn a_call_that_is_due_again_at_once_is_run_with_its_key() {
    let (dir, gated) = (tempfile::tempdir().unwrap(), Arc::new(Gated::default()));
    let server = Server::start_gated(dir.path(), config(), &gated).await;
    let policy = json!({"retries": 1, "backoff": "1ms", "max_backoff": "1ms"});
    deploy(&server, "f", "fails developer 1", policy).await;
    let learns = gated.hold_retries().await;
    let id = accept(&server, "f").await;
    let record = record(&server, id).await;
    let known = json!({"activation": id.to_string(), "apiKey": "the key", "times": 2});
    assert_eq!((result(&record), record.attempts.len()), (known, 1));
    drop(learns);
    metric(&server, "flint_async_queue_depth", 0).await;
    places_are_free(&server).await;
    server.stop().await;
}

/// A failed attempt that is written after its lease has expired is not the one that has begun since.
#[tokio::test]
async fn a_failure_that_comes_late_ends_no_later_attempt() {
    let (dir, gated) = (tempfile::tempdir().unwrap(), Arc::new(Gated::default()));
    let mut config = config();
    config.asynchronous.lease = Duration::from_secs(1);
    let server = Server::start_gated(dir.path(), config, &gated).await;
    deploy(&server, "f", "fails developer 9", json!(5)).await;
    let written = gated.hold_failures().await;
    let id = accept(&server, "f").await;
    let queue = server.queue();
    let next = eventually("the next attempt", || async {
        queue.lease_again("another", 1, sample::LONG, sample::everybody()).await.unwrap().pop()
    })
    .await;
    // The second one, unless the server looked for expired leases in between: then its second one is late as well.
    let late = next.attempt - 1;
    assert_eq!((next.call.activation, late > 0), (id, true));
    assert!(queue.begin(next.lease).await.unwrap());
    drop(written);
    places_are_free(&server).await;
    let state = queue.find(&next.call.namespace, id).await.unwrap().unwrap();
    let begun = (state.begun, state.attempts.len());
    assert_eq!((state.phase, begun), (CallPhase::Running, (late + 1, late as usize)));
    server.stop().await;
}

/// Nor a server that stood still for longer than its leases last.
#[tokio::test]
async fn a_clock_that_jumps_takes_no_call_away_that_runs() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    deploy(&server, "f", "wait", json!(0)).await;
    let id = accept(&server, "f").await;
    eventually("the call", || async { (server.executor.calls_of("guest/f").len() == 1).then_some(()) }).await;
    clock.advance(3_600_000);
    assert_eq!(server.queue().take_exhausted(10).await.unwrap().len(), 0);
    server.executor.go();
    assert_eq!(record(&server, id).await.response.status, Status::Success);
    metric(&server, "flint_async_queue_depth", 0).await;
    assert!(letters(&server).await.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn what_a_shutdown_ends_is_attempted_again_by_the_next_life() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    deploy(&server, "f", "endless", json!(null)).await;
    deploy(&server, "step", "endless", json!(null)).await;
    sequence(&server, "s", &["guest/step", "guest/step"]).await.unwrap();
    let (call, composed) = (accept(&server, "f").await, accept(&server, "s").await);
    let begun = |path: &str| !server.executor.calls_of(path).is_empty();
    eventually("both", || async { (begun("guest/f") && begun("guest/step")).then_some(()) }).await;
    server.controller.shutdown(Duration::from_millis(50)).await;
    drop(server);

    let server = start(dir.path(), &clock).await;
    clock.advance(300_000);
    for id in [call, composed] {
        let guest = server.guest().await;
        let record = eventually("the end", || async {
            clock.advance(60_000);
            server.executor.go();
            server.controller.activation(&guest, &guest.namespace.name, id).await.ok()
        })
        .await;
        assert_eq!(record.response.status, Status::Success, "{record:?}");
    }
    let record = record(&server, call).await;
    assert!(record.attempts[0].ended_by.contains("shut down"), "{:?}", record.attempts);
    assert!(letters(&server).await.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn what_is_attempted_again_is_what_the_policy_says() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    // Whether a failure of that kind leads to a further attempt.
    for (number, (way, retry, again)) in [
        ("platform", json!(null), true),
        ("timeout", json!(null), false),
        ("developer", json!(null), false),
        ("application", json!(null), false),
        ("platform", json!(1), true),
        ("timeout", json!(1), true),
        ("developer", json!(1), true),
        ("application", json!(1), false),
        ("application", json!({"on": ["application"]}), true),
        ("developer", json!({"on": ["application"]}), false),
        ("timeout", json!({"on": ["developer"]}), false),
        ("platform", json!({"on": []}), true),
        ("platform", json!(0), false),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("f{number}");
        let once = retry == json!(0);
        deploy(&server, &name, &format!("fails {way} 1"), retry).await;
        let id = accept(&server, &name).await;
        if again {
            waiting(&server, 1).await;
            clock.advance(60000);
        }
        let record = record(&server, id).await;
        assert_eq!(record.attempts.len(), usize::from(again), "{number} {way}");
        assert_eq!(record.response.status == Status::Success, again, "{number} {way}");
        assert_eq!(server.executor.calls_of(&format!("guest/{name}")).len(), 1 + usize::from(again));
        // What its policy calls a failure, and has no attempts left, is a letter; what it calls an answer is not.
        if once {
            assert_eq!(letter(&server, id).await.reason, DeadLetterReason::AttemptsUsed);
        }
    }
    metric(&server, "flint_async_queue_depth", 0).await;
    assert_eq!(letters(&server).await.len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn no_attempt_begins_when_the_call_is_too_old() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    let policy = json!({"retries": 50, "backoff": "10s", "max_backoff": "10s", "max_age": "1min"});
    deploy(&server, "f", "fails developer 99", policy.clone()).await;
    let id = accept(&server, "f").await;
    // A second attempt, however slow the machine is: the clock stands still until the first one has failed.
    waiting(&server, 1).await;
    clock.advance(12_000);
    eventually("the second attempt", || async {
        (server.executor.calls_of("guest/f").len() == 2).then_some(())
    })
    .await;
    let letter = loop {
        // However late the clock is looked at.
        clock.advance(2000);
        if let Some(letter) = letters(&server).await.pop() {
            break letter;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    assert_eq!((letter.call.activation, letter.reason), (id, DeadLetterReason::TooOld));
    let tried = server.executor.calls_of("guest/f").len();
    assert!(tried > 1 && tried <= 13 && tried == letter.attempts.len(), "{tried}");
    server.die();

    // Accepted by a life that never came to it.
    let mut none = minutes();
    (none.asynchronous.running, none.asynchronous.waiting) = (1, 0);
    let server = Server::start_by(dir.path(), none, Arc::clone(&clock) as _).await;
    deploy(&server, "blocker", "wait", json!(null)).await;
    deploy(&server, "g", "echo", policy).await;
    accept(&server, "blocker").await;
    eventually("the blocker", || async {
        (!server.executor.calls_of("guest/blocker").is_empty()).then_some(())
    })
    .await;
    let late = accept(&server, "g").await;
    server.die();
    clock.advance(61000);
    let server = start(dir.path(), &clock).await;
    let record = record(&server, late).await;
    assert_eq!(record.response.status, Status::InternalError);
    let text = "The call was given up: it was accepted longer ago than the 1min of its retry policy";
    assert_eq!(result(&record), json!({"error": text}));
    let letter = self::letter(&server, late).await;
    assert_eq!((letter.reason, letter.attempts.len()), (DeadLetterReason::TooOld, 0));
    assert!(server.executor.calls_of("guest/g").is_empty());
    server.executor.go();
    server.stop().await;
}

#[tokio::test]
async fn none_begins_that_has_become_too_old_while_it_waited_for_an_instance() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    let code = PutCode { kind: "nodejs".into(), content: "wait".into(), format: None, main: None };
    let mut put = PutFunction { code: Some(code), ..PutFunction::default() };
    put.limits.instances = Some(Some(1));
    put.annotations.set("flint-retry", json!({"max_age": "1min"}));
    let path = "guest/f".parse().unwrap();
    server.controller.put_function(&server.guest().await, path, put, &|_| {}).await.unwrap();
    let first = accept(&server, "f").await;
    eventually("the first", || async { (server.executor.calls_of("guest/f").len() == 1).then_some(()) })
        .await;
    let late = accept(&server, "f").await;
    metric(&server, "flint_calls_waiting", 1).await;
    clock.advance(61_000);
    let letter = eventually("the letter", || async {
        server.executor.go();
        letters(&server).await.pop()
    })
    .await;
    assert_eq!((letter.call.activation, letter.reason), (late, DeadLetterReason::TooOld));
    assert_eq!((letter.attempts.len(), server.executor.calls_of("guest/f").len()), (0, 1));
    assert_eq!(record(&server, first).await.response.status, Status::Success);
    places_are_free(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn a_kill_between_attempts_loses_neither_the_call_nor_its_count() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let mut server = start(dir.path(), &clock).await;
    deploy(&server, "f", "fails developer 99", json!({"retries": 4})).await;
    let id = accept(&server, "f").await;
    let mut made = 0;
    for life in 0..4 {
        waiting(&server, 1).await;
        made += server.executor.calls_of("guest/f").len();
        server.die();
        server = start(dir.path(), &clock).await;
        assert_eq!(
            server.controller.calls_in_flight(),
            0,
            "life {life}: a waiting retry counts against nobody"
        );
        waiting(&server, 1).await;
        clock.advance(1000 * (60 << life));
        eventually("the next attempt", || async {
            (!server.executor.calls_of("guest/f").is_empty()).then_some(())
        })
        .await;
    }
    let letter = letter(&server, id).await;
    made += server.executor.calls_of("guest/f").len();
    assert_eq!((made, letter.attempts.len()), (5, 5));
    assert_eq!(attempts(&server, id).await.len(), 4, "and the last one is the call's own record");
    server.die();
    let server = start(dir.path(), &clock).await;
    assert_eq!(letters(&server).await.len(), 1);
    clock.advance(3_600_000);
    assert!(server.executor.calls_of("guest/f").is_empty());
    server.stop().await;
}

#[tokio::test]
async fn retries_of_one_namespace_keep_neither_others_nor_its_own_calls_waiting() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let mut few = minutes();
    few.asynchronous.retries_running = 3;
    (few.asynchronous.running, few.asynchronous.waiting) = (8, 100);
    let server = Server::start_by(dir.path(), few, Arc::clone(&clock) as _).await;
    deploy(&server, "f", "fails developer 40", json!({"retries": 2})).await;
    let mut ids = Vec::new();
    for _ in 0..40 {
        ids.push(accept(&server, "f").await);
    }
    waiting(&server, 40).await;
    // They come back slow.
    deploy(&server, "f", "wait", json!(null)).await;
    clock.advance(3600000);
    let slow = |count: usize| {
        let server = &server;
        async move {
            eventually("slow retries", || async {
                (server.executor.calls_of("guest/f").len() == 40 + count).then_some(())
            })
            .await;
        }
    };
    slow(3).await;
    deploy(&server, "g", "echo", json!(null)).await;
    let own = accept(&server, "g").await;
    record(&server, own).await;
    let (_, key) = server
        .controller
        .create_namespace("other".parse().unwrap(), NamespaceLimits::default())
        .await
        .unwrap();
    let other = server.controller.authenticate(&key.expose()).await.unwrap();
    let put = flint_controller::PutFunction {
        code: Some(flint_controller::PutCode {
            kind: "nodejs".into(),
            content: "echo".into(),
            format: None,
            main: None,
        }),
        ..Default::default()
    };
    server.controller.put_function(&other, "other/f".parse().unwrap(), put, &|_| {}).await.unwrap();
    accept_as(&server, &other, "other/f").await;
    eventually("the other namespace", || async {
        (!server.executor.calls_of("other/f").is_empty()).then_some(())
    })
    .await;
    assert_eq!(server.executor.calls_of("guest/f").len(), 43, "no more than may run at once");
    for id in ids {
        eventually("the record", || async {
            server.executor.go();
            let caller = server.guest().await;
            server.controller.activation(&caller, &caller.namespace.name, id).await.ok()
        })
        .await;
    }
    waiting(&server, 0).await;
    server.stop().await;
}

#[tokio::test]
async fn a_namespaces_new_limits_hold_for_its_retries_at_once() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    deploy(&server, "f", "fails developer 1", json!({"retries": 2})).await;
    let id = accept(&server, "f").await;
    waiting(&server, 1).await;
    let guest = server.guest().await.namespace.name.clone();
    let limit = async |concurrent_invocations: Option<u32>| {
        let limits = NamespaceLimits { concurrent_invocations, ..Default::default() };
        server.controller.set_limits(&guest, limits).await.unwrap();
    };
    limit(Some(0)).await;
    clock.advance(3600000);
    // It is looked for due calls several times meanwhile.
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(server.executor.calls_of("guest/f").len(), 1, "none is admitted");
    // And without a call that anybody makes now.
    limit(None).await;
    assert_eq!(record(&server, id).await.attempts.len(), 1);
    assert_eq!(server.executor.calls_of("guest/f").len(), 2);
    server.stop().await;
}

#[tokio::test]
async fn a_rules_action_is_attempted_again_and_so_is_a_whole_sequence_that_asks_for_it() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    deploy(&server, "first", "echo", json!(null)).await;
    deploy(&server, "second", "fails application 1", json!(9)).await;
    sequence(&server, "plain", &["guest/first", "guest/second"]).await.unwrap();
    let caller = server.guest().await;
    let put = |components: &[&str]| flint_controller::PutSequence {
        overwrite: true,
        components: Some(components.iter().map(|path| path.parse().unwrap()).collect()),
        annotations: serde_json::from_value(
            json!([{"key": "flint-retry", "value": {"retries": 2, "on": ["application"]}}]),
        )
        .unwrap(),
        ..Default::default()
    };
    let plain = accept(&server, "plain").await;
    assert_eq!(record(&server, plain).await.response.status, Status::ApplicationError, "as it always was");
    deploy(&server, "third", "fails application 1", json!(9)).await;
    let asks = put(&["guest/first", "guest/third"]);
    server.controller.put_sequence(&caller, "guest/asks".parse().unwrap(), asks).await.unwrap();
    server.controller.put_trigger(&caller, "guest/t".parse().unwrap(), PutTrigger::default()).await.unwrap();
    let rule = PutRule {
        trigger: Some("guest/t".parse().unwrap()),
        action: Some("guest/asks".parse().unwrap()),
        ..PutRule::default()
    };
    server.controller.put_rule(&caller, "guest/r".parse().unwrap(), rule).await.unwrap();
    let firing = Firing {
        path: "guest/t".parse().unwrap(),
        payload: "{\"n\":7}".into(),
        headers: json!({}),
        transaction: "t".into(),
        arrived: std::time::Instant::now(),
        api_key: None,
    };
    let fired = server.controller.fire(&caller, firing).await.unwrap().unwrap();
    waiting(&server, 1).await;
    let fired = record(&server, fired).await;
    let flint_model::RuleOutcome::Called { activation } = fired.fired[0].outcome else { panic!("{fired:?}") };
    clock.advance(60000);
    let record = record(&server, activation).await;
    assert_eq!((record.response.status, record.attempts.len()), (Status::Success, 1));
    let firsts = server.executor.calls_of("guest/first").len();
    assert_eq!((firsts, server.executor.calls_of("guest/third").len()), (3, 2), "from its first step");
    let attempt = &attempts(&server, activation).await[..];
    let attempt = attempt.iter().find(|attempt| attempt.annotations.get("attempt").is_some()).unwrap();
    assert_eq!((attempt.components.len(), attempt.response.status), (2, Status::ApplicationError));
    // Who waits for the answer gets it.
    deploy(&server, "third", "fails application 9", json!(9)).await;
    let answer = server.controller.invoke(&caller, invocation("asks", &json!({}), BLOCKING)).await.unwrap();
    let Answer::Finished(answer) = answer else { panic!("{answer:?}") };
    assert_eq!((answer.response.status, answer.attempts.len()), (Status::ApplicationError, 0));
    waiting(&server, 0).await;
    server.stop().await;
}

#[tokio::test]
async fn a_policy_that_is_not_understood_is_refused_with_the_deploy() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), config()).await;
    let caller = server.guest().await;
    let mut put = flint_controller::PutFunction {
        code: Some(flint_controller::PutCode {
            kind: "nodejs".into(),
            content: "echo".into(),
            format: None,
            main: None,
        }),
        ..Default::default()
    };
    put.annotations.set("flint-retry", json!({"retries": 1000}));
    let refused = server.controller.put_function(&caller, "guest/f".parse().unwrap(), put, &|_| {}).await;
    let error = refused.unwrap_err().to_string();
    assert_eq!(
        error,
        "the annotation 'flint-retry' is not understood: 1000 retries are more than the 100 there may be"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_call_whose_end_only_the_log_was_told_is_not_run_again() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::now().as_millis()));
    let server = start(dir.path(), &clock).await;
    deploy(&server, "f", "wait", json!(5)).await;
    deploy(&server, "last", "wait", json!(0)).await;
    let (done, dead, last) =
        (accept(&server, "f").await, accept(&server, "f").await, accept(&server, "last").await);
    let begun = || async {
        let calls = server.executor.calls_of("guest/f").len() + server.executor.calls_of("guest/last").len();
        (calls == 3).then_some(())
    };
    eventually("the attempts", begun).await;
    server.die();
    // Killed between the record and the queue.
    let store = SqliteStore::open(StoreConfig::new(dir.path())).unwrap();
    for (id, path, reason) in
        [(done, "guest/f", None), (dead, "guest/f", Some("too_old")), (last, "guest/last", None)]
    {
        let mut record = Activation { id, ..sample::activation("guest", path, 1, 1) };
        if let Some(reason) = reason {
            record.annotations.set("deadLetter", reason);
        }
        store.activations().append(record);
    }
    store.close().await.unwrap();
    let server = start(dir.path(), &clock).await;
    metric(&server, "flint_async_queue_depth", 0).await;
    assert!(server.executor.seen().calls.is_empty());
    let left: Vec<_> =
        letters(&server).await.into_iter().map(|letter| (letter.call.activation, letter.reason)).collect();
    assert_eq!(left, [(dead, DeadLetterReason::TooOld)]);
    server.stop().await;
}
