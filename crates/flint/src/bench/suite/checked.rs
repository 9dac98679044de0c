//! An arm whose responses are all verified by its workload.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use async_trait::async_trait;
use bytes::Bytes;
use flint_lab::{Arm, ArmError, Connection, HttpClient, HttpRequest};

use super::{manifest::Manifest, place::Place, shown::Shown};

/// Calls the copies of a function in turn.
pub(super) struct Checked {
    address: SocketAddr,
    requests: Arc<[HttpRequest]>,
    manifest: Arc<Manifest>,
    size: &'static str,
    shown: Shown,
}

impl Checked {
    pub(super) fn of(place: &Place) -> Self {
        Self {
            address: place.address(),
            requests: place.requests().into(),
            manifest: Arc::new(place.manifest().clone()),
            size: place.size,
            shown: place.shown().clone(),
        }
    }
}

struct Checking {
    address: SocketAddr,
    /// `None` after a server has closed it.
    client: Option<HttpClient>,
    requests: Arc<[HttpRequest]>,
    manifest: Arc<Manifest>,
    size: &'static str,
    shown: Shown,
    next: usize,
    /// The last correct response: an identical one need not be parsed again.
    right: Bytes,
}

#[async_trait]
impl Arm for Checked {
    async fn connect(&self) -> Result<Box<dyn Connection>, ArmError> {
        Ok(Box::new(Checking {
            address: self.address,
            client: Some(HttpClient::connect(self.address).await?),
            requests: Arc::clone(&self.requests),
            manifest: Arc::clone(&self.manifest),
            size: self.size,
            shown: self.shown.clone(),
            next: 0,
            right: Bytes::new(),
        }))
    }
}

#[async_trait]
impl Connection for Checking {
    async fn call(&mut self) -> Result<(), ArmError> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => HttpClient::connect(self.address).await?,
        };
        let sent = Instant::now();
        let answer = client.exchange(&self.requests[self.next % self.requests.len()]).await?;
        let took = sent.elapsed();
        self.next = self.next.wrapping_add(1);
        let body = || String::from_utf8_lossy(&answer.body[..answer.body.len().min(300)]).into_owned();
        if answer.status != 200 {
            return Err(ArmError::Status { status: answer.status, expected: 200, body: body() });
        }
        // The duration has to be checked each time.
        if answer.body != self.right || self.right.is_empty() || self.manifest.duration.is_some() {
            self.manifest
                .verify(self.size, &answer.body, took)
                .map_err(|why| ArmError::WrongAnswer(format!("{why}: {}", body())))?;
            self.right = answer.body.clone();
        }
        self.shown.see(&answer.body);
        let closes = answer.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        self.client = Some(client).filter(|_| !closes);
        Ok(())
    }
}
