//! Rule 4: stdout and stderr belong to the activation that wrote them, complete and in order.

use std::fs;

use flint_model::{ByteSize, LogStream};
use serde_json::json;

use super::{
    Subject,
    subject::{AMPLE, Done, done, request},
};

fn of_stream(done: &Done, stream: LogStream) -> Vec<&str> {
    done.end.logs.iter().filter(|line| line.stream == stream).map(|line| line.text.as_str()).collect()
}

fn expected(name: &str, from: u32, to: u32) -> Vec<String> {
    (from..to).map(|n| format!("{name} {n}")).collect()
}

/// Thousands of lines on both streams, and a last one without a newline.
pub async fn output_is_complete_and_in_order(subject: &Subject) {
    let instance = subject.start().await;
    let done = subject.call(&instance, "log", json!({ "from": 0, "to": 3000 })).await;
    let mut out = expected("out", 0, 3000);
    out.push("no newline".into());
    assert_eq!(of_stream(&done, LogStream::Stdout), out);
    assert_eq!(of_stream(&done, LogStream::Stderr), expected("err", 0, 3000));
    assert!(!done.end.logs_truncated && done.end.logs.is_sorted_by_key(|line| line.time_us));
    instance.stop().await;
}

/// Calls in sequence in one instance, and concurrently in several.
pub async fn output_belongs_to_its_call(subject: &Subject) {
    let pair = [subject.start().await, subject.start().await];
    for round in 0..20_u32 {
        let lines = |offset: u32| (1000 * offset + 10 * round, 1000 * offset + 10 * round + 10);
        let call = async |which: usize, offset: u32| {
            let (from, to) = lines(offset);
            let done = subject.call(&pair[which], "log", json!({ "from": from, "to": to })).await;
            assert_eq!(of_stream(&done, LogStream::Stderr), expected("err", from, to));
            assert_eq!(of_stream(&done, LogStream::Stdout)[..10], expected("out", from, to)[..]);
        };
        tokio::join!(call(0, 1), call(1, 2));
    }
    for instance in pair {
        instance.stop().await;
    }
}

/// The output is read but not kept, and the answer arrives.
pub async fn a_gigabyte_of_output_does_no_harm(subject: &Subject) {
    const MOST_GROWTH: u64 = 512 << 20;
    let before = resident();
    let instance = subject.start().await;
    let done = subject.call(&instance, "flood", json!({ "megabytes": 1024 })).await;
    assert_eq!(done.json(), json!({ "written": 1024 }));
    let kept: usize = done.end.logs.iter().map(|line| line.text.len()).sum();
    assert!(done.end.logs_truncated && kept > 1000 && kept <= 1 << 20, "{kept}");
    assert!(resident().saturating_sub(before) < MOST_GROWTH);
    instance.stop().await;
}

/// The resident set size of this process.
fn resident() -> u64 {
    const PAGE: u64 = 4096;
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * PAGE
}

/// A function may close its stdout and stderr.
pub async fn closed_output_is_tolerated(subject: &Subject) {
    let instance = subject.start().await;
    assert_eq!(subject.call(&instance, "close", json!({})).await.json(), json!({ "closed": true }));
    let next = subject.call(&instance, "echo", json!({ "text": "still here" })).await;
    assert_eq!(next.json(), json!({ "text": "still here" }));
    instance.stop().await;
}

/// Logs are cut at the limit, and the end of the call reports it.
pub async fn what_exceeds_the_limit_is_said(subject: &Subject) {
    let instance = subject.start().await;
    let mut call = request("log", json!({ "from": 100, "to": 200 }), AMPLE);
    call.max_logs = ByteSize::bytes(100);
    let short = done(instance.invoke(call).await);
    let kept: usize = short.end.logs.iter().map(|line| line.text.len()).sum();
    assert!(short.end.logs_truncated && kept <= 100, "{:?}", short.texts());
    let next = subject.call(&instance, "log", json!({ "from": 0, "to": 1 })).await;
    assert!(!next.end.logs_truncated);
    assert_eq!(next.end.logs.len(), 3, "{:?}", next.texts());
    instance.stop().await;
}
