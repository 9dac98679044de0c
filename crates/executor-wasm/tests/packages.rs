//! Packages with assets: what these take of the disk, on whose account, and how long they stay.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    io::{Cursor, Write},
    path::Path,
    sync::Arc,
};

use flint_executor::{Executor, FunctionSource, PrepareError, Prepared};
use flint_executor_wasm::WasmConfig;
use flint_model::{ByteSize, Contract, FunctionLimits};
use flint_runtimes::HouseConfig;
use serde_json::{Value, json};
use support::{AMPLE, House, Sandboxed, context, done, function, json_call, wat};

const READER: &str = include_str!("modules/reader.wat");
/// What file systems give out space by.
const BLOCK: u64 = 4096;
/// What the assets of a package take: a file and its folder.
const ASSETS: u64 = 2 * BLOCK;

/// A function that reads its asset.
fn package(namespace: &str, number: u32) -> FunctionSource {
    let (reader, asset) = (wat(READER), format!(r#"{{"n":{number}}}"#));
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in [("f.wasm", reader.as_slice()), ("assets/n.json", asset.as_bytes())] {
        writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    let code = writer.finish().unwrap().into_inner();
    let mut source = function(Contract::WasmCore, &code, FunctionLimits::default());
    Arc::get_mut(&mut source.function).unwrap().path = format!("{namespace}/f{number}").parse().unwrap();
    source
}

/// The same without assets.
fn module(namespace: &str, number: u8) -> FunctionSource {
    let mut code = wat(READER);
    // A section that means nothing makes it code of its own.
    code.extend([0, 3, 1, b'n', number]);
    let mut source = function(Contract::WasmCore, &code, FunctionLimits::default());
    Arc::get_mut(&mut source.function).unwrap().path = format!("{namespace}/m{number}").parse().unwrap();
    source
}

/// What its machine code takes of the disk, with the checksum.
async fn machine_code() -> u64 {
    let wasm = tempfile::tempdir().unwrap();
    let house = Sandboxed::over(Some(wasm.path()), WasmConfig::default(), |_| {}).await;
    house.prepare(module("guest", 1)).await.unwrap();
    house.end().await;
    let [length] = compiled(wasm.path())[..] else { panic!("one is compiled") };
    (length.div_ceil(BLOCK) + 1) * BLOCK
}

/// How long each file of machine code is.
fn compiled(wasm: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(wasm).unwrap().map(|entry| entry.unwrap());
    let machine_code = entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "cwasm"));
    machine_code.map(|entry| entry.metadata().unwrap().len()).collect()
}

/// As the server shows sizes.
fn shown(bytes: u64) -> ByteSize {
    let size = ByteSize::bytes(bytes);
    if size.as_mib() == 0 { size } else { ByteSize::mib(size.as_mib()) }
}

async fn read(house: &House, prepared: &Arc<Prepared>) -> Value {
    let instance = house.executor.start(prepared, context()).await.map(|started| started.instance).unwrap();
    let answer = done(instance.invoke(json_call(r#""n.json""#, AMPLE)).await).json();
    instance.stop().await;
    answer
}

/// How many packages have their assets there.
fn unpacked(wasm: &Path) -> usize {
    std::fs::read_dir(wasm.join("assets")).unwrap().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_fill_the_disk_is_refused_and_what_is_there_runs_on() {
    let wasm = tempfile::tempdir().unwrap();
    let [first, second] = [1, 2].map(|number| package("guest", number));
    let house = Sandboxed::over(Some(wasm.path()), WasmConfig::default(), |_| {}).await;
    house.executor.admits(&first.function).unwrap();
    house.prepare(first.clone()).await.unwrap();
    house.end().await;

    // Another life of the server, whose disk has become too small.
    let full = |builds: &mut HouseConfig| builds.min_free = Some(ByteSize::bytes(u64::MAX));
    let house = Sandboxed::over(Some(wasm.path()), WasmConfig::default(), full).await;
    house.executor.open().await.unwrap();
    let module = function(Contract::WasmCore, &wat(READER), FunctionLimits::default());
    for new in [second, module] {
        for refused in [
            house.executor.admits(&new.function).unwrap_err(),
            house.prepare(new.clone()).await.map(|_| ()).unwrap_err(),
        ] {
            assert!(matches!(refused, PrepareError::NoRoom(_)), "{refused:?}");
            assert!(refused.to_string().contains("prepare.min_free"), "{refused}");
        }
    }
    house.executor.admits(&first.function).unwrap();
    let prepared = house.prepare(first).await.unwrap();
    assert_eq!(read(&house, &prepared).await, json!({ "n": 1 }));
    assert_eq!(unpacked(wasm.path()), 1, "nothing is left of what was refused");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_that_has_as_much_as_it_may_is_refused_and_others_deploy() {
    let deploy = async |house: &Sandboxed, namespace: &str, number: u32| {
        house.prepare(package(namespace, number)).await.unwrap()
    };
    let two = 2 * (machine_code().await + ASSETS);
    let refused = async |house: &Sandboxed, namespace: &str, number: u32| {
        let Err(PrepareError::OverQuota(said)) = house.prepare(package(namespace, number)).await else {
            panic!("{namespace}/f{number} was not refused");
        };
        assert!(said.contains(&format!("namespace {namespace} takes {}", shown(two))), "{said}");
        assert!(said.contains(&format!("more than the {}", shown(two + BLOCK))), "{said}");
        assert!(said.contains("prepare.per_namespace"), "{said}");
    };
    let wasm = tempfile::tempdir().unwrap();
    // Room for two, and not for the assets of a third.
    let small = |builds: &mut HouseConfig| builds.per_namespace = ByteSize::bytes(two + BLOCK);
    let house = Sandboxed::over(Some(wasm.path()), WasmConfig::default(), small).await;
    // As a server does when it starts.
    house.executor.collect(&[]).await;
    deploy(&house, "guest", 1).await;
    deploy(&house, "guest", 2).await;
    refused(&house, "guest", 3).await;
    refused(&house, "guest", 3).await;
    assert_eq!(unpacked(wasm.path()), 2, "nothing is left of what was refused");
    // What is there already is another's too, and counts for each.
    deploy(&house, "other", 3).await;
    deploy(&house, "other", 1).await;
    assert_eq!(unpacked(wasm.path()), 3);
    refused(&house, "other", 2).await;
    refused(&house, "guest", 3).await;
    deploy(&house, "guest", 1).await;
    house.end().await;

    // Another life of the server.
    let house = Sandboxed::over(Some(wasm.path()), WasmConfig::default(), small).await;
    let deployed = [("guest", 1), ("guest", 2), ("other", 3)]
        .map(|(namespace, number)| package(namespace, number).function);
    house.executor.collect(&deployed).await;
    refused(&house, "guest", 3).await;
    deploy(&house, "other", 1).await;
    // What is deleted is given back, and what somebody holds is not.
    house.executor.collect(&deployed[1..]).await;
    assert_eq!(unpacked(wasm.path()), 2);
    let held = deploy(&house, "guest", 3).await;
    house.executor.collect(&[]).await;
    assert_eq!(unpacked(wasm.path()), 1);
    deploy(&house, "guest", 1).await;
    refused(&house, "guest", 2).await;
    assert_eq!(read(&house, &held).await, json!({ "n": 3 }));
    drop(held);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machine_code_counts_for_each_namespace_that_has_deployed_it() {
    let one = machine_code().await;
    let wasm = tempfile::tempdir().unwrap();
    let small = |builds: &mut HouseConfig| builds.per_namespace = ByteSize::bytes(2 * one + BLOCK);
    let refused = async |house: &Sandboxed, namespace: &str, number: u8| {
        let Err(PrepareError::OverQuota(said)) = house.prepare(module(namespace, number)).await else {
            panic!("{namespace}/m{number} was not refused");
        };
        assert!(said.contains(&format!("namespace {namespace} takes {}", shown(2 * one))), "{said}");
    };
    let house = Sandboxed::over(Some(wasm.path()), WasmConfig::default(), small).await;
    house.executor.collect(&[]).await;
    for number in [1, 2] {
        house.prepare(module("guest", number)).await.unwrap();
    }
    // The second time without compiling it.
    for _ in 0..2 {
        refused(&house, "guest", 3).await;
    }
    assert_eq!(compiled(wasm.path()).len(), 2, "nothing is left of what was refused");
    house.prepare(module("other", 3)).await.unwrap();
    house.prepare(module("other", 1)).await.unwrap();
    refused(&house, "other", 2).await;
    house.prepare(module("guest", 1)).await.unwrap();
    house.end().await;

    // Another life of the server, in which all that was deployed runs.
    let less = |builds: &mut HouseConfig| builds.per_namespace = ByteSize::bytes(one);
    let house = Sandboxed::over(Some(wasm.path()), WasmConfig::default(), less).await;
    let deployed = [("guest", 1), ("guest", 2), ("other", 3)]
        .map(|(namespace, number)| module(namespace, number).function);
    house.executor.collect(&deployed).await;
    house.prepare(module("guest", 2)).await.unwrap();
    refused(&house, "guest", 3).await;
    // What is deleted is given back, and what somebody holds is not.
    let held = house.prepare(module("guest", 1)).await.unwrap();
    house.executor.collect(&[]).await;
    let Err(PrepareError::OverQuota(_)) = house.prepare(module("guest", 2)).await else { panic!() };
    drop(held);
    house.executor.collect(&[]).await;
    house.prepare(module("guest", 2)).await.unwrap();
    house.end().await;
}

#[tokio::test]
async fn assets_stay_for_as_long_as_a_prepared_function_serves() {
    let house = House::new();
    let prepared = house.prepare(package("guest", 1)).await.unwrap();
    // Of versions that are called by their numbers no collection knows.
    house.executor.collect(&[]).await;
    assert_eq!(read(&house, &prepared).await, json!({ "n": 1 }));
    drop(prepared);
    house.executor.collect(&[]).await;
    assert_eq!(unpacked(house.folder.path()), 0);
}
