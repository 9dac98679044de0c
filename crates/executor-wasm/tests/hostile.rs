//! Code that was made to do harm, or was harmed on its way: refused at deploy with the cause where it can be known there, ended
//! with a clear error where it cannot, and never felt by others.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    future::poll_fn,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use bytes::Bytes;
use flint_executor::{Call, CallHead, Executor, Fault, PrepareError, SlotCounts};
use flint_executor_wasm::WasmConfig;
use flint_model::{ByteSize, Contract, FunctionLimits};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::json;
use support::{AMPLE, Done, House, SHORT, context, done, function, json_call, wat};

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

async fn call(house: &House, code: &[u8], limit: Duration) -> Done {
    let instance = house.start_with(Contract::WasmCore, code, limits()).await;
    done(instance.invoke(json_call("{}", limit)).await)
}

/// Something that goes well, to see that it still does.
async fn all_is_well(house: &House) {
    assert_eq!(call(house, &core("", ""), AMPLE).await.json(), json!({}));
}

#[tokio::test]
async fn what_is_not_wasm_is_refused() {
    let house = House::new();
    for (code, why) in [
        (&b""[..], "not Wasm"),
        (b"console.log(1)", "not Wasm"),
        (b"\x7fELF\x02\x01\x01\0", "not Wasm"),
        (b"(module)", "text form"),
        (b"\0asm", "truncated"),
        (b"\0asm\x02\0\0\0", "version"),
        (b"\0asm\xff\xff\xff\xff", "version"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"PK\x03\x04 and nothing", "not a zip archive"),
    ] {
        let told = house.refused(Contract::WasmCore, code).await;
        assert!(told.contains(why), "{code:?}: {told}");
    }
    all_is_well(&house).await;
}

#[tokio::test]
async fn every_truncation_is_refused() {
    let house = House::new();
    let module = core("(table 1 funcref) (global $g (mut i32) (i32.const 0)) (start $s) (func $s)", "");
    for (contract, whole) in [(Contract::WasmCore, module), (Contract::WasiCommand, wat(HELLO_COMPONENT))] {
        let mut accepted = 0;
        for length in 0..whole.len() {
            match house.prepare(function(contract, &whole[..length], limits())).await {
                Err(PrepareError::Code(why)) => assert!(!why.is_empty()),
                Ok(_) => accepted += 1,
                Err(other) => panic!("{length}: {other}"),
            }
        }
        // What stands last can be left out: the names of functions, and before them the data.
        assert!(accepted <= 2, "{contract}: {accepted}");
    }
    all_is_well(&house).await;
}

#[tokio::test]
async fn flipped_bits_harm_nobody() {
    let house = House::new();
    let whole =
        core("(table 1 funcref) (global $g (mut i32) (i32.const 0)) (start $s) (func $s)", "(call $s)");
    for position in 8..whole.len() {
        let mut code = whole.clone();
        code[position] ^= 0x15;
        // Some are still modules, and then do something else.
        if let Ok(prepared) = house.prepare(function(Contract::WasmCore, &code, limits())).await {
            let started = house.executor.start(&prepared, context()).await.unwrap();
            let _ = started.instance.invoke(json_call("{}", SHORT)).await;
        }
    }
    all_is_well(&house).await;
}

/// A command that does nothing.
const HELLO_COMPONENT: &str = r#"(component
    (core module $m (func (export "run") (result i32) (i32.const 0)))
    (core instance $i (instantiate $m))
    (func $run (result (result)) (canon lift (core func $i "run")))
    (instance $exported (export "run" (func $run)))
    (export "wasi:cli/run@0.2.0" (instance $exported)))"#;

#[tokio::test]
async fn another_world_is_named() {
    let house = House::new();
    let (module, component) = (core("", ""), wat(HELLO_COMPONENT));
    for (contract, code, why) in [
        (Contract::WasiHttp, &module, "core module"),
        (Contract::WasiCommand, &module, "_start"),
        (Contract::WasmCore, &component, "component"),
        (Contract::WasiHttp, &component, "wasi:http/incoming-handler"),
        (Contract::WasiHttp, &wat("(component)"), "wasi:http/incoming-handler"),
        (Contract::WasiCommand, &wat("(component)"), "wasi:cli/run"),
        (Contract::WasmCore, &wat("(module)"), "memory"),
        (Contract::WasmCore, &wat(r#"(module (memory (export "memory") 1))"#), "flint_alloc"),
        (
            Contract::WasmCore,
            &wat(r#"(module (memory (export "memory") 1) (func (export "flint_alloc")))"#),
            "flint_alloc",
        ),
    ] {
        let told = house.refused(contract, code).await;
        assert!(told.contains(why), "{contract}: {told}");
    }
}

#[tokio::test]
async fn unknown_imports_are_listed() {
    let house = House::new();
    let imports = r#"(import "env" "system" (func (param i32))) (import "wasi_snapshot_preview1" "proc_exit" (func (param i32)))
        (import "host" "memory" (memory 1))"#;
    let told = house.refused(Contract::WasmCore, &core_with_import(imports)).await;
    assert!(
        told.contains("env.system") && told.contains("host.memory") && !told.contains("proc_exit"),
        "{told}"
    );
    let wrong_type = core_with_import(r#"(import "flint" "log" (func (param i64)))"#);
    let told = house.refused(Contract::WasmCore, &wrong_type).await;
    assert!(told.contains("log"), "{told}");
    let component = r#"(component
        (import "acme:vault/secrets@1.0.0" (instance (export "steal" (func))))
        (import "wasi:cli/stdin@0.2.0" (instance)))"#;
    let told = house.refused(Contract::WasiCommand, &wat(component)).await;
    assert!(told.contains("acme:vault/secrets@1.0.0") || told.contains("wasi:cli/run"), "{told}");
}

fn core_with_import(imports: &str) -> Vec<u8> {
    wat(&format!(
        r#"(module {imports}
            (func (export "flint_alloc") (param i32) (result i32) (i32.const 0))
            (func (export "flint_call") (param i32 i32) (result i64) (i64.const 0))
            (memory (export "memory") 1))"#
    ))
}

#[tokio::test]
async fn a_start_function_that_loops_ends_at_the_deadline() {
    let house = House::new();
    let looping = core("(start $s) (func $s (loop $l (br $l)))", "");
    assert_eq!(call(&house, &looping, SHORT).await.fault(), &Fault::Deadline);
    let trapping = core("(start $bad_start) (func $bad_start unreachable)", "");
    let ended = call(&house, &trapping, AMPLE).await;
    assert!(ended.told().contains("bad_start"), "{}", ended.told());
    all_is_well(&house).await;
}

#[tokio::test(flavor = "current_thread")]
async fn loops_leave_the_thread_to_others() {
    let house = Arc::new(House::new());
    let looping = core("", "(loop $l (br $l))");
    let instance = house.start_with(Contract::WasmCore, &looping, limits()).await;
    let looping = tokio::spawn(async move { done(instance.invoke(json_call("{}", SHORT)).await) });
    // One thread for all: others come to their turn only if the loop gives it up.
    all_is_well(&house).await;
    assert_eq!(looping.await.unwrap().fault(), &Fault::Deadline);
}

#[test]
fn code_is_read_where_no_call_waits_for_it() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let (house, code) = (House::new(), core("", ""));
        drop(house.prepare(function(Contract::WasmCore, &code, limits())).await.unwrap());
        // From here on the only thread for such work has some.
        let (release, held) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || held.recv());
        let mut preparing = Box::pin(house.prepare(function(Contract::WasmCore, &code, limits())));
        let done = poll_fn(|cx| Poll::Ready(preparing.as_mut().poll(cx).is_ready())).await;
        assert!(!done, "it was read by the thread of calls");
        drop(release);
        assert!(busy.await.unwrap().is_err());
        preparing.await.unwrap();
    });
}

/// A program that answers with a list without an end, so many bytes of it at a time.
fn endless(piece: usize) -> Vec<u8> {
    wat(&format!(
        r#"(module
            (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 2)
            (data (i32.const 16) "[")
            (func $put (param $at i32) (param $length i32)
                (i32.store (i32.const 0) (local.get $at))
                (i32.store (i32.const 4) (local.get $length))
                (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
            (func (export "_start") (local $n i32)
                (call $put (i32.const 16) (i32.const 1))
                (loop $fill
                    (i32.store16 (i32.add (i32.const 65536) (local.get $n)) (i32.const 0x2c31))
                    (local.set $n (i32.add (local.get $n) (i32.const 2)))
                    (br_if $fill (i32.lt_u (local.get $n) (i32.const {piece}))))
                (loop $more (call $put (i32.const 65536) (i32.const {piece})) (br $more))))"#
    ))
}

#[tokio::test(flavor = "current_thread")]
async fn answers_without_an_end_leave_the_thread_to_others() {
    let house = House::new();
    for piece in [2, 32 << 10] {
        let instance = house.start_with(Contract::WasiCommand, &endless(piece), limits()).await;
        let writing = tokio::spawn(async move { done(instance.invoke(json_call("", AMPLE)).await) });
        tokio::task::yield_now().await;
        all_is_well(&house).await;
        assert!(!writing.is_finished(), "it had the thread to its end");
        writing.abort();
    }
}

#[tokio::test]
async fn memory_bombs_stay_within_the_limit() {
    let house = House::new();
    let growing =
        core("", "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable");
    let ended = call(&house, &growing, AMPLE).await;
    assert_eq!(ended.fault(), &Fault::OutOfMemory);
    assert!(ended.end.usage.memory_peak.unwrap() <= LITTLE);
    let at_once = core("", "(if (i32.eq (memory.grow (i32.const 65535)) (i32.const -1)) (then unreachable))");
    assert_eq!(call(&house, &at_once, AMPLE).await.fault(), &Fault::OutOfMemory);
    let filling = core(
        "",
        "(loop $l (memory.fill (i32.const 0) (i32.const 1) (i32.mul (memory.size) (i32.const 65536)))
            (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable",
    );
    assert_eq!(call(&house, &filling, AMPLE).await.fault(), &Fault::OutOfMemory);
    let told = refused(&house, &wat(r#"(module (memory (export "memory") 65536))"#)).await;
    assert!(told.contains("memory"), "{told}");
    all_is_well(&house).await;
}

async fn refused(house: &House, code: &[u8]) -> String {
    match house.prepare(function(Contract::WasmCore, code, limits())).await {
        Err(PrepareError::Code(why)) => why,
        other => panic!("not refused as code: {other:?}"),
    }
}

#[tokio::test]
async fn table_bombs_stay_within_the_limit() {
    let house = House::new();
    let growing = core(
        "(table $t 1 funcref)",
        "(loop $l (br_if $l (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1))))
         (if (i32.gt_u (table.size $t) (i32.const 20000)) (then unreachable))",
    );
    assert_eq!(call(&house, &growing, AMPLE).await.json(), json!({}));
    let large = refused(&house, &core("(table 10000000 funcref)", "")).await;
    assert!(
        large.contains("10000000 elements, more than the 20000 allowed (wasm.table_elements)"),
        "{large}"
    );
    // What the pool refuses is told without where it was kept.
    let folder = house.folder.path().to_str().unwrap();
    let memories = refused(&house, &core("(memory 1)", "")).await;
    assert!(memories.contains("memor") && !memories.contains(folder), "{memories}");
    let many = "(table 1 funcref)".repeat(1000);
    let many = refused(&house, &core(&many, "")).await;
    assert!(many.contains("table"), "{many}");
    all_is_well(&house).await;
}

#[tokio::test]
async fn deep_recursion_ends_in_the_guest() {
    let house = House::new();
    for body in [
        "(call $deep (i64.add (local.get 0) (i64.const 1)))",
        // Frames of many locals, so that the guard is reached in large steps.
        "(call $deep (i64.add (local.get 0) (local.get 400)))",
    ] {
        let locals = "(local i64)".repeat(500);
        let deep = core(
            &format!("(func $deep (param i64) (result i64) {locals} {body})"),
            "(drop (call $deep (i64.const 0)))",
        );
        let ended = call(&house, &deep, AMPLE).await;
        assert!(
            ended.told().contains("stack overflowed") && ended.told().contains("deep"),
            "{}",
            ended.told()
        );
    }
    all_is_well(&house).await;
}

#[tokio::test]
async fn traps_are_told_with_the_functions_names() {
    let house = House::new();
    for (during, why) in [
        ("unreachable", "unreachable"),
        ("(drop (i32.div_s (i32.const 1) (i32.const 0)))", "divide by zero"),
        ("(drop (i32.load (i32.const -4)))", "out of bounds memory access"),
        ("(drop (i32.trunc_f64_s (f64.const nan)))", "conversion"),
        ("(call_indirect $t (i32.const 7))", "undefined element"),
        ("(call_indirect $t (i32.const 0))", "uninitialized element"),
    ] {
        let ended = call(&house, &core("(table $t 1 funcref)", during), AMPLE).await;
        assert!(
            ended.told().contains(why) && ended.told().contains("the_call"),
            "{during}: {}",
            ended.told()
        );
    }
}

#[tokio::test]
async fn answers_outside_the_memory_are_no_answers() {
    let house = House::new();
    for answer in
        ["-1", "0xffffffff00000001", "0x00010000_00000001", "0x0000000f_ffffffff", "0x7fffffff_7fffffff"]
    {
        let code = core("", &format!("(return (i64.const {answer}))"));
        let ended = call(&house, &code, AMPLE).await;
        assert!(
            matches!(ended.fault(), Fault::Developer { .. } | Fault::ResultTooLarge { .. }),
            "{answer}: {:?}",
            ended.fault()
        );
    }
    let alloc = wat(r#"(module (memory (export "memory") 1)
            (func (export "flint_alloc") (param i32) (result i32) (i32.const -2))
            (func (export "flint_call") (param i32 i32) (result i64) (i64.const 0)))"#);
    assert!(call(&house, &alloc, AMPLE).await.told().contains("outside the memory"));
}

#[tokio::test]
async fn huge_data_is_refused_or_bounded() {
    let house = House::with(WasmConfig { max_module: ByteSize::mib(4), ..WasmConfig::default() });
    let outside = core(r#"(data (i32.const 65530) "more than what is left")"#, "");
    let ended = call(&house, &outside, AMPLE).await;
    assert!(ended.told().contains("out of bounds"), "{}", ended.told());
    let text = "x".repeat(5 << 20);
    let told = house.refused(Contract::WasmCore, &core(&format!(r#"(data "{text}")"#), "")).await;
    assert!(told.contains("wasm.max_module"), "{told}");
    // More than the function's memory, though the module itself is small.
    let told =
        refused(&house, &wat(r#"(module (memory (export "memory") 1024) (data (i32.const 67108000) "x"))"#))
            .await;
    assert!(told.contains("limit"), "{told}");
    let segments: String = (0..100_001).map(|_| r#"(data "")"#).collect();
    house.refused(Contract::WasmCore, &core(&segments, "")).await;
    all_is_well(&house).await;
}

#[tokio::test]
async fn a_component_of_200_mb_is_refused_by_its_size() {
    let house = House::new();
    let mut code = wat(HELLO_COMPONENT);
    let size: usize = 200 << 20;
    // A custom section that fills it.
    code.push(0);
    let mut length = size;
    while length >= 0x80 {
        code.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    code.push(length as u8);
    code.resize(code.len() + size, 1);
    let told = house.refused(Contract::WasiCommand, &code).await;
    assert!(told.contains("wasm.max_module") && told.contains("bytes"), "{told}");
}

#[tokio::test]
async fn code_that_compiles_for_ever_is_given_up() {
    let house =
        House::with(WasmConfig { compile_timeout: Duration::from_millis(1), ..WasmConfig::default() });
    let many: String = (0..20_000).map(|n| format!("(func (result i32) (i32.const {n}))")).collect();
    let told = house.refused(Contract::WasmCore, &core(&many, "")).await;
    assert!(told.contains("wasm.compile_timeout"), "{told}");
}

#[tokio::test]
async fn machine_code_of_others_is_never_run() {
    let house = House::new();
    let engine = wasmtime::Engine::default();
    let mut foreign = engine.precompile_module(&core("", "")).unwrap();
    for _ in 0..2 {
        let told = house.refused(Contract::WasmCore, &foreign).await;
        assert!(told.contains("compiled ahead"), "{told}");
        // The second time with another machine's name in it.
        for place in 0..foreign.len() - 6 {
            if foreign[place..].starts_with(b"x86_64") {
                foreign[place..place + 6].copy_from_slice(b"riscv6");
            }
        }
    }
    // Nor what somebody put into the cache.
    all_is_well(&house).await;
    let compiled: Vec<_> = std::fs::read_dir(house.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cwasm"))
        .collect();
    assert_eq!(compiled.len(), 1);
    std::fs::write(&compiled[0], &foreign).unwrap();
    let again =
        support::open(WasmConfig { instances: Some(4), ..WasmConfig::default() }, house.folder.path());
    all_is_well(&House { executor: again, folder: tempfile::tempdir().unwrap() }).await;
    assert_ne!(std::fs::read(&compiled[0]).unwrap(), foreign, "it was compiled again");
}

#[tokio::test]
async fn many_bombs_at_once_leave_room_for_others() {
    let house = Arc::new(House::with(WasmConfig { instances: Some(8), ..WasmConfig::default() }));
    let bomb = core("", "(loop $l (drop (memory.grow (i32.const 1))) (br $l))");
    let instance = house.start_with(Contract::WasmCore, &bomb, limits()).await;
    let call = |limit| -> Call { json_call(Bytes::from_static(b"{}"), limit) };
    let bombs: Vec<_> = (0..8)
        .map(|_| {
            let instance = Arc::clone(&instance);
            let call = call(SHORT);
            tokio::spawn(async move { done(instance.invoke(call).await) })
        })
        .collect();
    // All places are taken; a call waits for one until its own deadline.
    all_is_well(&house).await;
    for bomb in bombs {
        let ended = bomb.await.unwrap();
        assert!(matches!(ended.fault(), Fault::Deadline | Fault::OutOfMemory), "{:?}", ended.fault());
    }
    // Places are given back as soon as the guests have noticed their end.
    let patience = Instant::now() + AMPLE;
    while house.executor.live() > 0 {
        assert!(Instant::now() < patience, "{} places were not given back", house.executor.live());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A program with so many memories, that answers with nothing after it has run `during`.
fn with_memories(count: usize, during: &str) -> Vec<u8> {
    let memories = "(core instance (instantiate $memory))".repeat(count);
    wat(&format!(
        r#"(component
            (core module $memory (memory 1))
            (core module $program (func (export "run") (result i32) {during} (i32.const 0)))
            {memories}
            (core instance $i (instantiate $program))
            (func $run (result (result)) (canon lift (core func $i "run")))
            (instance $exported (export "run" (func $run)))
            (export "wasi:cli/run@0.2.0" (instance $exported)))"#
    ))
}

#[tokio::test]
async fn who_has_many_memories_takes_as_many_places() {
    let house = House::with(WasmConfig { instances: Some(4), ..WasmConfig::default() });
    let start = async |during: &str| {
        house.start_with(Contract::WasiCommand, &with_memories(3, during), limits()).await
    };
    let (looping, quick) = (start("(loop $l (br $l))").await, start("").await);
    let looping = tokio::spawn(async move { done(looping.invoke(json_call("", SHORT)).await) });
    tokio::task::yield_now().await;
    // One place is left, for whom one is enough; another of these waits.
    all_is_well(&house).await;
    let waited = done(quick.invoke(json_call("", AMPLE)).await);
    assert!(waited.result.is_ok(), "{waited:?}");
    assert_eq!(looping.await.unwrap().fault(), &Fault::Deadline);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_pool_is_counted_and_refuses_with_its_bound() {
    let house = House::with(WasmConfig { instances: Some(1), ..WasmConfig::default() });
    assert_eq!(house.executor.slots(), None, "there is no pool before there is a function");
    let looping = house.start_with(Contract::WasmCore, &core("", "(loop $l (br $l))"), limits()).await;
    let empty = house.executor.slots().unwrap();
    assert_eq!((empty.total, empty.bound, empty.in_use, empty.warm), (1, "configuration", 0, 0));
    let another = Arc::clone(&looping);
    let holding = tokio::spawn(async move { done(another.invoke(json_call("{}", AMPLE)).await) });
    let counts = async |until: fn(&SlotCounts) -> bool| {
        let patience = Instant::now() + AMPLE;
        loop {
            let counts = house.executor.slots().unwrap();
            if until(&counts) {
                return counts;
            }
            assert!(Instant::now() < patience, "{counts:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let full = counts(|counts| counts.in_use == 1).await;
    assert_eq!((full.live, full.waited, full.refused), (1, 0, 0));
    let refused = done(looping.invoke(json_call("{}", SHORT)).await);
    let Fault::Platform { cause } = refused.fault() else { panic!("{:?}", refused.fault()) };
    assert!(cause.contains("all 1 Wasm instances") && cause.contains("wasm.instances"), "{cause}");
    let crowded = house.executor.slots().unwrap();
    assert_eq!((crowded.waited, crowded.refused), (1, 1));
    holding.abort();
    let after = counts(|counts| counts.live == 0 && counts.in_use == 0).await;
    assert_eq!(after.warm, 1, "the slot was used, and is kept for the next");
}

/// Headers that a server passes on, but that no well-meaning client sends.
fn hostile_headers() -> Vec<(&'static str, HeaderMap)> {
    let mut all = Vec::new();
    let mut add = |what, fill: &dyn Fn(&mut HeaderMap)| {
        let mut headers = HeaderMap::new();
        fill(&mut headers);
        all.push((what, headers));
    };
    let value = |bytes: &[u8]| HeaderValue::from_bytes(bytes).unwrap();
    add("no text", &|headers| {
        headers.insert("x-bytes", value(&(0x80..=0xff).collect::<Vec<_>>()));
        headers.insert("host", value(b"\xff\xfe"));
    });
    add("many", &|headers| {
        for number in 0..5000 {
            headers.insert(HeaderName::try_from(format!("x-{number}")).unwrap(), value(b"v"));
        }
    });
    add("one name", &|headers| {
        for _ in 0..5000 {
            headers.append("x", value(b"v"));
        }
    });
    add("long", &|headers| {
        headers.insert("x-long", value(&vec![b'v'; 1 << 20]));
    });
    add("two lengths", &|headers| {
        headers.append("content-length", value(b"5"));
        headers.append("content-length", value(b"7"));
        headers.append("transfer-encoding", value(b"chunked"));
    });
    add("wrong length", &|headers| {
        headers.insert("content-length", value(b"-1"));
    });
    add("hop by hop", &|headers| {
        headers.insert("connection", value(b"x-secret, close"));
        headers.insert("upgrade", value(b"h2c"));
        headers.insert("expect", value(b"100-continue"));
    });
    add("names of variables", &|headers| {
        headers.insert("proxy", value(b"http://attacker/"));
        headers.insert("__ow_api_key", value(b"stolen"));
    });
    all
}

#[tokio::test]
async fn hostile_headers_harm_nobody() {
    let house = House::new();
    let component = wat(include_str!("modules/http.wat"));
    let http = house.start(Contract::WasiHttp, &component).await;
    let command = house.start(Contract::WasiCommand, &wat(HELLO_COMPONENT)).await;
    for (what, headers) in hostile_headers() {
        for (instance, path) in [(&http, "/hello"), (&http, "/%00%ff/../.."), (&command, "/")] {
            let head = CallHead {
                method: Method::from_bytes(b"BREW").unwrap(),
                path: path.to_owned(),
                query: "a=%00&b=\u{e4}".to_owned(),
                headers: headers.clone(),
            };
            let call = Call { head: Some(Box::new(head)), ..json_call("", AMPLE) };
            let ended = done(instance.invoke(call).await);
            // Taken or refused; a fault of the platform would be the caller's to make.
            if let Err(fault) = &ended.result {
                assert!(matches!(fault, Fault::Developer { .. }), "{what} {path}: {fault:?}");
            }
        }
    }
    all_is_well(&house).await;
}
