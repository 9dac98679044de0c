//! A client with a kept-alive connection, which makes calls one after the other and reads their records.

use std::{
    net::SocketAddr,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, bail, ensure};
use flint_api_native::resource::{ActivationList, ActivationResource};
use flint_lab::{HttpAnswer, HttpClient, HttpRequest};
use flint_model::Timeline;
use tokio::time::{sleep, timeout};

use crate::client::GUEST_KEY;

/// Longer than any call of the experiments.
const LONGEST: Duration = Duration::from_secs(120);
/// Records are written after the response.
const RECORDED_WITHIN: Duration = Duration::from_secs(5);

/// Verifies a response and its time.
type Timed<'a> = dyn Fn(&[u8], Duration) -> Result<(), String> + Sync + 'a;

pub(super) struct Caller {
    address: SocketAddr,
    connection: Option<HttpClient>,
}

/// A correctly answered call.
#[derive(Clone, Debug)]
pub(super) struct Called {
    /// From the request's first byte to the answer's last.
    pub(super) latency: Duration,
    pub(super) activation: String,
}

impl Called {
    /// `None` if the response is not Flint's.
    pub(super) fn of(answer: &HttpAnswer, latency: Duration) -> Option<Self> {
        Some(Self { latency, activation: answer.header("x-flint-activation-id")?.to_owned() })
    }
}

/// A request that calls `function`.
pub(super) fn post(address: SocketAddr, function: &str, content_type: &str, body: &[u8]) -> HttpRequest {
    post_to(address, &format!("{function}/invoke"), content_type, body)
}

/// The same for a path below `/v1/functions/`.
pub(super) fn post_to(address: SocketAddr, path: &str, content_type: &str, body: &[u8]) -> HttpRequest {
    let headers = [authorization(), format!("content-type: {content_type}")];
    HttpRequest::new("POST", &format!("/v1/functions/{path}"), address, &headers, body, 200)
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
        // The next response begins only after a complete one.
        let closes = answer.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        self.connection = Some(connection).filter(|_| !closes);
        Ok((answer, took))
    }

    /// Reconnects, since the server may have closed an idle connection.
    pub(super) fn reconnect(&mut self) {
        self.connection = None;
    }

    /// Makes one call; `check` verifies the response.
    pub(super) async fn call(
        &mut self,
        request: &HttpRequest,
        check: &(dyn Fn(&[u8]) -> Result<(), String> + Sync),
    ) -> anyhow::Result<Called> {
        let (answer, latency) = self.answered(request, &|body, _| check(body)).await?;
        Called::of(&answer, latency).context("an answer without its activation")
    }

    /// The same for any server; `check` gets the duration too.
    pub(super) async fn answered(
        &mut self,
        request: &HttpRequest,
        check: &Timed<'_>,
    ) -> anyhow::Result<(HttpAnswer, Duration)> {
        if self.connection.is_none() {
            self.connection = Some(HttpClient::connect(self.address).await?);
        }
        let (answer, latency) = self.exchange(request).await?;
        let shown = || String::from_utf8_lossy(&answer.body[..answer.body.len().min(300)]).into_owned();
        ensure!(answer.status == 200, "status {}: {}", answer.status, shown());
        if let Err(why) = check(&answer.body, latency) {
            bail!("a wrong answer, {why}: {}", shown());
        }
        Ok((answer, latency))
    }

    /// A call's stations, from its record.
    pub(super) async fn stations(&mut self, called: &Called) -> anyhow::Result<Stations> {
        self.stations_of(&called.activation).await
    }

    /// The stations of all activations that began at `since` or later.
    pub(super) async fn since(&mut self, since: SystemTime) -> anyhow::Result<Vec<Stations>> {
        let since = since.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let path = format!("/v1/activations?limit=1000&since={since}");
        let request = HttpRequest::new("GET", &path, self.address, &[authorization()], b"", 200);
        let (answer, _) = self.answered(&request, &|_, _| Ok(())).await?;
        let list: ActivationList =
            serde_json::from_slice(&answer.body).context("reading the activations' records")?;
        Ok(list.activations.iter().map(Stations::of_record).collect())
    }

    /// An activation's stations, from its record.
    pub(super) async fn stations_of(&mut self, activation: &str) -> anyhow::Result<Stations> {
        let path = format!("/v1/activations/{activation}");
        let request = HttpRequest::new("GET", &path, self.address, &[authorization()], b"", 200);
        let begin = Instant::now();
        loop {
            if self.connection.is_none() {
                self.connection = Some(HttpClient::connect(self.address).await?);
            }
            let (answer, _) = self.exchange(&request).await?;
            if answer.status == 200 {
                let record: ActivationResource =
                    serde_json::from_slice(&answer.body).context("reading an activation's record")?;
                return Ok(Stations::of_record(&record));
            }
            if begin.elapsed() > RECORDED_WITHIN {
                bail!("there is no record of activation {activation}: status {}", answer.status);
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// The times in an activation's timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stations {
    /// From being placed to an instance with loaded code; `None` if it was there already.
    pub(super) start_us: Option<u64>,
    /// Of that, loading the code.
    pub(super) init_us: Option<u64>,
    /// From there to the function's response.
    pub(super) run_us: Option<u64>,
    /// From admission to an instance with loaded code, whether that was started for this call, was busy, or
    /// was starting for another one.
    pub(super) wait_us: Option<u64>,
    /// CPU time that the call used.
    pub(super) cpu_us: Option<u64>,
    /// When it was placed, in µs since 1970, to the record's precision of a millisecond.
    pub(super) placed_at_us: u64,
}

impl Stations {
    fn of_record(record: &ActivationResource) -> Self {
        Self { cpu_us: record.usage.cpu_us, placed_at_us: record.start * 1000, ..Self::of(&record.timeline) }
    }

    fn of(timeline: &Timeline) -> Self {
        let there = timeline.restored.max(timeline.initialised);
        let placed = timeline.placed;
        let start_us = there.zip(placed).map(|(there, placed)| there.saturating_sub(placed));
        let run_us = timeline.ran.zip(there.max(placed)).map(|(ran, there)| ran.saturating_sub(there));
        let up = timeline.started.max(timeline.restored);
        let init_us = timeline.initialised.zip(up).map(|(loaded, up)| loaded.saturating_sub(up));
        let admitted = timeline.queued.unwrap_or(0);
        let wait_us = there.max(placed).map(|there| there.saturating_sub(admitted));
        Self { start_us, init_us, run_us, wait_us, cpu_us: None, placed_at_us: 0 }
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
        assert_eq!(
            Stations::of(&spawned),
            Stations {
                start_us: Some(990),
                init_us: Some(100),
                run_us: Some(300),
                wait_us: Some(1000),
                ..Stations::default()
            }
        );
        let forked = Timeline { restored: at(700), initialised: None, ..spawned };
        assert_eq!(
            Stations::of(&forked),
            Stations { start_us: Some(690), run_us: Some(600), wait_us: Some(700), ..Stations::default() }
        );
        let warm = Timeline { placed: at(10), ran: at(60), ..Timeline::default() };
        let found = |wait| Stations { run_us: Some(50), wait_us: Some(wait), ..Stations::default() };
        assert_eq!(Stations::of(&warm), found(10));
        // It waited for the instance that another call had started.
        let queued = Timeline { queued: at(2), placed: at(20_010), ran: at(20_060), ..Timeline::default() };
        assert_eq!(Stations::of(&queued), found(20_008));
        assert_eq!(Stations::of(&Timeline::default()), Stations::default());
    }
}
