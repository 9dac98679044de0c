//! Nothing is left of instances that have ended. A test program of its own, because it counts what the whole process holds.

mod support;

use flint_executor::conformance::{Language, leaks};
use flint_executor_fork::ForkConfig;
use support::House;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_starts_and_stops_leave_nothing() {
    for (kind, language) in [("nodejs:default", Language::Node), ("python:default", Language::Python)] {
        // How many standby clones there are follows the rhythm of the calls; that they go is tested with the calls.
        let house = House::with(ForkConfig { standbys: 0, ..ForkConfig::default() }).await;
        leaks::nothing_is_left(&house.subject(kind.parse().unwrap(), language), 200).await;
        house.end().await;
    }
}
