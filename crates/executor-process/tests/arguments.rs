//! What a program can be given: parameters and secrets in its environment, headers and arguments, up to the kernel's bounds on them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use flint_executor::{Executor, Fault, FunctionSource, Instance, Invoked, PrepareError, StartContext};
use flint_model::{CodeFormat, Contract, Parameter, Parameters, Reuse};
use support::{House, SERVER, adjusted, context, function, json, request, stdio, text};

/// So long that its message to the launcher is laid aside; quotes make it twice as long there.
fn long_value(kib: usize) -> String {
    "\"".repeat(kib << 10)
}

fn with_token(source: FunctionSource, value: String) -> FunctionSource {
    let token = Parameter { key: "TOKEN".into(), value: value.into(), init: true };
    adjusted(source, |function| function.parameters = Parameters(vec![token]))
}

/// Starts it with its parameters, and a secret of so many KB, in its environment.
async fn start_with_secret(
    house: &House,
    source: FunctionSource,
    kib: usize,
) -> Result<Arc<dyn Instance>, Fault> {
    let mut environment: Vec<_> = source.function.parameters.environment().collect();
    environment.push(("SECRET".to_owned(), long_value(kib)));
    let prepared = house.prepare(source).await;
    let started = house.executor.start(&prepared, StartContext { environment, ..context() }).await;
    started.map(|started| started.instance).map_err(|failure| failure.fault)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_parameters_secrets_and_headers_reach_the_program() {
    let house = House::new().await;
    let measure = "#!/bin/sh\nprintf '%s' \"$TOKEN$SECRET$Http_X_Long\" | wc -c\n";
    for reuse in [Reuse::Never, Reuse::Warm] {
        let source = adjusted(with_token(stdio(measure), long_value(120)), |f| f.strategy.reuse = reuse);
        house.executor.admits(&source.function).unwrap();
        let instance = start_with_secret(&house, source, 64).await.unwrap();
        let mut call = request("POST", "/", Bytes::new());
        let long = "x".repeat(63 << 10).parse().unwrap();
        call.head.as_mut().unwrap().headers.insert("x-long", long);
        let answered = text(instance.invoke(call).await);
        assert_eq!(answered.trim(), ((120 + 64 + 63) << 10).to_string(), "{reuse:?}");
        instance.stop().await;
    }
    let server = function("python:default", Contract::Http, CodeFormat::Source, SERVER);
    start_with_secret(&house, server, 64).await.unwrap().stop().await;
    // A megabyte of parameters, in pieces.
    let many = (0..8).map(|n| Parameter { key: format!("P{n}"), value: long_value(127).into(), init: true });
    let count = "#!/bin/sh\nprintf '%s' \"$P0$P1$P2$P3$P4$P5$P6$P7\" | wc -c\n";
    let source = adjusted(stdio(count), |function| function.parameters = Parameters(many.collect()));
    house.executor.admits(&source.function).unwrap();
    let instance = start_with_secret(&house, source, 64).await.unwrap();
    assert_eq!(text(instance.invoke(json("{}")).await).trim(), ((8 * 127) << 10).to_string());
    instance.stop().await;
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_program_can_be_given_is_refused_and_named() {
    let house = House::new().await;
    let echo = "#!/bin/sh\necho {}\n";
    // Known at the deploy.
    let source = with_token(stdio(echo), long_value(128));
    let refused = house.executor.admits(&source.function).unwrap_err();
    assert!(
        matches!(&refused, PrepareError::Code(why) if why.contains("TOKEN has 131078 bytes")),
        "{refused}"
    );
    let shim = with_token(
        function("nodejs:default", Contract::Handler, CodeFormat::Source, "exports.main = () => ({})"),
        long_value(128),
    );
    house.executor.admits(&shim.function).unwrap();
    // Known at the call.
    for reuse in [Reuse::Never, Reuse::Warm] {
        let source = adjusted(stdio(echo), |function| function.strategy.reuse = reuse);
        let instance = house.start(source).await;
        let mut call = request("POST", "/", Bytes::new());
        let long = "x".repeat(128 << 10).parse().unwrap();
        call.head.as_mut().unwrap().headers.insert("x-long", long);
        let Invoked::Done { result: Err(Fault::Developer { message }), .. } = instance.invoke(call).await
        else {
            panic!("{reuse:?}")
        };
        assert!(message.contains("Http_X_Long") && message.contains("header"), "{message}");
        instance.stop().await;
    }
    // A secret, known at the start.
    let server = function("python:default", Contract::Http, CodeFormat::Source, SERVER);
    let Err(fault) = start_with_secret(&house, server, 128).await else { panic!() };
    assert!(matches!(&fault, Fault::Developer { message } if message.contains("SECRET")), "{fault}");
    house.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skeleton_is_given_as_much_as_one_argument_holds() {
    let house = House::new().await;
    let count = "#!/bin/sh\necho \"{\\\"length\\\": ${#1}}\"\n";
    for reuse in [Reuse::Never, Reuse::Warm] {
        let source = function("native", Contract::Skeleton, CodeFormat::Executable, count);
        let instance = house.start(adjusted(source, |function| function.strategy.reuse = reuse)).await;
        let arguments = format!("{{\"a\":\"{}\"}}", "x".repeat(120 << 10));
        let answered = text(instance.invoke(json(&arguments)).await);
        assert_eq!(answered, format!("{{\"length\": {}}}", arguments.len()), "{reuse:?}");
        instance.stop().await;
        let instance = house
            .start(adjusted(
                function("native", Contract::Skeleton, CodeFormat::Executable, count),
                |function| function.strategy.reuse = reuse,
            ))
            .await;
        let arguments = format!("{{\"a\":\"{}\"}}", "x".repeat(128 << 10));
        let Invoked::Done { result: Err(Fault::Developer { message }), .. } =
            instance.invoke(json(&arguments)).await
        else {
            panic!("{reuse:?}")
        };
        assert!(message.contains("argv[1]"), "{message}");
        instance.stop().await;
    }
    house.end().await;
}
