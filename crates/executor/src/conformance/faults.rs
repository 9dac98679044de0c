//! Each failure is reported as what it is, and only an instance that is fit for it serves again.

use flint_model::{ByteSize, FunctionLimits};
use serde_json::json;

use super::{
    Subject,
    subject::{AMPLE, context, done, request},
};
use crate::{EndOfProcess, Fault, PrepareError, StartFailure};

/// The process exits during a call.
pub async fn an_exit_is_said(subject: &Subject) {
    let instance = subject.start().await;
    let done = subject.call(&instance, "exit", json!({})).await;
    assert_eq!(done.fault(), &Fault::Exited { end: Some(EndOfProcess::Code(7)) });
    assert!(!done.end.reusable);
    instance.ended().await;
    instance.stop().await;
}

/// The process is killed by a signal that it sends itself.
pub async fn a_crash_is_said(subject: &Subject) {
    let instance = subject.start().await;
    let done = subject.call(&instance, "crash", json!({})).await;
    assert!(matches!(done.fault(), Fault::Exited { end: Some(_) }), "{:?}", done.fault());
    assert!(!done.end.reusable);
    instance.stop().await;
}

/// Code that throws: its message is in the answer, as in the OpenWhisk runtime of its language.
pub async fn an_exception_is_said(subject: &Subject) {
    let instance = subject.start().await;
    let done = subject.call(&instance, "throw", json!({})).await;
    let said = match &done.result {
        Ok(reply) => String::from_utf8_lossy(&reply.body).into_owned(),
        Err(Fault::Developer { message }) => message.clone(),
        Err(other) => panic!("{other:?}"),
    };
    assert!(said.contains("asked to"), "{said}");
    assert_eq!(done.end.reusable, done.result.is_ok());
    instance.stop().await;
}

/// A lone surrogate in a message, which strings of these languages can have and UTF-8 cannot, does not
/// lose the rest of it.
pub async fn half_a_character_in_an_exception_does_no_harm(subject: &Subject) {
    let instance = subject.start().await;
    let done = subject.call(&instance, "throwHalf", json!({})).await;
    let Fault::Developer { message } = done.fault() else { panic!("{:?}", done.fault()) };
    assert!(message.contains("asked to \u{fffd}"), "{message}");
    instance.stop().await;
}

/// A syntax error, and a missing entry point.
pub async fn code_that_does_not_load_is_said(subject: &Subject) {
    for (code, cause) in [subject.language.broken(), (subject.language.without_entry(), "main")] {
        let source = subject.function(code, FunctionLimits::default());
        // An executor that loads code in `prepare` reports the failure there.
        let said = match subject.executor.prepare(source, &|_| {}).await {
            Err(PrepareError::Code(said)) => said,
            Err(other) => panic!("{other}"),
            Ok(prepared) => match subject.executor.start(&prepared, context(AMPLE)).await.err() {
                Some(StartFailure { fault: Fault::Developer { message }, .. }) => message,
                other => panic!("{other:?}"),
            },
        };
        assert!(said.contains(cause), "{said}");
    }
}

/// Its size and its beginning are reported, and the instance serves on.
pub async fn an_oversized_result_is_said(subject: &Subject) {
    let instance = subject.start().await;
    for bytes in [2000, 3 << 20] {
        let mut call = request("big", json!({ "bytes": bytes }), AMPLE);
        call.max_result = ByteSize::bytes(1000);
        let done = done(instance.invoke(call).await);
        let Fault::ResultTooLarge { size, allowed: 1000, beginning } = done.fault() else {
            panic!("{:?}", done.fault())
        };
        assert!(
            *size > bytes as u64 && beginning.len() <= 1000 && beginning.starts_with(b"{\"text\""),
            "{size}"
        );
        assert!(done.end.reusable);
    }
    let next = subject.call(&instance, "big", json!({ "bytes": 900_000 })).await;
    assert_eq!(next.json()["text"].as_str().map(str::len), Some(900_000));
    instance.stop().await;
}

/// An answer that is neither a JSON object nor an array.
pub async fn a_wrong_answer_is_said(subject: &Subject) {
    let instance = subject.start().await;
    let done = subject.call(&instance, "number", json!({})).await;
    assert!(
        matches!(done.fault(), Fault::Developer { .. } | Fault::InvalidAnswer { .. }),
        "{:?}",
        done.fault()
    );
    instance.stop().await;
}
