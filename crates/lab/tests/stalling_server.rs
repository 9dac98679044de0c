//! The open loop over real sockets, against a server that stands still for 300 ms of every second. The exact figures are checked on a
//! paused clock beside the generator; here, the bounds are those that only a generator can miss which leaves calls out: everything
//! that goes wrong on a busy machine makes them larger.

mod stalling;

use std::{sync::Arc, time::Duration};

use flint_lab::{Arrivals, HttpArm, HttpRequest, OpenLoad, drive_open};

const PERIOD: Duration = Duration::from_secs(1);
const STALL: Duration = Duration::from_millis(300);

#[tokio::test]
async fn what_a_stall_costs_its_callers_is_in_the_figures() {
    let address = stalling::start(PERIOD, STALL);
    for connections in [64, 1] {
        let request = HttpRequest::new("GET", "/", address, &[], b"", 200);
        let load = OpenLoad {
            arrivals: Arrivals::Constant { rate: 100.0 },
            duration: 2 * PERIOD,
            warm_up: Duration::ZERO,
            connections,
            timeout: Duration::from_secs(60),
        };
        let measured = drive_open(Arc::new(HttpArm::new(address, vec![request])), &load).await.unwrap();
        assert_eq!((measured.intended, measured.answered()), (200, 200), "{:?}", measured.failures);
        // 30 of 100 calls meet the stall and wait for what is left of it: 5 % longer than 250 ms, 10 % longer than 200 ms.
        assert!(measured.quantile_us(0.9) > 150_000.0, "p90 {}", measured.quantile_us(0.9));
        assert!(measured.quantile_us(0.95) > 200_000.0, "p95 {}", measured.quantile_us(0.95));
        assert!(measured.connections <= connections);
    }
}
