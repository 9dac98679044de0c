//! An arm that notes every call, so that its activation record can be read afterwards.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use flint_lab::{Arm, ArmError, Connection, HttpAnswer, HttpClient, HttpRequest};
use serde::{Deserialize, Serialize};

use super::{
    manifest::Manifest,
    place::{Place, baseline_sample},
    samples::Sample,
    shown::Shown,
};
use crate::bench::caller::{Called, Caller};

/// A call with its record.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Recorded {
    /// When it was answered, in seconds since the load began.
    pub(super) at_s: f64,
    /// The scheduled call.
    pub(super) which: usize,
    pub(super) sample: Sample,
}

/// Calls as noted.
struct Noted {
    at_s: f64,
    which: usize,
    call: Call,
}

/// A noted call.
enum Call {
    /// Flint has a record of it.
    Recorded(Called),
    /// Complete.
    Known(Sample),
}

/// Verifies the response to that request and its time.
pub(super) type Check = Arc<dyn Fn(usize, &[u8], Duration) -> Result<(), String> + Send + Sync>;

/// Sends request n when the schedule says n.
pub(super) struct Recorder {
    address: SocketAddr,
    requests: Arc<[HttpRequest]>,
    check: Check,
    shown: Shown,
    begin: Instant,
    noted: Arc<Mutex<Vec<Noted>>>,
}

impl Recorder {
    /// Calls copy n of a function when the schedule says n.
    pub(super) fn of(place: &Place) -> Self {
        let (manifest, size): (Manifest, _) = (place.manifest().clone(), place.size);
        let check: Check = Arc::new(move |_, body, took| manifest.verify(size, body, took));
        Self::new(place.address(), place.requests().into(), check, place.shown().clone())
    }

    pub(super) fn new(address: SocketAddr, requests: Arc<[HttpRequest]>, check: Check, shown: Shown) -> Self {
        Self { address, requests, check, shown, begin: Instant::now(), noted: Arc::default() }
    }

    /// Every correctly answered call with its record's times, in the order of responses.
    pub(super) async fn records(&self, mut caller: Caller) -> anyhow::Result<Vec<Recorded>> {
        let noted = std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner));
        let mut records = Vec::with_capacity(noted.len());
        for Noted { at_s, which, call } in noted {
            let sample = match call {
                Call::Known(sample) => sample,
                Call::Recorded(called) => Sample::of(&called, caller.stations(&called).await?),
            };
            records.push(Recorded { at_s, which, sample });
        }
        Ok(records)
    }
}

#[async_trait]
impl Arm for Recorder {
    async fn connect(&self) -> Result<Box<dyn Connection>, ArmError> {
        Ok(Box::new(Recording {
            client: HttpClient::connect(self.address).await?,
            requests: Arc::clone(&self.requests),
            check: Arc::clone(&self.check),
            shown: self.shown.clone(),
            begin: self.begin,
            noted: Arc::clone(&self.noted),
        }))
    }
}

struct Recording {
    client: HttpClient,
    requests: Arc<[HttpRequest]>,
    check: Check,
    shown: Shown,
    begin: Instant,
    noted: Arc<Mutex<Vec<Noted>>>,
}

#[async_trait]
impl Connection for Recording {
    async fn call(&mut self) -> Result<(), ArmError> {
        self.call_which(0).await
    }

    async fn call_which(&mut self, which: usize) -> Result<(), ArmError> {
        self.call_meant(which, Instant::now()).await
    }

    async fn call_meant(&mut self, which: usize, intended: Instant) -> Result<(), ArmError> {
        let sent = Instant::now();
        let answer = self.client.exchange(&self.requests[which % self.requests.len()]).await?;
        let took = sent.elapsed();
        // Waiting for a connection, or for a late generator, counts for the caller too.
        let latency = intended.elapsed();
        let body = || String::from_utf8_lossy(&answer.body[..answer.body.len().min(300)]).into_owned();
        if answer.status != 200 {
            return Err(ArmError::Status { status: answer.status, expected: 200, body: body() });
        }
        (self.check)(which, &answer.body, took)
            .map_err(|why| ArmError::WrongAnswer(format!("{why}: {}", body())))?;
        self.shown.see(&answer.body);
        let noted = Noted { at_s: self.begin.elapsed().as_secs_f64(), which, call: noted(&answer, latency) };
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).push(noted);
        Ok(())
    }
}

fn noted(answer: &HttpAnswer, latency: Duration) -> Call {
    match Called::of(answer, latency) {
        Some(called) => Call::Recorded(called),
        None => Call::Known(baseline_sample(answer, latency)),
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// A server that claims at once to have slept.
    async fn liar() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 4096];
            while stream.read(&mut asked).await.is_ok_and(|read| read > 0) {
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"slept\":100}")
                    .await
                    .unwrap();
            }
        });
        address
    }

    #[tokio::test]
    async fn a_call_that_waited_for_its_turn_has_not_slept_meanwhile() {
        let address = liar().await;
        let request = HttpRequest::new("POST", "/", address, &[], b"{}", 200);
        // Long enough for a stalled machine.
        let long = Duration::from_secs(10);
        let check: Check = Arc::new(move |_, _, took| match took >= long {
            true => Ok(()),
            false => Err("too early".into()),
        });
        let recorder = Recorder::new(address, vec![request].into(), check, Shown::new());
        let mut connection = recorder.connect().await.unwrap();
        let meant = Instant::now().checked_sub(long * 10).unwrap();
        let refused = connection.call_meant(0, meant).await.unwrap_err();
        assert!(matches!(&refused, ArmError::WrongAnswer(why) if why.starts_with("too early")), "{refused}");
        assert!(recorder.records(Caller::new(address)).await.unwrap().is_empty());
    }
}
