//! Code that was made to do harm, or was harmed on its way: refused at deploy with the cause where it can be known there, ended
//! with a clear error where it cannot, and never felt by others.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

use bytes::Bytes;
use flint_executor::{Call, Executor, Fault, PrepareError};
use flint_executor_wasm::WasmConfig;
use flint_model::{ByteSize, Contract, FunctionLimits};
use futures_util::future::select_all;
use serde_json::json;
use support::{
    AMPLE, Done, HELLO_COMPONENT, House, LITTLE, SHORT, all_is_well, context, core, done, function,
    json_call, limits, wat,
};

async fn call(house: &House, code: &[u8], limit: Duration) -> Done {
    let instance = house.start_with(Contract::WasmCore, code, limits()).await;
    done(instance.invoke(json_call("{}", limit)).await)
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

/// A module that draws random numbers without a loop, in a function that begins once.
fn straight_on() -> Vec<u8> {
    let calls = "(drop (call $random (i32.const 0) (i32.const 65536)))".repeat(50_000);
    wat(&format!(
        r#"(module
            (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
            (memory (export "memory") 1)
            (func (export "flint_alloc") (param i32) (result i32) (i32.const 1024))
            (func (export "flint_call") (param i32 i32) (result i64) {calls} (i64.const 0)))"#
    ))
}

#[tokio::test(flavor = "current_thread")]
async fn calls_of_the_host_without_a_loop_leave_the_thread_to_others() {
    let house = Arc::new(House::new());
    let instance = house.start_with(Contract::WasmCore, &straight_on(), limits()).await;
    let calling = tokio::spawn(async move { done(instance.invoke(json_call("{}", SHORT)).await) });
    // It would have the thread to its end, whatever its deadline.
    all_is_well(&house).await;
    assert_eq!(calling.await.unwrap().fault(), &Fault::Deadline);
    house.until_no_guest().await;
}

#[test]
fn code_is_read_where_no_call_waits_for_it() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let (house, code) = (House::new(), core("", ""));
        drop(house.prepare(function(Contract::WasmCore, &code, limits())).await.unwrap());
        // Of a version of WASI that is off, as its exports say.
        let component = wat(r#"(component
                (component $c)
                (instance $i (instantiate $c))
                (export "wasi:http/handler@0.3.0" (instance $i)))"#);
        for (contract, code, is_taken) in
            [(Contract::WasmCore, code, true), (Contract::WasiHttp, component, false)]
        {
            // From here on the only thread for such work has some.
            let (release, held) = std::sync::mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || held.recv());
            let mut preparing = Box::pin(house.prepare(function(contract, &code, limits())));
            let done = poll_fn(|cx| Poll::Ready(preparing.as_mut().poll(cx).is_ready())).await;
            assert!(!done, "it was read by the thread of calls");
            drop(release);
            assert!(busy.await.unwrap().is_err());
            assert_eq!(preparing.await.is_ok(), is_taken);
        }
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

#[tokio::test]
async fn memory_bombs_of_many_instances_share_a_budget() {
    let memory = Some(ByteSize::mib(64));
    let house = Arc::new(House::with(WasmConfig { memory, ..WasmConfig::default() }));
    let grow = |pages: usize, then: &str| {
        core(
            "",
            &format!(
                "(if (i32.eq (memory.grow (i32.const {pages})) (i32.const -1)) (then unreachable)) {then}"
            ),
        )
    };
    // Each 20 MiB of the 48 that the namespace may have.
    let holding = house.start_with(Contract::WasmCore, &grow(319, "(loop $l (br $l))"), limits()).await;
    let held = (0..3).map(|_| {
        let (holding, call) = (Arc::clone(&holding), json_call("{}", AMPLE));
        tokio::spawn(async move { done(holding.invoke(call).await) })
    });
    let (refused, _, held) = select_all(held).await;
    let refused = refused.unwrap();
    let Fault::Platform { cause } = refused.fault() else { panic!("{refused:?}") };
    assert!(cause.contains("pool.memory"), "{cause}");
    for held in held {
        assert!(!held.is_finished(), "it has what it asked for");
        held.abort();
    }
    house.until_no_guest().await;
    // All of it has come back; and memory that an instance begins with counts like the rest.
    let growing = house.start_with(Contract::WasmCore, &grow(400, ""), limits()).await;
    assert_eq!(done(growing.invoke(json_call("{}", AMPLE)).await).json(), json!({}));
    let own = FunctionLimits { memory: ByteSize::mib(64), ..limits() };
    let large = r#"(module (memory (export "memory") 800)
        (func (export "flint_alloc") (param i32) (result i32) (i32.const 1024))
        (func (export "flint_call") (param i32 i32) (result i64) (i64.const 0)))"#;
    let large = house.start_with(Contract::WasmCore, &wat(large), own).await;
    let large = done(large.invoke(json_call("{}", AMPLE)).await);
    assert!(matches!(large.fault(), Fault::Platform { .. }), "{large:?}");
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
    let module = format!("(core module $tables {})", "(table 1 funcref)".repeat(3));
    let modules = "(core instance (instantiate $tables))".repeat(11);
    let component = HELLO_COMPONENT.replacen("(component", &format!("(component {module} {modules}"), 1);
    let many = house.refused(Contract::WasiCommand, &wat(&component)).await;
    assert!(many.contains("33 tables, for which an instance takes 17 places"), "{many}");
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
async fn long_messages_are_told_in_part() {
    let house = House::new();
    let fill = "(memory.fill (i32.const 4096) (i32.const 120) (i32.const 60000))";
    let code = |import: &str, then: &str| {
        wat(&format!(
            r#"(module
                {import}
                (memory (export "memory") 1)
                (func (export "flint_alloc") (param i32) (result i32) (i32.const 1024))
                (func (export "flint_call") (param i32 i32) (result i64) {fill} {then} unreachable))"#
        ))
    };
    for code in [
        code(
            r#"(import "flint" "fail" (func $fail (param i32 i32)))"#,
            "(call $fail (i32.const 4096) (i32.const 60000))",
        ),
        code(
            r#"(import "flint" "log" (func $log (param i32 i32 i32)))"#,
            "(call $log (i32.const 2) (i32.const 4096) (i32.const 60000))",
        ),
    ] {
        let ended = call(&house, &code, AMPLE).await;
        let told = ended.told();
        assert!(told.contains("xxx…") && told.len() < 6000, "{} bytes: {told}", told.len());
    }
    let name = "x".repeat(60_000);
    let told = house
        .refused(Contract::WasmCore, &core_with_import(&format!(r#"(import "env" "{name}" (func))"#)))
        .await;
    assert!(told.contains("env.xxx") && told.len() < 6000, "{} bytes: {told}", told.len());
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
    for first in 0..10 {
        let numbers = first..first + 20_000;
        let many: String = numbers.map(|n| format!("(func (result i32) (i32.const {n}))")).collect();
        match house.prepare(function(Contract::WasmCore, &core(&many, ""), limits())).await {
            Err(PrepareError::Code(told)) => {
                assert!(told.contains("wasm.compile_timeout"), "{told}");
                return;
            }
            // The thread that was to give it up stood still until it was compiled.
            Ok(_) => {}
            Err(other) => panic!("not refused as code: {other:?}"),
        }
    }
    panic!("it was never given up");
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
    // Of which one namespace has eight.
    let house = Arc::new(House::with(WasmConfig { instances: Some(10), ..WasmConfig::default() }));
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
    // All places of its namespace are taken; a call waits for one until its own deadline.
    all_is_well(&house).await;
    for bomb in bombs {
        let ended = bomb.await.unwrap();
        assert!(matches!(ended.fault(), Fault::Deadline | Fault::OutOfMemory), "{:?}", ended.fault());
    }
    house.until_no_guest().await;
}
