//! Rule 3: a deadline ends a call whatever it does, and its neighbours do not notice.

use std::sync::Arc;

use flint_model::{ByteSize, FunctionLimits};
use serde_json::json;

use super::{
    Subject,
    subject::{AMPLE, Done, SHORT},
};
use crate::{Fault, Instance};

/// Runs `op` beyond its time limit while a neighbour keeps answering.
async fn beside_a_neighbour(
    subject: &Subject,
    op: &str,
    limits: FunctionLimits,
) -> (Done, Arc<dyn Instance>) {
    let neighbour = subject.start().await;
    let source = subject.function(subject.language.laboratory(), limits);
    let bomb = subject.try_start(source, AMPLE).await.expect("it starts");
    let going_off = subject.call_within(&bomb, op, json!({}), SHORT);
    let neighbours = async {
        for n in 0..20 {
            let answer = subject.call(&neighbour, "echo", json!({ "text": n })).await;
            assert_eq!(answer.json(), json!({ "text": n }));
            tokio::time::sleep(SHORT / 20).await;
        }
    };
    let (done, ()) = tokio::join!(going_off, neighbours);
    assert!(!done.end.reusable);
    bomb.stop().await;
    let after = subject.call(&neighbour, "echo", json!({ "text": "after" })).await;
    assert_eq!(after.json(), json!({ "text": "after" }));
    (done, neighbour)
}

/// A loop that never yields.
pub async fn an_endless_loop_is_ended(subject: &Subject) {
    let (done, neighbour) = beside_a_neighbour(subject, "loop", FunctionLimits::default()).await;
    assert_eq!(done.fault(), &Fault::Deadline);
    neighbour.stop().await;
}

/// The function gets as many processes as it may have, and no more.
pub async fn a_fork_bomb_is_contained(subject: &Subject) {
    let limits = FunctionLimits { processes: 64, ..FunctionLimits::default() };
    let (done, neighbour) = beside_a_neighbour(subject, "forks", limits).await;
    // Processes need memory too, so either limit may be hit first; a runtime may say which it was.
    let is_contained = match done.fault() {
        Fault::Deadline | Fault::OutOfMemory | Fault::Exited { .. } => true,
        Fault::Developer { message } => message.contains("limits.processes"),
        _ => false,
    };
    assert!(is_contained, "{:?}", done.fault());
    neighbour.stop().await;
}

/// The function allocates more memory than it may have.
pub async fn a_memory_bomb_is_contained(subject: &Subject) {
    let limits = FunctionLimits { memory: ByteSize::mib(128), ..FunctionLimits::default() };
    let source = subject.function(subject.language.laboratory(), limits);
    let bomb = subject.try_start(source, AMPLE).await.expect("it starts");
    let done = subject.call(&bomb, "memory", json!({})).await;
    assert_eq!(done.fault(), &Fault::OutOfMemory);
    assert!(!done.end.reusable);
    bomb.stop().await;
}

/// Code that never finishes loading.
pub async fn loading_has_a_deadline_too(subject: &Subject) {
    // The runtime must be up before the limit. On a busy machine a second attempt gets more time.
    for limit in [SHORT * 4, AMPLE] {
        let limits = FunctionLimits { timeout: limit, ..FunctionLimits::default() };
        let source = subject.function(subject.language.endless(), limits);
        let failure = subject.try_start(source, limit).await.err().expect("it does not load");
        assert_eq!(failure.fault, Fault::Deadline);
        if failure.logs.is_empty() && limit < AMPLE {
            continue;
        }
        assert_eq!(failure.logs.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), ["loading"]);
        return;
    }
}
