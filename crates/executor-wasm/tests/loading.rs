//! How much compiled code is loaded, where, and for how long.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use flint_executor::{Executor, Fault, FunctionSource, PrepareError, Prepared};
use flint_executor_wasm::WasmConfig;
use flint_model::Contract;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{AMPLE, Done, House, SHORT, context, core, done, function, json_call, limits};
use tokio::{sync::Mutex, task::JoinHandle};

/// Mappings of loaded code that no call has instantiated.
const MAPPINGS: usize = 3;
/// Functions that a cramped house has loaded at most.
const ROOM: usize = 24;
/// Most of one namespace.
const SHARE: usize = ROOM - ROOM / 4;
/// How often threads are tried that may have another engine.
const TRIES: usize = 50;

/// So many engines, unless there are fewer processors.
fn on_engines(engines: u32) -> WasmConfig {
    WasmConfig { instances: Some(64 * engines), ..WasmConfig::default() }
}

fn has_many_processors() -> bool {
    std::thread::available_parallelism().unwrap().get() > 1
}

/// Does work on a thread of its own, whose engine may be another.
fn on_a_thread<T: Send + 'static, W: Future<Output = T> + 'static>(
    work: impl FnOnce() -> W + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work())
    })
}

/// A function with code of its own.
fn numbered(number: usize) -> FunctionSource {
    running(number, "")
}

/// A function with code of its own, that answers after its call has run `during`.
fn running(number: usize, during: &str) -> FunctionSource {
    function(Contract::WasmCore, &core(&format!("(global i32 (i32.const {number}))"), during), limits())
}

/// Has one engine, with little room for code.
async fn cramped() -> House {
    cramped_on(1).await
}

/// The same with so many engines, which divide the room.
async fn cramped_on(engines: u32) -> House {
    // The limit is that of all tests in this process.
    static ALONE: Mutex<()> = Mutex::const_new(());
    let _alone = ALONE.lock().await;
    let before = getrlimit(Resource::Nofile);
    // A sixteenth of that is for code.
    setrlimit(Resource::Nofile, Rlimit { current: Some(16 * ROOM as u64), ..before }).unwrap();
    let house = House::with(on_engines(engines));
    house.executor.open().await.unwrap();
    setrlimit(Resource::Nofile, before).unwrap();
    house
}

async fn prepare(house: &House, numbers: std::ops::Range<usize>) -> Vec<Arc<Prepared>> {
    let mut prepared = Vec::new();
    for number in numbers {
        prepared.push(house.prepare(numbered(number)).await.unwrap());
        assert!(loaded(house) <= ROOM);
    }
    prepared
}

/// The same of another namespace.
async fn prepare_elsewhere(house: &House, number: usize) -> Arc<Prepared> {
    let mut source = numbered(number);
    Arc::get_mut(&mut source.function).unwrap().path = "other/wasm".parse().unwrap();
    house.prepare(source).await.unwrap()
}

async fn called(house: &House, prepared: &Arc<Prepared>, within: Duration) -> Done {
    let instance = house.executor.start(prepared, context()).await.map(|started| started.instance).unwrap();
    let called = done(instance.invoke(json_call("{}", within)).await);
    instance.stop().await;
    called
}

async fn call(house: &House, prepared: &Arc<Prepared>) {
    assert_eq!(called(house, prepared, AMPLE).await.json(), serde_json::json!({}));
}

/// Runs so many functions, from number 1, whose calls do not end.
async fn occupy(house: &Arc<House>, count: usize) -> Vec<JoinHandle<Done>> {
    let mut holding = Vec::new();
    for number in 1..=count {
        let endless = house.prepare(running(number, "(loop $l (br $l))")).await.unwrap();
        let house = Arc::clone(house);
        holding.push(tokio::spawn(async move { called(&house, &endless, AMPLE).await }));
    }
    // An instance has its code in use; who has a place only may not have asked for it yet.
    while house.executor.slots().unwrap().in_use < count as u64 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(loaded(house) >= count);
    holding
}

/// Why a call failed that was no fault of its function's.
async fn refused(house: &House, prepared: &Arc<Prepared>, within: Duration) -> String {
    match called(house, prepared, within).await.fault() {
        Fault::Platform { cause } => cause.clone(),
        other => panic!("{other:?}"),
    }
}

/// The mappings of this process that are of the house's compiled code, whether or not it has been removed.
fn mappings(house: &House) -> Vec<String> {
    let folder = house.folder.path().to_str().unwrap();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let ours = |line: &&str| line.contains(folder) && line.contains(".cwasm");
    maps.lines().filter(ours).map(str::to_owned).collect()
}

/// How many of them are of machine code. Others are images of memories, which the pool keeps for as long as the
/// code is loaded.
fn loaded(house: &House) -> usize {
    mappings(house).iter().filter(|line| is_machine_code(line)).count()
}

fn is_machine_code(line: &str) -> bool {
    line.contains(" r-xp ")
}

/// Whether code is loaded, also if its file has been replaced since.
fn is_loaded(house: &House, file: &Path) -> bool {
    let name = file.file_name().unwrap().to_str().unwrap();
    mappings(house).iter().any(|line| line.contains(name) && is_machine_code(line))
}

/// The files of compiled code.
fn files(house: &House) -> Vec<PathBuf> {
    let entries = fs::read_dir(house.folder.path()).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "cwasm")).collect()
}

#[tokio::test]
async fn a_deploy_loads_code_on_one_engine() {
    let house = Arc::new(House::with(on_engines(4)));
    let prepared = prepare(&house, 0..5).await;
    assert_eq!((loaded(&house), mappings(&house).len()), (5, 5 * MAPPINGS));
    for prepared in &prepared {
        call(&house, prepared).await;
    }
    assert_eq!(loaded(&house), 5, "calls of this thread are run where it deployed");
    // Other threads have other engines; which one has which depends on the tests beside.
    for _ in 0..TRIES {
        let threads = [0; 4].map(|_| {
            let (house, prepared) = (Arc::clone(&house), prepared.clone());
            on_a_thread(move || async move {
                for prepared in &prepared {
                    call(&house, prepared).await;
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        if loaded(&house) > 5 {
            break;
        }
    }
    assert_eq!(loaded(&house) > 5, has_many_processors(), "{} are loaded", loaded(&house));
    assert_eq!(loaded(&house) % 5, 0, "on whole engines");
}

#[tokio::test]
async fn functions_with_the_same_code_have_it_loaded_once() {
    let house = House::new();
    let [one, other] = [house.prepare(numbered(0)).await.unwrap(), house.prepare(numbered(0)).await.unwrap()];
    drop(one);
    call(&house, &other).await;
    assert_eq!(loaded(&house), 1);
    drop(other);
    assert_eq!(mappings(&house), [""; 0]);
}

#[tokio::test]
async fn code_that_is_not_run_makes_room_for_what_is() {
    let house = cramped().await;
    let mut prepared = prepare(&house, 0..3 * ROOM).await;
    for prepared in prepared.iter().rev() {
        call(&house, prepared).await;
        assert!(loaded(&house) <= ROOM);
    }
    // A collection takes nothing that a prepared function may have to load again.
    house.executor.collect(&[]).await;
    assert_eq!(files(&house).len(), 3 * ROOM);
    call(&house, &prepared[3 * ROOM - 1]).await;
    prepared.truncate(1);
    assert!(loaded(&house) <= 1);
    house.executor.collect(&[]).await;
    assert_eq!(files(&house).len(), 1);
    call(&house, &prepared[0]).await;
}

#[tokio::test]
async fn a_namespace_with_many_functions_unloads_its_own() {
    let house = cramped().await;
    let other = prepare_elsewhere(&house, 0).await;
    let [file] = files(&house).try_into().unwrap();
    let many = prepare(&house, 1..3 * ROOM).await;
    for prepared in &many {
        call(&house, prepared).await;
        assert!(is_loaded(&house, &file));
    }
    call(&house, &other).await;
    // Who comes late has as much before long.
    let before = files(&house);
    let mut late = Vec::new();
    for number in 3 * ROOM..4 * ROOM {
        late.push(prepare_elsewhere(&house, number).await);
    }
    let (own, others): (Vec<_>, Vec<_>) = files(&house).into_iter().partition(|file| !before.contains(file));
    let [own, others] =
        [own, others].map(|files| files.iter().filter(|file| is_loaded(&house, file)).count());
    assert!(own.abs_diff(others) <= 2 && own + others <= ROOM, "{own} and {others}");
}

#[tokio::test]
async fn what_is_removed_is_unloaded_once_its_last_call_is_over() {
    let house = Arc::new(House::new());
    let endless = house.prepare(running(0, "(loop $l (br $l))")).await.unwrap();
    let (there, its) = (Arc::clone(&house), Arc::clone(&endless));
    let calling = tokio::spawn(async move { called(&there, &its, AMPLE).await });
    while house.executor.live() == 0 {
        tokio::task::yield_now().await;
    }
    drop(endless);
    house.executor.collect(&[]).await;
    assert_eq!((loaded(&house), files(&house).len()), (1, 1), "a call runs");
    calling.abort();
    assert!(calling.await.unwrap_err().is_cancelled());
    house.until_no_guest().await;
    // The thread that ends the call gives its place back first.
    while !mappings(&house).is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    house.executor.collect(&[]).await;
    let left = fs::read_dir(house.folder.path()).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(left.filter(|path| path.is_file()).count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_that_come_at_once_load_their_code_once() {
    let house = Arc::new(cramped().await);
    let prepared = prepare(&house, 0..ROOM + 1).await;
    for prepared in &prepared {
        // It has made room for the one before.
        let calls = (0..40).map(|_| {
            let (house, prepared) = (Arc::clone(&house), Arc::clone(prepared));
            tokio::spawn(async move { call(&house, &prepared).await })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        assert_eq!(loaded(&house), SHARE, "two places were taken, and one given back");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_all_of_its_code_in_use_waits_and_keeps_nobody_waiting() {
    let house = Arc::new(cramped().await);
    let waiting = prepare(&house, 0..2).await;
    let mut holding = occupy(&house, SHARE).await;
    let late = refused(&house, &waiting[0], SHORT).await;
    assert!(late.contains("not loaded before the time limit passed"), "{late}");
    let deployed = house.prepare(numbered(ROOM + 1)).await.map(|_| ()).unwrap_err();
    assert!(matches!(deployed, PrepareError::Busy(_)), "{deployed:?}");
    let waiting: Vec<_> = waiting
        .into_iter()
        .map(|its| {
            let there = Arc::clone(&house);
            tokio::spawn(async move { call(&there, &its).await })
        })
        .collect();
    while house.executor.live() < SHARE + waiting.len() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let [first, second] = waiting.try_into().unwrap();
    // Other namespaces have room, also for what the first one waits for.
    let other = prepare_elsewhere(&house, ROOM + 2).await;
    call(&house, &other).await;
    assert!(!first.is_finished() && !second.is_finished());
    let same = prepare_elsewhere(&house, 0).await;
    call(&house, &same).await;
    first.await.unwrap();
    assert!(!second.is_finished());
    holding.swap_remove(0).abort();
    second.await.unwrap();
    holding.iter().for_each(|held| held.abort());
    house.until_no_guest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_room_is_told_that_the_server_shuts_down() {
    let house = Arc::new(cramped().await);
    let waiting = prepare(&house, 0..1).await;
    let holding = occupy(&house, SHARE).await;
    let (there, its) = (Arc::clone(&house), Arc::clone(&waiting[0]));
    let waiting = tokio::spawn(async move { refused(&there, &its, AMPLE).await });
    while house.executor.live() <= SHARE {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    house.executor.shutdown().await;
    let told = waiting.await.unwrap();
    assert!(told.contains("the server is shutting down"), "{told}");
    holding.iter().for_each(|held| held.abort());
    house.until_no_guest().await;
}

#[tokio::test]
async fn code_that_cannot_be_loaded_is_tried_again() {
    let house = cramped().await;
    let first = prepare(&house, 0..1).await;
    let [file] = files(&house).try_into().unwrap();
    // So many that the first is unloaded.
    let _others = prepare(&house, 1..ROOM + 1).await;
    let aside = file.with_extension("aside");
    fs::rename(&file, &aside).unwrap();
    let missing = refused(&house, &first[0], AMPLE).await;
    assert!(missing.contains("missing or damaged: deploy the function again"), "{missing}");
    fs::create_dir(&file).unwrap();
    let unreadable = refused(&house, &first[0], AMPLE).await;
    assert!(unreadable.contains("loading compiled code") && unreadable.contains("directory"), "{unreadable}");
    let deployed = house.prepare(numbered(0)).await.map(|_| ()).unwrap_err();
    assert!(matches!(deployed, PrepareError::Failed { .. }), "{deployed:?}");
    fs::remove_dir(&file).unwrap();
    fs::rename(&aside, &file).unwrap();
    call(&house, &first[0]).await;
}

#[tokio::test]
async fn a_redeploy_mends_a_damaged_file_although_its_code_is_loaded() {
    let house = cramped().await;
    let first = prepare(&house, 0..1).await;
    let [file] = files(&house).try_into().unwrap();
    let others = prepare(&house, 1..ROOM + 1).await;
    for is_replaced in [true, false] {
        call(&house, &first[0]).await;
        assert!(is_loaded(&house, &file));
        match is_replaced {
            true => {
                let aside = file.with_extension("aside");
                fs::write(&aside, "damaged").unwrap();
                fs::rename(&aside, &file).unwrap();
            }
            false => fs::remove_file(file.with_extension("sum")).unwrap(),
        }
        house.prepare(numbered(0)).await.unwrap();
        while is_loaded(&house, &file) {
            for other in &others {
                call(&house, other).await;
            }
        }
        call(&house, &first[0]).await;
    }
}

#[tokio::test]
async fn a_call_that_has_no_room_for_its_code_runs_where_that_is_loaded() {
    if !has_many_processors() {
        return; // there is one engine only
    }
    let house = Arc::new(cramped_on(2).await);
    let first = house.prepare(numbered(0)).await.unwrap();
    // It is loaded once more by whoever has the other engine.
    let probe = house.prepare(numbered(1)).await.unwrap();
    for _ in 0..TRIES {
        let (there, first, probe) = (Arc::clone(&house), Arc::clone(&first), Arc::clone(&probe));
        let trying = on_a_thread(move || async move {
            call(&there, &probe).await;
            if loaded(&there) == 2 {
                return false;
            }
            let holding = occupy(&there, SHARE / 2).await;
            call(&there, &first).await;
            holding.iter().for_each(|held| held.abort());
            there.until_no_guest().await;
            true
        });
        if trying.join().unwrap() {
            return;
        }
    }
    panic!("all threads have the same engine");
}
