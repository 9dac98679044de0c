//! Compiling in sandboxes: what takes too much is ended with a clear error, others go on, and nothing stays behind.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{sync::Arc, time::Duration};

use flint_executor::{Executor, FunctionSource, PrepareError};
use flint_executor_wasm::WasmConfig;
use flint_model::{ByteSize, Contract, FunctionLimits};
use serde_json::json;
use support::{AMPLE, Sandboxed, done, function, json_call, wat};

/// A number as Wasm writes it.
fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id][..], &leb(content.len()), content].concat()
}

/// A module of one function that takes the compiler long, and much memory: each of `ifs` conditions may change all of `locals` variables.
fn intricate(ifs: usize, locals: usize) -> Vec<u8> {
    let mut body = [&[1][..], &leb(locals), &[0x7f]].concat();
    for _ in 0..ifs {
        body.extend([0x20, 0, 0x04, 0x40]); // local.get 0, if
        for local in (1..=locals).map(leb) {
            body.extend([0x20]); // local.get
            body.extend(&local);
            body.extend([0x20, 0, 0x6a, 0x21]); // local.get 0, i32.add, local.set
            body.extend(&local);
        }
        body.push(0x0b);
    }
    body.push(0x0b);
    let code = [&leb(1)[..], &leb(body.len()), &body].concat();
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &[1, 0x60, 1, 0x7f, 0]), // (func (param i32))
        section(3, &[1, 0]),
        section(10, &code),
    ]
    .concat()
}

/// Longer than any of these tests waits for it.
fn endless() -> Vec<u8> {
    intricate(8000, 100)
}

fn echo(number: u32) -> Vec<u8> {
    wat(&format!(
        r#"(module
            (memory (export "memory") 1)
            (data (i32.const 16) "[{number}]")
            (func (export "flint_alloc") (param i32) (result i32) (i32.const 1024))
            (func (export "flint_call") (param i32 i32) (result i64) (i64.const 0x1000000003)))"#
    ))
}

fn of_namespace(namespace: &str, code: &[u8]) -> FunctionSource {
    let mut source = function(Contract::WasmCore, code, FunctionLimits::default());
    Arc::get_mut(&mut source.function).unwrap().path = format!("{namespace}/wasm").parse().unwrap();
    source
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_takes_too_long_is_ended_while_others_are_deployed() {
    // On a quick host it takes 2 GB before the time is over.
    let config = WasmConfig {
        compile_timeout: Duration::from_secs(10),
        compile_memory: ByteSize::mib(8 << 10),
        ..WasmConfig::default()
    };
    let house = Sandboxed::with(config, 2).await;
    let long = {
        let house = Arc::clone(&house.house);
        tokio::spawn(async move { house.prepare(of_namespace("long", &endless())).await })
    };
    house.until_sandboxes(1).await;
    let mut beside = 0;
    for number in 1..4 {
        let instance = house.start(Contract::WasmCore, &echo(number)).await;
        assert_eq!(done(instance.invoke(json_call("{}", AMPLE)).await).json(), json!([number]));
        beside += u32::from(!long.is_finished());
    }
    // On a busy machine not all of them may have come before its time was over.
    assert!(beside > 0, "the others did not wait for it");
    let Err(PrepareError::Code(why)) = long.await.unwrap() else { panic!("it was compiled") };
    assert!(why.contains("took longer than 10 s (wasm.compile_timeout)"), "{why}");
    assert_eq!(house.sandboxes().await, 0, "it does not go on behind");
    // Who repeats it gets the same answer, without the same work.
    let Err(PrepareError::Code(why)) = house.prepare(of_namespace("long", &endless())).await else {
        panic!("it was compiled")
    };
    assert!(why.contains("was not built again"), "{why}");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_takes_too_much_memory_is_refused() {
    let config = WasmConfig { compile_memory: ByteSize::mib(128), ..WasmConfig::default() };
    let house = Sandboxed::with(config, 1).await;
    let told = house.refused(Contract::WasmCore, &endless()).await;
    assert!(told.contains("128 MB of memory (wasm.compile_memory)"), "{told}");
    let instance = house.start(Contract::WasmCore, &echo(1)).await;
    assert_eq!(done(instance.invoke(json_call("{}", AMPLE)).await).json(), json!([1]));
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deploy_that_is_given_up_ends_its_compiler() {
    let house = Sandboxed::new().await;
    let deploying = {
        let house = Arc::clone(&house.house);
        tokio::spawn(async move { house.prepare(of_namespace("gone", &endless())).await })
    };
    house.until_sandboxes(1).await;
    deploying.abort();
    house.until_sandboxes(0).await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_code_is_refused_in_the_compilers_words() {
    let house = Sandboxed::new().await;
    let told = house.refused(Contract::WasmCore, b"\0asm\x01\0\0\0\x01\x05").await;
    assert!(told.starts_with("this is not valid Wasm: ") && told.contains("unexpected end"), "{told}");
    let wrong = [b"\0asm\x01\0\0\0".to_vec(), section(1, &[1, 0x60, 0, 1, 0x7f]), section(3, &[1, 0])];
    let no_result = [wrong.concat(), section(10, &[1, 2, 0, 0x0b])].concat();
    let told = house.refused(Contract::WasmCore, &no_result).await;
    assert!(told.contains("type mismatch"), "{told}");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_crash_left_half_written_is_cleared_away() {
    let house = Sandboxed::new().await;
    let folder = house.folder.path().join("wasm");
    std::fs::create_dir(&folder).unwrap();
    let half = folder.join("abc-def.cwasm.17");
    std::fs::write(&half, "half").unwrap();
    house.start(Contract::WasmCore, &echo(1)).await;
    assert!(!half.exists());
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn components_of_both_releases_fit_their_engines() {
    let house = Sandboxed::with(WasmConfig { http_0_3: true, ..WasmConfig::default() }, 1).await;
    for component in [include_str!("modules/http.wat"), include_str!("modules/http_0_3.wat")] {
        let instance = house.start(Contract::WasiHttp, &wat(component)).await;
        let answered = done(instance.invoke(json_call("{}", AMPLE)).await);
        assert_eq!(answered.json(), json!({ "hello": "wasm" }));
    }
    // What neither engine compiled goes, what either did stays.
    let compiled = || std::fs::read_dir(house.folder.path().join("wasm")).unwrap().count();
    let before = compiled();
    assert!(before >= 4, "two of each");
    house.executor.collect(&[]).await;
    assert!(compiled() < before);
    house.end().await;
}
