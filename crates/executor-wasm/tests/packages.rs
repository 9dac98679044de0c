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

/// A function that reads its asset. This takes two blocks of 4 KB, one for its folder.
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
    let refused = async |house: &Sandboxed, namespace: &str, number: u32| {
        let Err(PrepareError::OverQuota(said)) = house.prepare(package(namespace, number)).await else {
            panic!("{namespace}/f{number} was not refused");
        };
        assert!(said.contains(&format!("namespace {namespace} takes 16 KB")), "{said}");
        assert!(said.contains("more than the 20 KB") && said.contains("prepare.per_namespace"), "{said}");
    };
    let wasm = tempfile::tempdir().unwrap();
    // Room for two.
    let small = |builds: &mut HouseConfig| builds.per_namespace = ByteSize::kib(20);
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
