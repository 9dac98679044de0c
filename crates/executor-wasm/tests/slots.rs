//! The pool's slots: how many a component takes, and what a full pool counts and says.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use flint_executor::{Executor, Fault, SlotCounts};
use flint_executor_wasm::WasmConfig;
use flint_model::Contract;
use support::{AMPLE, House, SHORT, all_is_well, core, done, json_call, limits, wat};

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
    // Of which a namespace has six.
    let house = House::with(WasmConfig { instances: Some(8), ..WasmConfig::default() });
    let start = async |during: &str| {
        house.start_with(Contract::WasiCommand, &with_memories(5, during), limits()).await
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

#[tokio::test]
async fn a_namespace_leaves_others_a_quarter() {
    let house = House::with(WasmConfig { instances: Some(16), ..WasmConfig::default() });
    let looping = with_memories(6, "(loop $l (br $l))");
    let looping = house.start_with(Contract::WasiCommand, &looping, limits()).await;
    let call = |within| {
        let looping = Arc::clone(&looping);
        tokio::spawn(async move { done(looping.invoke(json_call("", within)).await) })
    };
    let holding = [call(AMPLE), call(AMPLE)];
    tokio::task::yield_now().await;
    // One more than the namespace's twelve, which does not stand before others either.
    let waiting = call(AMPLE);
    tokio::task::yield_now().await;
    let other = house.start_elsewhere(Contract::WasmCore, &core("", "")).await;
    assert_eq!(done(other.invoke(json_call("{}", AMPLE)).await).json(), serde_json::json!({}));
    assert!(!waiting.is_finished(), "the other one did not wait for it");
    waiting.abort();
    let refused = call(SHORT).await.unwrap();
    let Fault::Platform { cause } = refused.fault() else { panic!("{:?}", refused.fault()) };
    assert!(cause.contains("three quarters of the 16 Wasm instances"), "{cause}");
    holding.iter().for_each(|held| held.abort());
    house.until_no_guest().await;
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
