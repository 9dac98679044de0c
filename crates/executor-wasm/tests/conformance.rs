//! The rules that every executor passes, for one whose instances are WebAssembly. The suite's own programs are JavaScript and
//! Python; the rules are tested here with modules written for them, under their own names, and those that make no sense for such an instance
//! say why. [`every_rule_is_accounted_for`] holds both lists against the suite.

mod support;

use std::{collections::HashSet, fs, sync::Arc, time::Duration};

use bytes::Bytes;
use flint_executor::{Body, BodyError, CallHead, Executor, Fault, Invoked, PrepareError, ReplyHead};
use flint_executor_wasm::{KIND, WasmConfig};
use flint_model::{ByteSize, CodeFormat, Contract, FunctionLimits, Kind};
use http::{HeaderMap, Method};
use serde_json::json;
use support::{AMPLE, House, SHORT, call, context, done, function, json_call, wat};

const CORE: &str = include_str!("modules/core.wat");
const COMMAND: &str = include_str!("modules/command.wat");
const HTTP: &str = include_str!("modules/http.wat");

/// Rules of the suite that are not tested here, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    ("a_warm_instance_keeps_its_own_state", "reuse is never: each call has memory of its own"),
    ("a_fork_bomb_is_contained", "there are no processes and no threads that a guest could start"),
    (
        "loading_has_a_deadline_too",
        "nothing of the guest runs before its call; a start function is part of the call (hostile.rs)",
    ),
    (
        "closed_output_is_tolerated",
        "closing a stream is the guest's own affair: no pipe of the host is behind it",
    ),
    (
        "a_crash_is_said",
        "there are no signals: what crashes a process is a trap here, and that is an_exception_is_said",
    ),
    (
        "half_a_character_in_an_exception_does_no_harm",
        "what a guest says is bytes, in which what is no UTF-8 is replaced as they are read",
    ),
    (
        "the_code_is_read_only",
        "a guest does not see its code, and has no file to write to; assets are tested in hostile.rs",
    ),
    (
        "the_hosts_loopback_is_out_of_reach",
        "there are no sockets; outbound requests are tested in src/host/http",
    ),
    (
        "a_gigabyte_of_output_does_no_harm",
        "a line is collected or dropped as it is written: what_exceeds_the_limit_is_said writes a million",
    ),
    ("prewarmed_runtimes_are_taken", "there is nothing to prewarm: the pool is made when the server starts"),
    (
        "a_refused_kind_names_the_cause",
        "the one kind, wasm, has no version; others are other executors' to refuse",
    ),
];

#[test]
fn every_rule_is_accounted_for() {
    let suite = include_str!("../../executor/src/conformance/mod.rs");
    let start = suite.find("conformance_suite!(@ $subject,").expect("the list");
    let list = &suite[start..start + suite[start..].find(");").expect("its end")];
    let rules: Vec<_> = list
        .split(|c: char| !(c.is_ascii_lowercase() || c == '_'))
        .filter(|word| word.contains('_'))
        .collect();
    let rules: Vec<_> = rules.into_iter().filter(|word| *word != "conformance_suite").collect();
    assert!(rules.len() > 20, "{rules:?}");
    let own = include_str!("conformance.rs");
    for rule in &rules {
        let tested = own.contains(&format!("async fn {rule}("));
        let excused = ELSEWHERE.iter().any(|(name, _)| name == rule);
        assert!(
            tested != excused,
            "{rule} is {}",
            if tested { "both tested and excused" } else { "forgotten" }
        );
    }
    for (name, why) in ELSEWHERE {
        assert!(rules.contains(name) && !why.is_empty(), "{name} is no rule");
    }
}

#[tokio::test]
async fn fresh_instances_share_nothing() {
    let house = House::new();
    let prepared =
        house.prepare(function(Contract::WasmCore, &wat(CORE), FunctionLimits::default())).await.unwrap();
    for _ in 0..3 {
        let instance =
            house.executor.start(&prepared, context()).await.map(|started| started.instance).unwrap();
        for _ in 0..2 {
            assert_eq!(call(&instance, "count").await.json(), json!({ "calls": 1 }));
        }
        instance.stop().await;
    }
}

#[tokio::test]
async fn no_two_instances_draw_the_same() {
    let house = House::new();
    let instance = house.start(Contract::WasiCommand, &wat(COMMAND)).await;
    let mut drawn = HashSet::new();
    for _ in 0..50 {
        drawn.insert(done(instance.invoke(json_call("r", AMPLE)).await).result.unwrap().body);
    }
    assert_eq!(drawn.len(), 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_loop_is_ended() {
    let house = House::new();
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    // More than there are threads of either sort.
    let loops = (0..8).map(|_| {
        let instance = Arc::clone(&instance);
        tokio::spawn(async move { done(instance.invoke(json_call(r#"{"op":"while"}"#, SHORT)).await) })
    });
    let loops: Vec<_> = loops.collect();
    for n in 0..20 {
        let text = format!(r#"{{"op":"echo","n":{n}}}"#);
        assert_eq!(done(instance.invoke(json_call(text, AMPLE)).await).json()["n"], n);
        tokio::time::sleep(SHORT / 20).await;
    }
    for looped in loops {
        assert_eq!(looped.await.unwrap().fault(), &Fault::Deadline);
    }
}

#[tokio::test]
async fn a_memory_bomb_is_contained() {
    let house = House::new();
    let limits = FunctionLimits { memory: ByteSize::mib(32), ..FunctionLimits::default() };
    let instance = house.start_with(Contract::WasmCore, &wat(CORE), limits).await;
    assert_eq!(call(&instance, "memory").await.fault(), &Fault::OutOfMemory);
}

#[tokio::test]
async fn output_is_complete_and_in_order() {
    let house = House::new();
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    let mut flood = json_call(r#"{"op":"Flood"}"#, AMPLE);
    flood.max_logs = ByteSize::mib(64);
    let flood = done(instance.invoke(flood).await);
    assert_eq!(flood.end.logs.len(), 1_000_000);
    assert!(!flood.end.logs_truncated && flood.end.logs.iter().all(|line| line.text == "first line"));
    assert!(flood.end.logs.is_sorted_by_key(|line| line.time_us));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_belongs_to_its_call() {
    let house = House::new();
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    let calls = (0..20).map(|n| {
        let instance = Arc::clone(&instance);
        tokio::spawn(async move { (n, call(&instance, if n % 2 == 0 { "log" } else { "echo" }).await) })
    });
    for call in calls.collect::<Vec<_>>() {
        let (n, done) = call.await.unwrap();
        assert_eq!(done.end.logs.len(), if n % 2 == 0 { 2 } else { 0 });
    }
}

#[tokio::test]
async fn what_exceeds_the_limit_is_said() {
    let house = House::new();
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    let mut flood = json_call(r#"{"op":"Flood"}"#, AMPLE);
    flood.max_logs = ByteSize::bytes(100);
    let flood = done(instance.invoke(flood).await);
    let kept: usize = flood.end.logs.iter().map(|line| line.text.len()).sum();
    assert!(flood.end.logs_truncated && kept <= 100 && kept > 80, "{kept}");
    assert!(!call(&instance, "log").await.end.logs_truncated);
}

#[tokio::test]
async fn an_exit_is_said() {
    let house = House::new();
    let instance = house.start(Contract::WasiCommand, &wat(COMMAND)).await;
    let exit = done(instance.invoke(json_call("x", AMPLE)).await);
    assert!(exit.told().contains("exit code 7"), "{}", exit.told());
}

#[tokio::test]
async fn an_exception_is_said() {
    let house = House::new();
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    assert!(call(&instance, "trap").await.told().contains("panicking_function"));
    assert_eq!(call(&instance, "fail").await.told(), "it went wrong");
}

#[tokio::test]
async fn code_that_does_not_load_is_said() {
    let house = House::new();
    let refused = house.refused(Contract::WasmCore, &wat("(module)")).await;
    assert!(refused.contains("memory"), "{refused}");
    let no_call = wat(
        r#"(module (memory (export "memory") 1) (func (export "flint_alloc") (param i32) (result i32) (i32.const 0)))"#,
    );
    let refused = house.refused(Contract::WasmCore, &no_call).await;
    assert!(refused.contains("flint_call"), "{refused}");
    let other = wat(r#"(module (memory (export "memory") 1) (func (export "flint_alloc")))"#);
    let refused = house.refused(Contract::WasmCore, &other).await;
    assert!(refused.contains("flint_alloc"), "{refused}");
    assert!(house.refused(Contract::WasiCommand, &wat("(module)")).await.contains("_start"));
    assert!(
        house.refused(Contract::WasiHttp, &wat("(component)")).await.contains("wasi:http/incoming-handler")
    );
    assert!(house.refused(Contract::WasiHttp, &wat("(module)")).await.contains("core module"));
}

#[tokio::test]
async fn an_oversized_result_is_said() {
    let house = House::new();
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    let mut big = json_call(r#"{"op":"big"}"#, AMPLE);
    big.max_result = ByteSize::bytes(1000);
    let big = done(instance.invoke(big).await);
    assert!(
        matches!(big.fault(), Fault::ResultTooLarge { size: 100_010, allowed: 1000, .. }),
        "{:?}",
        big.fault()
    );
    assert!(big.end.reusable);
}

#[tokio::test]
async fn a_wrong_answer_is_said() {
    let house = House::new();
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    assert_eq!(call(&instance, "number").await.fault(), &Fault::InvalidAnswer { text: "7".into() });
}

#[tokio::test]
async fn the_host_is_out_of_sight() {
    let house = House::new();
    let instance = house.start(Contract::WasiCommand, &wat(COMMAND)).await;
    let opened = done(instance.invoke(json_call("h", AMPLE)).await);
    assert_eq!(&opened.result.unwrap().body[..], b"1", "a file of the host was opened");
}

#[tokio::test]
async fn long_bodies_stream_both_ways() {
    const PIECE: usize = 1 << 20;
    const PIECES: usize = 50;
    let house = House::new();
    let instance = house.start(Contract::WasiHttp, &wat(HTTP)).await;
    let (sender, body) = flint_executor::body_channel();
    let feeding = tokio::spawn(async move {
        for n in 0..PIECES {
            sender.send(Ok(Bytes::from(vec![n as u8; PIECE]))).await.expect("the body is taken");
        }
    });
    let mut echo = json_call("", AMPLE);
    let (path, query, headers) = ("/echo".to_owned(), String::new(), HeaderMap::new());
    echo.head = Some(Box::new(CallHead { method: Method::POST, path, query, headers }));
    echo.body = Body::Stream(body);
    let Invoked::Streaming { mut body, end, .. } = instance.invoke(echo).await else { panic!("no stream") };
    let mut length = 0;
    while let Some(piece) = body.recv().await {
        let piece = piece.unwrap();
        assert_eq!(usize::from(piece[0]), length / PIECE);
        length += piece.len();
    }
    assert_eq!(length, PIECE * PIECES);
    feeding.await.unwrap();
    let end = end.await.unwrap();
    assert_eq!((end.fault, end.streamed), (None, length as u64));
}

#[tokio::test]
async fn a_caller_that_goes_away_does_no_harm() {
    let house = House::new();
    let instance = house.start(Contract::WasiCommand, &wat(COMMAND)).await;
    let Invoked::Streaming { body, end, .. } = instance.invoke(json_call("s", AMPLE)).await else {
        panic!("no stream")
    };
    drop(body);
    end.await.expect("the call's end");
    assert_eq!(house.executor.live(), 0);
    // One that takes nothing, and later reads on, does not take what it gets for all.
    let mut invoked = instance.invoke(json_call("s", SHORT)).await;
    if !matches!(invoked, Invoked::Streaming { .. }) {
        // The machine was too busy for it to begin by then.
        invoked = instance.invoke(json_call("s", 30 * SHORT)).await;
    }
    let Invoked::Streaming { mut body, end, .. } = invoked else { panic!("no stream") };
    let end = end.await.expect("the call's end");
    assert_eq!(end.fault, Some(Fault::Deadline));
    let (mut last, mut length) = (None, 0);
    while let Some(piece) = body.recv().await {
        length += piece.as_ref().map_or(0, Bytes::len);
        last = Some(piece);
    }
    assert!(matches!(last, Some(Err(_))), "{last:?}");
    assert!(length > 0 && end.streamed == length as u64, "{} of {length}", end.streamed);
    assert_eq!(done(instance.invoke(json_call("{}", AMPLE)).await).json(), json!({}));
}

#[tokio::test]
async fn a_request_that_breaks_off_ends_its_own_call_only() {
    let house = House::new();
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    for error in [BodyError::Broken("gone".into()), BodyError::TooLarge(7), BodyError::Late] {
        let (sender, body) = flint_executor::body_channel();
        sender.send(Ok(Bytes::from_static(b"{\"op\":"))).await.expect("room");
        sender.send(Err(error.clone())).await.expect("room");
        let mut half = json_call("", AMPLE);
        half.body = Body::Stream(body);
        let half = done(instance.invoke(half).await);
        assert_eq!((half.fault(), half.end.reusable), (&Fault::Request(error), true));
    }
    // One that stalls: nothing runs before all of it is there.
    let (_sender, body) = flint_executor::body_channel();
    let mut stalled = json_call("", SHORT);
    stalled.body = Body::Stream(body);
    let stalled = done(instance.invoke(stalled).await);
    assert_eq!((stalled.fault(), stalled.end.reusable), (&Fault::Request(BodyError::Late), true));
    assert_eq!(call(&instance, "fail").await.told(), "it went wrong", "and the instance goes on");
    assert_eq!(house.executor.live(), 0);
}

#[tokio::test]
async fn binary_answers_are_http() {
    let house = House::new();
    let instance = house.start(Contract::WasiCommand, &wat(COMMAND)).await;
    let reply = done(instance.invoke(json_call("r", AMPLE)).await).result.unwrap();
    assert!(matches!(reply.head, ReplyHead::Http { .. }) && reply.body.len() == 16);
}

#[tokio::test]
async fn a_paused_instance_serves_again() {
    let house = House::new();
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    for _ in 0..2 {
        instance.pause().await;
        instance.resume().await;
        assert_eq!(call(&instance, "echo").await.json(), json!({ "op": "echo" }));
    }
    instance.pause().await;
    instance.stop().await;
    instance.ended().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_serves_one_call_at_a_time() {
    // Or several, as nothing of one is of another.
    let house = House::new();
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    let calls = (0..8).map(|n| {
        let instance = Arc::clone(&instance);
        tokio::spawn(async move {
            let text = format!(r#"{{"op":"echo","n":{n}}}"#);
            assert_eq!(done(instance.invoke(json_call(text, AMPLE)).await).json()["n"], n);
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
}

#[tokio::test]
async fn an_ended_instance_says_so() {
    let house = House::new();
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    instance.stop().await;
    instance.ended().await;
    instance.stop().await;
    let late = call(&instance, "echo").await;
    assert!(late.result.is_err() && !late.end.reusable);
}

#[tokio::test]
async fn preparing_twice_is_a_no_op() {
    let house = House::new();
    let code = wat(CORE);
    let source = || function(Contract::WasmCore, &code, FunctionLimits::default());
    let first = house.prepare(source()).await.unwrap();
    let again = house.prepare(source()).await.unwrap();
    assert!(first.took > Duration::ZERO && again.took == Duration::ZERO);
    assert_eq!(first.steps, again.steps);
    // A collection leaves what is in use alone, wanted or not.
    house.executor.collect(&[]).await;
    let instance = house.executor.start(&again, context()).await.map(|started| started.instance).unwrap();
    assert_eq!(call(&instance, "echo").await.json(), json!({ "op": "echo" }));
    drop((first, again, instance));
    house.executor.collect(&[]).await;
    assert!(house.prepare(source()).await.unwrap().took > Duration::ZERO);
    // What is wanted stays.
    house.executor.collect(&[source().function]).await;
    assert_eq!(house.prepare(source()).await.unwrap().took, Duration::ZERO);
}

#[tokio::test]
async fn refused_code_names_the_cause() {
    let house = House::new();
    let cases: [(&[u8], &str); 5] = [
        (b"\0as", "not Wasm"),
        (b"\0asm\x01", "truncated"),
        (b"\0asm\x07\0\0\0", "version"),
        (b"(module)", "text form"),
        (b"\0asm\x01\0\0\0\xff", "not valid Wasm"),
    ];
    for (code, cause) in cases {
        let refused = house.refused(Contract::WasmCore, code).await;
        assert!(refused.contains(cause), "{code:?}: {refused}");
    }
    let imports =
        wat(r#"(module (import "env" "now" (func)) (import "env" "later" (func)) (func (export "_start")))"#);
    let refused = house.refused(Contract::WasiCommand, &imports).await;
    assert!(refused.contains("env.now, env.later"), "{refused}");
    let mut source = function(Contract::WasmCore, b"PK\x03\x04 broken", FunctionLimits::default());
    Arc::get_mut(&mut source.function).unwrap().code.format = CodeFormat::Zip;
    assert!(matches!(house.prepare(source).await, Err(PrepareError::Code(_))));
}

/// Part of the suite's rule 3, which a program of its own calls where processes are concerned: descriptors, folders, places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left() {
    let house = House::new();
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    let files = || fs::read_dir(house.folder.path()).unwrap().count();
    let before = files();
    for round in 0..50 {
        let op = ["echo", "trap", "while", "memory", "log"][round % 5];
        let limit = if op == "while" { Duration::from_millis(30) } else { AMPLE };
        drop(instance.invoke(json_call(format!(r#"{{"op":"{op}"}}"#), limit)).await);
    }
    house.until_no_guest().await;
    assert_eq!(files(), before);
}

#[tokio::test]
async fn more_calls_than_places_wait_for_one() {
    let house = House::with(WasmConfig { instances: Some(2), ..WasmConfig::default() });
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let instance = Arc::clone(&instance);
            tokio::spawn(async move { call(&instance, "echo").await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().json(), json!({ "op": "echo" }));
    }
}

#[tokio::test]
async fn compiled_code_that_is_damaged_or_of_another_engine_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let small = WasmConfig { instances: Some(4), ..WasmConfig::default() };
    let code = wat(CORE);
    let source = || function(Contract::WasmCore, &code, FunctionLimits::default());
    let prepare = async |config: &WasmConfig| {
        let executor = support::open(config.clone(), folder.path());
        let prepared = executor.prepare(source(), &|_| {}).await.unwrap();
        let instance = executor.start(&prepared, context()).await.map(|started| started.instance).unwrap();
        assert_eq!(call(&instance, "echo").await.json(), json!({ "op": "echo" }));
        prepared.took
    };
    assert!(prepare(&small).await > Duration::ZERO);
    assert_eq!(prepare(&small).await, Duration::ZERO, "a restart finds it");
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "cwasm") {
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&path, bytes).unwrap();
        }
    }
    assert!(prepare(&small).await > Duration::ZERO, "damaged code is not run");
    let counted = WasmConfig { fuel: 1_000_000, ..small.clone() };
    assert!(prepare(&counted).await > Duration::ZERO, "code that counts fuel is other code");
    assert_eq!(prepare(&small).await, Duration::ZERO, "both stay");
}

#[tokio::test]
async fn fuel_bounds_what_a_call_does() {
    let house = House::with(WasmConfig { fuel: 100_000, ..WasmConfig::default() });
    let instance = house.start(Contract::WasmCore, &wat(CORE)).await;
    assert!(call(&instance, "while").await.told().contains("fuel"));
    assert_eq!(call(&instance, "echo").await.json(), json!({ "op": "echo" }));
}

#[test]
fn a_namespaces_limits_can_name_the_kind() {
    assert!(Kind::FAMILIES.contains(&KIND));
}
