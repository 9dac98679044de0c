//! One client: a kept-alive connection, calls one after the other, each with its record.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use flint_api_native::resource::ActivationResource;
use flint_lab::{HttpAnswer, HttpClient, HttpRequest};
use flint_model::Timeline;
use tokio::time::{sleep, timeout};

use super::workload::Workload;
use crate::client::GUEST_KEY;

/// No call of the experiment takes this long.
const LONGEST: Duration = Duration::from_secs(120);
/// Records are written behind the answer.
const RECORDED_WITHIN: Duration = Duration::from_secs(5);

pub(super) struct Caller {
    address: SocketAddr,
    connection: Option<HttpClient>,
}

/// A call that was answered rightly.
#[derive(Clone, Debug)]
pub(super) struct Called {
    /// From the request's first byte to the answer's last.
    pub(super) latency: Duration,
    pub(super) activation: String,
}

/// A request that calls `function` with `workload`'s body.
pub(super) fn request(address: SocketAddr, function: &str, workload: &Workload) -> HttpRequest {
    post(address, function, workload.content_type, &workload.body)
}

pub(super) fn post(address: SocketAddr, function: &str, content_type: &str, body: &[u8]) -> HttpRequest {
    let headers = [authorization(), format!("content-type: {content_type}")];
    HttpRequest::new("POST", &format!("/v1/functions/{function}/invoke"), address, &headers, body, 200)
}

fn authorization() -> String {
    format!("authorization: Bearer {GUEST_KEY}")
}

impl Caller {
    pub(super) const fn new(address: SocketAddr) -> Self {
        Self { address, connection: None }
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    async fn exchange(&mut self, request: &HttpRequest) -> anyhow::Result<(HttpAnswer, Duration)> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => HttpClient::connect(self.address).await?,
        };
        let begin = Instant::now();
        let answer = timeout(LONGEST, connection.exchange(request))
            .await
            .with_context(|| format!("no answer within {} s", LONGEST.as_secs()))??;
        let took = begin.elapsed();
        // Only after a whole answer is it at the beginning of the next one.
        self.connection = Some(connection);
        Ok((answer, took))
    }

    /// Connects anew where the server may have closed an idle connection meanwhile.
    pub(super) fn reconnect(&mut self) {
        self.connection = None;
    }

    /// One call, its answer compared with what it has to be.
    pub(super) async fn call(
        &mut self,
        request: &HttpRequest,
        workload: &Workload,
    ) -> anyhow::Result<Called> {
        if self.connection.is_none() {
            self.connection = Some(HttpClient::connect(self.address).await?);
        }
        let (answer, latency) = self.exchange(request).await?;
        let shown = || String::from_utf8_lossy(&answer.body[..answer.body.len().min(300)]).into_owned();
        ensure!(answer.status == 200, "status {}: {}", answer.status, shown());
        ensure!((workload.check)(&answer.body), "a wrong answer: {}", shown());
        let activation =
            answer.header("x-flint-activation-id").context("an answer without its activation")?.to_owned();
        Ok(Called { latency, activation })
    }

    /// Where the time of a call went.
    pub(super) async fn stations(&mut self, called: &Called) -> anyhow::Result<Stations> {
        let path = format!("/v1/activations/{}", called.activation);
        let request = HttpRequest::new("GET", &path, self.address, &[authorization()], b"", 200);
        let begin = Instant::now();
        loop {
            let (answer, _) = self.exchange(&request).await?;
            if answer.status == 200 {
                let record: ActivationResource =
                    serde_json::from_slice(&answer.body).context("reading an activation's record")?;
                return Ok(Stations::of(&record.timeline));
            }
            if begin.elapsed() > RECORDED_WITHIN {
                bail!("there is no record of activation {}: status {}", called.activation, answer.status);
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// What the timeline says of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stations {
    /// From being placed to an instance with its code loaded; `None` when it was there already.
    pub(super) start_us: Option<u64>,
    /// From there to the function's answer.
    pub(super) run_us: Option<u64>,
}

impl Stations {
    fn of(timeline: &Timeline) -> Self {
        let there = timeline.restored.max(timeline.initialised);
        let placed = timeline.placed;
        let start_us = there.zip(placed).map(|(there, placed)| there.saturating_sub(placed));
        let run_us = timeline.ran.zip(there.max(placed)).map(|(ran, there)| ran.saturating_sub(there));
        Self { start_us, run_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_ends_where_the_code_is_there_and_a_warm_call_has_none() {
        let at = Some;
        let spawned = Timeline {
            placed: at(10),
            started: at(900),
            initialised: at(1000),
            ran: at(1300),
            ..Timeline::default()
        };
        assert_eq!(Stations::of(&spawned), Stations { start_us: Some(990), run_us: Some(300) });
        let forked = Timeline { restored: at(700), initialised: None, ..spawned };
        assert_eq!(Stations::of(&forked), Stations { start_us: Some(690), run_us: Some(600) });
        let warm = Timeline { placed: at(10), ran: at(60), ..Timeline::default() };
        assert_eq!(Stations::of(&warm), Stations { start_us: None, run_us: Some(50) });
        assert_eq!(Stations::of(&Timeline::default()), Stations { start_us: None, run_us: None });
    }
}
