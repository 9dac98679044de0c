//! An arm that notes every call, so that its activation record can be asked for afterwards.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use async_trait::async_trait;
use flint_lab::{Arm, ArmError, Connection, HttpClient, HttpRequest};
use serde::{Deserialize, Serialize};

use super::{manifest::Manifest, samples::Sample, site::Site};
use crate::bench::caller::{Called, Caller};

/// A call with its record.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Recorded {
    /// When it was answered, in seconds since the load began.
    pub(super) at_s: f64,
    /// What the schedule said to call.
    pub(super) which: usize,
    pub(super) sample: Sample,
}

/// Calls as they were noted.
struct Noted {
    at_s: f64,
    which: usize,
    called: Called,
}

/// Calls the copies of a site's function: copy n when the schedule says n.
pub(super) struct Recorder {
    address: SocketAddr,
    requests: Arc<[HttpRequest]>,
    manifest: Arc<Manifest>,
    size: &'static str,
    begin: Instant,
    noted: Arc<Mutex<Vec<Noted>>>,
}

impl Recorder {
    pub(super) fn of(site: &Site) -> Self {
        Self {
            address: site.address(),
            requests: site.requests.clone().into(),
            manifest: Arc::new(site.manifest.clone()),
            size: site.options.size,
            begin: Instant::now(),
            noted: Arc::default(),
        }
    }

    /// Every call that was answered rightly, with what its record says, in the order of the answers.
    pub(super) async fn records(&self, mut caller: Caller) -> anyhow::Result<Vec<Recorded>> {
        let noted = std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner));
        let mut records = Vec::with_capacity(noted.len());
        for Noted { at_s, which, called } in noted {
            let stations = caller.stations(&called).await?;
            records.push(Recorded { at_s, which, sample: Sample::of(&called, stations) });
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
            manifest: Arc::clone(&self.manifest),
            size: self.size,
            begin: self.begin,
            noted: Arc::clone(&self.noted),
        }))
    }
}

struct Recording {
    client: HttpClient,
    requests: Arc<[HttpRequest]>,
    manifest: Arc<Manifest>,
    size: &'static str,
    begin: Instant,
    noted: Arc<Mutex<Vec<Noted>>>,
}

#[async_trait]
impl Connection for Recording {
    async fn call(&mut self) -> Result<(), ArmError> {
        self.call_which(0).await
    }

    async fn call_which(&mut self, which: usize) -> Result<(), ArmError> {
        let sent = Instant::now();
        let answer = self.client.exchange(&self.requests[which % self.requests.len()]).await?;
        let latency = sent.elapsed();
        let body = || String::from_utf8_lossy(&answer.body[..answer.body.len().min(300)]).into_owned();
        if answer.status != 200 {
            return Err(ArmError::Status { status: answer.status, expected: 200, body: body() });
        }
        self.manifest
            .verify(self.size, &answer.body)
            .map_err(|why| ArmError::WrongAnswer(format!("{why}: {}", body())))?;
        let activation = answer
            .header("x-flint-activation-id")
            .ok_or_else(|| ArmError::WrongAnswer("an answer without its activation".into()))?
            .to_owned();
        let noted =
            Noted { at_s: self.begin.elapsed().as_secs_f64(), which, called: Called { latency, activation } };
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).push(noted);
        Ok(())
    }
}
