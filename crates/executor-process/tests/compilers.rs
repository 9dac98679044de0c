//! Compilers of Java sources: one waits for the next source, and none compiles two.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{fs, time::Duration};

use flint_executor::{Executor, FunctionSource, PrepareError};
use flint_model::{ByteSize, CodeFormat, Contract, Kind};
use rustix::process::{Pid, Signal, kill_process};
use support::{House, adjusted, descendants, eventually, function, handler, json, text, zipped};

const NONE: ByteSize = ByteSize::bytes(0);

/// Without an archive of its classes, which would only take time here.
fn quick(source: FunctionSource) -> FunctionSource {
    adjusted(source, |function| function.snapshot.annotate = false)
}

/// A function that answers with `n`.
fn source_for(kind: &str, n: u32) -> FunctionSource {
    let main = format!(
        "public static Map<String, Object> main(Map<String, Object> args) {{ return Map.of(\"n\", {n}); }}"
    );
    quick(handler(kind, &format!("import java.util.Map;\npublic class Main {{ {main} }}")))
}

fn source(n: u32) -> FunctionSource {
    source_for("java:default", n)
}

/// Deploys it; returns whether a compiler had been waiting for its source.
async fn deploy(house: &House, source: FunctionSource) -> bool {
    let steps = house.prepare(source).await.steps.clone();
    assert!(steps[0].starts_with("compiled Main with JDK "), "{steps:?}");
    steps[0].ends_with(", by a compiler that waited for it")
}

async fn refusal(house: &House, code: &str) -> String {
    match house.executor.prepare(handler("java:default", code), &|_| {}).await {
        Err(PrepareError::Code(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// The compilers among the processes below the launcher.
fn compilers(launcher: u32) -> Vec<u32> {
    let is_compiler = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split('\0').any(|word| word == "flint.Compile"))
    };
    descendants(launcher).into_iter().filter(is_compiler).collect()
}

/// The compiler that waits, once it is the only one and not `before`.
async fn waiting(house: &House, before: Option<u32>) -> u32 {
    let launcher = house.launcher.pid().await.unwrap();
    let only = || <[u32; 1]>::try_from(compilers(launcher)).ok().map(|[pid]| pid);
    eventually("a compiler that waits", || only().filter(|pid| Some(*pid) != before)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_source_finds_a_compiler_that_waits() {
    let house = House::new().await;
    let jar = zipped(&[("Main.class", "a class, as far as a deploy looks")]);
    house.prepare(quick(function("java:default", Contract::Handler, CodeFormat::Jar, jar))).await;
    assert!(!deploy(&house, source(1)).await, "a jar needs no compiler");
    // Though it has hardly been started.
    assert!(deploy(&house, source(2)).await);
    let before = waiting(&house, None).await;
    assert!(deploy(&house, source(3)).await);
    waiting(&house, Some(before)).await;
    for n in 1..=3 {
        let instance = house.start(source(n)).await;
        assert_eq!(text(instance.invoke(json("{}")).await), format!("{{\"n\":{n}}}"));
        instance.stop().await;
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_killed_while_it_waits_is_replaced() {
    let house = House::new().await;
    deploy(&house, source(1)).await;
    let killed = waiting(&house, None).await;
    kill_process(Pid::from_raw(killed as i32).unwrap(), Signal::KILL).unwrap();
    assert!(!deploy(&house, source(2)).await);
    waiting(&house, Some(killed)).await;
    assert!(deploy(&house, source(3)).await);
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_meets_nothing_of_another() {
    let house = House::new().await;
    deploy(&house, source(1)).await;
    let mut before = waiting(&house, None).await;
    // The class of the source before it, and that of the sample.
    for other in ["Main", "Sample"] {
        let why = refusal(&house, &format!("public class A extends {other} {{ }}")).await;
        assert!(why.contains("A.java:1: error: cannot find symbol"), "{why}");
        before = waiting(&house, Some(before)).await;
    }
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_compile_reads_the_same_from_one_that_waited() {
    const BROKEN: &str = "public class A {\n    int x = \"text\";\n}\n";
    const WHY: &str = "the Java source does not compile:
A.java:2: error: incompatible types: String cannot be converted to int
    int x = \"text\";
            ^
1 error";
    let house = House::new().await;
    assert_eq!(refusal(&house, BROKEN).await, WHY);
    let before = waiting(&house, None).await;
    // Other code, since what failed a moment ago is not built again.
    assert_eq!(refusal(&house, &format!("{BROKEN}// the same\n")).await, WHY);
    waiting(&house, Some(before)).await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_waits_counts_as_memory_and_makes_room() {
    let house = House::new().await;
    let launcher = house.launcher.pid().await.unwrap();
    assert_eq!(house.executor.prewarmed_memory().await.all, NONE);
    deploy(&house, source(1)).await;
    let counted = async {
        loop {
            let memory = house.executor.prewarmed_memory().await;
            if memory.of_tools > NONE {
                return memory;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let memory = tokio::time::timeout(Duration::from_secs(60), counted).await.unwrap();
    assert_eq!(memory.all, memory.of_tools);
    house.executor.reclaim(ByteSize::bytes(1), None).await;
    assert_eq!(compilers(launcher), Vec::<u32>::new());
    assert_eq!(house.executor.prewarmed_memory().await.all, NONE);
    assert!(!deploy(&house, source(2)).await);
    waiting(&house, None).await;
    house.executor.shutdown().await;
    assert_eq!(compilers(launcher), Vec::<u32>::new());
    // As a deploy that ends later than that.
    assert!(!deploy(&house, source(3)).await);
    assert_eq!(compilers(launcher), Vec::<u32>::new());
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn none_waits_where_none_is_to() {
    let house = House::with(|config| config.compile_ahead = false).await;
    for n in 1..=2 {
        assert!(!deploy(&house, source(n)).await);
    }
    assert_eq!(compilers(house.launcher.pid().await.unwrap()), Vec::<u32>::new());
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_another_jdk_is_not_taken() {
    let house = House::new().await;
    let kinds = house.executor.kinds().into_iter();
    let kinds: Vec<Kind> = kinds
        .filter(|kind| kind.kind.family() == "java" && kind.state.is_ok())
        .map(|kind| kind.kind)
        .collect();
    if let [newest, .., oldest] = kinds.as_slice() {
        assert!(!deploy(&house, source_for(newest.as_str(), 1)).await);
        assert!(!deploy(&house, source_for(oldest.as_str(), 2)).await);
        assert!(deploy(&house, source_for(oldest.as_str(), 3)).await);
        waiting(&house, None).await;
    } else {
        println!("not checked: compilers of several JDKs, because this host has {kinds:?}");
    }
    house.end().await;
}
