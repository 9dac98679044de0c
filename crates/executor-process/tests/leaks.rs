//! Nothing is left of instances that have ended. A test program of its own, because it counts what the whole process holds.

mod support;

use flint_executor::conformance::{Language, leaks};
use support::House;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_starts_and_stops_leave_nothing() {
    // A JVM takes ten times as long to start; it is started some dozens of times before the count begins.
    for (language, starts) in [(Language::Node, 200), (Language::Python, 200), (Language::Java, 20)] {
        let house = House::new().await;
        let kind = format!("{}:default", language.family()).parse().unwrap();
        leaks::nothing_is_left(&house.subject(kind, language), starts).await;
        house.end().await;
    }
}
