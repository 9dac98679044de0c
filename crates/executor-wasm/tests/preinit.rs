//! Pre-initialisation: calls begin where the initialiser ended, and hostile initialisers are refused.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    collections::BTreeSet,
    io::{Cursor, Write},
    sync::Arc,
    time::Duration,
};

use flint_executor::{CallHead, Executor, FunctionSource, Instance, PrepareError};
use flint_executor_wasm::WasmConfig;
use flint_model::{ByteSize, Contract, Function, FunctionLimits};
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use support::{AMPLE, House, Sandboxed, context, done, function, json_call, wat};

/// Memory for calls that ask for more.
const LITTLE: ByteSize = ByteSize::mib(32);

fn limits() -> FunctionLimits {
    FunctionLimits { memory: LITTLE, ..FunctionLimits::default() }
}

/// A module of contract `wasm-core` with `more` at its top level, that answers `{}` after its call has run `during`.
fn core(more: &str, during: &str) -> Vec<u8> {
    wat(&format!(
        r#"(module
            (memory (export "memory") 1)
            (data (i32.const 16) "{{}}")
            {more}
            (func (export "flint_alloc") (param i32) (result i32) (i32.const 1024))
            (func $the_call (export "flint_call") (param i32 i32) (result i64)
                {during}
                (i64.const 0x1000000002)))"#
    ))
}

async fn refused(house: &House, code: &[u8]) -> String {
    match house.prepare(function(Contract::WasmCore, code, limits())).await {
        Err(PrepareError::Code(why)) => why,
        other => panic!("not refused as code: {other:?}"),
    }
}

fn initialised(code: &[u8], adjust: impl FnOnce(&mut Function)) -> FunctionSource {
    let mut source = function(Contract::WasmCore, code, limits());
    adjust(Arc::get_mut(&mut source.function).unwrap());
    source
}

/// Counts in its initialiser, and answers with what it finds.
const COUNTING: &str = r#"(global $n (mut i32) (i32.const 0))
    (func (export "wizer-initialize") (global.set $n (i32.const 7)) (i32.store8 (i32.const 21) (i32.const 0x37)))
    (data (i32.const 20) "[0]")"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_begin_where_the_initialiser_ended() {
    let house = Sandboxed::new().await;
    let during = "(if (i32.ne (global.get $n) (i32.const 7)) (then (return (i64.const 0x1400000003))))
        (i32.store8 (i32.const 16) (i32.const 0x31)) (return (i64.const 0x1400000003))";
    let code = core(COUNTING, during);
    let answer = async |source| {
        let prepared = house.prepare(source).await.unwrap();
        let instance: Arc<dyn Instance> = house.executor.start(&prepared, context()).await.unwrap().instance;
        (done(instance.invoke(json_call("{}", AMPLE)).await).json(), prepared)
    };
    let (found, prepared) = answer(initialised(&code, |_| {})).await;
    assert_eq!(found, json!([7]));
    assert!(prepared.steps[0].contains("wizer-initialize"), "{:?}", prepared.steps);
    let (found, _) = answer(initialised(&code, |function| function.wasm.preinit = false)).await;
    assert_eq!(found, json!([0]));
    let (found, prepared) = answer(initialised(&code, |_| {})).await;
    assert_eq!((found, prepared.took), (json!([7]), Duration::ZERO), "it was found ready");
    house.end().await;
}

/// Keeps its first argument, and answers with it.
const NAMED: &str = r#"(module
    (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 1022) "[\"")
    (global $length (mut i32) (i32.const 0))
    (func (export "wizer-initialize")
        (if (call $sizes (i32.const 16) (i32.const 20)) (then unreachable))
        (if (call $args (i32.const 64) (i32.const 1024)) (then unreachable))
        (global.set $length (i32.sub (i32.load (i32.const 20)) (i32.const 1)))
        (i32.store16 (i32.add (i32.const 1024) (global.get $length)) (i32.const 0x5d22)))
    (func (export "flint_alloc") (param i32) (result i32) (i32.const 8192))
    (func (export "flint_call") (param i32 i32) (result i64)
        (i64.or (i64.const 0x3fe00000000) (i64.extend_i32_u (i32.add (global.get $length) (i32.const 4))))))"#;

async fn answer_of(house: &House, source: FunctionSource) -> Value {
    let prepared = house.prepare(source).await.unwrap();
    let instance = house.executor.start(&prepared, context()).await.unwrap().instance;
    done(instance.invoke(json_call("{}", AMPLE)).await).json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_initialiser_learns_nothing_of_the_function_that_it_runs_for() {
    let house = House::new();
    for path in ["one/secret-project-alpha", "one/beta", "two/beta"] {
        let source = initialised(&wat(NAMED), |function| function.path = path.parse().unwrap());
        assert_eq!(answer_of(&house, source).await, json!(["function"]), "{path}");
    }
    let kept = std::fs::read_dir(house.folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let images = kept.filter(|path| path.extension().is_some_and(|extension| extension == "cwasm"));
    assert_eq!(images.count(), 2, "one for each namespace");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_is_of_its_memory_limit() {
    // Takes 64 MB where it gets them, and answers whether it did.
    let more = r#"(func (export "wizer-initialize")
        (i32.store8 (i32.const 21)
            (i32.add (i32.const 0x30) (i32.ne (memory.grow (i32.const 1000)) (i32.const -1)))))
        (data (i32.const 20) "[?]")"#;
    let code = core(more, "(return (i64.const 0x1400000003))");
    let with = |megabytes| initialised(&code, |function| function.limits.memory = ByteSize::mib(megabytes));
    let house = House::new();
    for (megabytes, grown) in [(128, 1), (32, 0), (128, 1)] {
        assert_eq!(answer_of(&house, with(megabytes)).await, json!([grown]), "{megabytes} MB");
    }
    // What the last release kept for any memory limit and any namespace is not taken, and goes.
    let folder = house.folder.path();
    let names = || {
        let names = std::fs::read_dir(folder).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains(".cwasm") || name.contains(".sum")).collect::<BTreeSet<_>>()
    };
    let before = names();
    let old = |name: &String| {
        let (digest, engine) = (name.split('-').next().unwrap(), name.rsplit('-').next().unwrap());
        format!("{digest}-initialised-{engine}")
    };
    for name in &before {
        std::fs::copy(folder.join(name), folder.join(old(name))).unwrap();
    }
    assert_eq!(before.len(), 4, "two images with their checksums: {before:?}");
    house.executor.collect(&[with(32).function]).await;
    let after = names();
    assert!(after.len() == 2 && after.is_subset(&before), "{after:?} of {before:?}");
    assert!(house.prepare(with(32)).await.unwrap().took == Duration::ZERO, "it was kept");
    assert!(house.prepare(with(128)).await.unwrap().took > Duration::ZERO, "it was not");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_initialisers_are_refused_with_the_way_out() {
    let looping = core(r#"(func (export "wizer-initialize") (loop $l (br $l)))"#, "");
    // It has to be compiled by then: where the machine was too busy for that, more time is given.
    for seconds in [6, 60] {
        let brief = WasmConfig { compile_timeout: Duration::from_secs(seconds), ..WasmConfig::default() };
        let impatient = Sandboxed::with(brief, 1).await;
        let told = refused(&impatient, &looping).await;
        impatient.end().await;
        if told.contains("did not end") || seconds == 60 {
            assert!(told.contains("did not end") && told.contains("--no-preinit"), "{told}");
            break;
        }
    }
    let house = Sandboxed::new().await;
    for (initialiser, why) in [
        ("unreachable", "unreachable"),
        ("(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable", "memory"),
        ("(table.set $t (i32.const 0) (ref.null func))", "table.set"),
        ("(call $again)", "stack overflowed"),
    ] {
        let more = format!(
            r#"(table $t 1 funcref) (func $again (call $again)) (func (export "wizer-initialize") {initialiser})"#
        );
        let told = refused(&house, &core(&more, "")).await;
        assert!(told.contains(why) && told.contains("--no-preinit"), "{initialiser}: {told}");
    }
    let parameters = core(r#"(func (export "wizer-initialize") (param i32))"#, "");
    assert!(refused(&house, &parameters).await.contains("wizer-initialize"));
    // By WASI, and as Java's programs do.
    for (import, call) in [
        (
            r#""wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32))"#,
            "(call $random (i32.const 0) (i32.const 8))",
        ),
        (r#""teavmMath" "random" (func $random (result f64))"#, "(call $random)"),
    ] {
        let random = wat(&format!(
            r#"(module
            (import {import})
            (memory (export "memory") 1)
            (func (export "wizer-initialize") (drop {call}))
            (func (export "flint_alloc") (param i32) (result i32) (i32.const 1024))
            (func (export "flint_call") (param i32 i32) (result i64) (i64.const 0)))"#
        ));
        let told = refused(&house, &random).await;
        assert!(told.contains("random numbers"), "{import}: {told}");
    }
    house.end().await;
}

/// An initialiser finds its assets, in the sandbox as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_initialiser_reads_its_assets() {
    const READING: &str = r#"(module
        (import "wasi_snapshot_preview1" "path_open"
            (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 16) "in/a.json")
        (global $read (mut i32) (i32.const 0))
        (func (export "wizer-initialize")
            (if (call $path_open (i32.const 3) (i32.const 1) (i32.const 16) (i32.const 9) (i32.const 0)
                    (i64.const 2) (i64.const 2) (i32.const 0) (i32.const 64)) (then unreachable))
            (i32.store (i32.const 72) (i32.const 8192))
            (i32.store (i32.const 76) (i32.const 100))
            (if (call $fd_read (i32.load (i32.const 64)) (i32.const 72) (i32.const 1) (i32.const 80)) (then unreachable))
            (global.set $read (i32.load (i32.const 80)))
            (drop (call $fd_close (i32.load (i32.const 64)))))
        (func (export "flint_alloc") (param i32) (result i32) (i32.const 1024))
        (func (export "flint_call") (param i32 i32) (result i64)
            (i64.or (i64.const 0x200000000000) (i64.extend_i32_u (global.get $read)))))"#;
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let module = wat(READING);
    for (name, content) in [("f.wasm", module.as_slice()), ("assets/in/a.json", br#"{"a":1}"#)] {
        writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    let code = writer.finish().unwrap().into_inner();
    let house = Sandboxed::new().await;
    let instance = house.start(Contract::WasmCore, &code).await;
    let answered = done(instance.invoke(json_call("{}", AMPLE)).await);
    assert_eq!(answered.json(), json!({"a": 1}));
    house.end().await;
}

/// A command that ends well where its initialiser has run.
const INITIALISED_COMPONENT: &str = r#"(component
    (core module $m
        (memory (export "memory") 1)
        (global $n (mut i32) (i32.const 0))
        (func (export "initialize") (global.set $n (i32.const 7)) (i32.store (i32.const 64) (i32.const 9)))
        (func (export "run") (result i32)
            (i32.ne (i32.add (global.get $n) (i32.load (i32.const 64))) (i32.const 16))))
    (core instance $i (instantiate $m))
    (func $initialize (canon lift (core func $i "initialize")))
    (export "wizer-initialize" (func $initialize))
    (func $run (result (result)) (canon lift (core func $i "run")))
    (instance $command (export "run" (func $run)))
    (export "wasi:cli/run@0.2.0" (instance $command)))"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn components_are_initialised_too() {
    let house = Sandboxed::new().await;
    let code = wat(INITIALISED_COMPONENT);
    for preinit in [true, false] {
        let mut source = function(Contract::WasiCommand, &code, limits());
        Arc::get_mut(&mut source.function).unwrap().wasm.preinit = preinit;
        let prepared = house.prepare(source).await.unwrap();
        let instance = house.executor.start(&prepared, context()).await.unwrap().instance;
        let head = CallHead {
            method: Method::GET,
            path: "/".into(),
            query: String::new(),
            headers: HeaderMap::new(),
        };
        let mut call = json_call("", AMPLE);
        call.head = Some(Box::new(head));
        let ended = done(instance.invoke(call).await);
        assert_eq!(ended.result.is_ok(), preinit, "{:?}", ended.result);
    }
    house.end().await;
}
