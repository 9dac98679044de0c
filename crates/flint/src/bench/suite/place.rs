//! The target of a workload's calls: a Flint server, or a baseline.

use std::{net::SocketAddr, time::Duration};

use flint_lab::{HttpAnswer, HttpRequest, TreeMemory};

use super::{
    baseline::Baseline,
    belongings::Belongings,
    manifest::{Manifest, Values, Variant},
    samples::Sample,
    shown::Shown,
    site::{Options, Site},
    strategy::{By, Strategy},
};
use crate::bench::caller::{Called, Caller};

/// A workload that can be called in one way.
pub(super) struct Place {
    at: At,
    manifest: Manifest,
    pub(super) size: &'static str,
    /// Its time is in the records of several functions.
    is_chain: bool,
    /// No instance is left when its call is over.
    ends_with_its_call: bool,
    /// Keep-alive of idle instances.
    keep_alive: Duration,
    shown: Shown,
}

enum At {
    Flint(Box<Site>),
    Baseline(Box<Baseline>),
}

impl Place {
    pub(super) async fn open(
        manifest: &Manifest,
        variant: &Variant,
        strategy: &Strategy,
        mut options: Options,
    ) -> anyhow::Result<Self> {
        let size = options.size;
        let is_chain = variant.functions.len() > 1 || !variant.sequences.is_empty();
        let at = match strategy.by {
            By::Flint(wish) => {
                let mut site = Site::open(manifest, variant, wish, options.clone()).await?;
                let needed = outlasting(options.keep_alive, site.first_took);
                let stays = !wish.wasm && wish.asked.is_none_or(|(_, reuse)| reuse != "never");
                if is_chain && stays && needed > options.keep_alive {
                    options.keep_alive = needed;
                    // Releases the ports and the network of its back ends before others need them.
                    drop(site);
                    site = Site::open(manifest, variant, wish, options.clone()).await?;
                }
                At::Flint(Box::new(site))
            }
            By::Baseline(scripts) => {
                At::Baseline(Baseline::start(manifest, variant, scripts, &options)?.into())
            }
        };
        Ok(Self {
            at,
            manifest: manifest.clone(),
            size,
            is_chain,
            ends_with_its_call: strategy.ends_with_its_call(),
            keep_alive: options.keep_alive,
            shown: Shown::new(),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        match &self.at {
            At::Flint(site) => site.address(),
            At::Baseline(baseline) => baseline.address,
        }
    }

    pub(super) fn caller(&self) -> Caller {
        Caller::new(self.address())
    }

    /// One request per copy.
    pub(super) fn requests(&self) -> &[HttpRequest] {
        match &self.at {
            At::Flint(site) => &site.requests,
            At::Baseline(baseline) => &baseline.requests,
        }
    }

    /// A request with other arguments, by copy.
    pub(super) fn request(&self, copy: usize, params: &serde_json::Value) -> HttpRequest {
        match &self.at {
            At::Flint(site) => site.request(copy, params),
            At::Baseline(baseline) => baseline.request(copy, params),
        }
    }

    /// How Flint runs the entry, in its own words.
    pub(super) fn chosen(&self) -> &str {
        match &self.at {
            At::Flint(site) => &site.chosen,
            At::Baseline(_) => "",
        }
    }

    /// Versions of the baseline or the back ends, as far as known.
    pub(super) fn versions(&self) -> Vec<(String, String)> {
        match &self.at {
            At::Flint(site) => site.back_ends.versions(),
            At::Baseline(baseline) => baseline.versions(),
        }
    }

    /// Everything that belongs to the functions.
    pub(super) fn belongings(&self) -> Belongings {
        match &self.at {
            At::Flint(site) => site.belongings(),
            At::Baseline(baseline) => baseline.belongings(),
        }
    }

    /// Their memory right after a response: with the instances that stay, and without those about to end. A
    /// process that is half gone is not counted, since each look would find a different half.
    pub(super) async fn memory_between_calls(&self) -> TreeMemory {
        let belongings = self.belongings();
        if self.ends_with_its_call {
            belongings.settle().await;
        }
        belongings.memory().0
    }

    pub(super) const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Time without a call after which no instance is left: idle ones are looked for every quarter of the
    /// keep-alive, and take a moment to stop.
    pub(super) fn gone_after(&self) -> Duration {
        self.keep_alive.mul_f64(1.25) + Duration::from_millis(550)
    }

    /// Responses to be verified by the workload's own program.
    pub(super) const fn shown(&self) -> &Shown {
        &self.shown
    }

    /// Verifies recent responses by the workload's own program; an arm with a wrong one has no figures.
    pub(super) fn judge(&self) -> anyhow::Result<()> {
        let none = Values::new();
        let values = match &self.at {
            At::Flint(site) => &site.back_ends.values,
            // It reaches no back ends.
            At::Baseline(_) => &none,
        };
        self.shown.judge(&self.manifest, self.size, values)
    }

    /// Makes one call, verified, with its stations.
    pub(super) async fn call(&self, caller: &mut Caller, request: &HttpRequest) -> anyhow::Result<Sample> {
        let began = std::time::SystemTime::now();
        let (answer, latency) =
            caller.answered(request, &|body, took| self.manifest.verify(self.size, body, took)).await?;
        self.shown.see(&answer.body);
        let sample = self.sample(caller, &answer, latency, began).await?;
        Ok(Sample { said: self.manifest.said(&answer.body), ..sample })
    }

    async fn sample(
        &self,
        caller: &mut Caller,
        answer: &HttpAnswer,
        latency: Duration,
        began: std::time::SystemTime,
    ) -> anyhow::Result<Sample> {
        match Called::of(answer, latency) {
            None => Ok(baseline_sample(answer, latency)),
            Some(called) => {
                let stations = caller.stations(&called).await?;
                let sample = Sample::of(&called, stations);
                if !self.is_chain {
                    return Ok(sample);
                }
                // Its own record is written last.
                Ok(Sample::of_chain(&called, &caller.since(began).await?))
            }
        }
    }
}

/// The keep-alive for the parts of a chain, so that they are there when it is called again: between its
/// turns, a part is idle for nearly as long as the whole chain takes. `took` is the first, cold call.
fn outlasting(usual: Duration, took: Option<Duration>) -> Duration {
    usual.max(took.unwrap_or_default() * 2)
}

/// A baseline's sample of a call.
pub(super) fn baseline_sample(answer: &HttpAnswer, latency: Duration) -> Sample {
    let us = |name: &str| answer.header(name).and_then(|value| value.parse().ok());
    Sample {
        latency: latency.as_secs_f64() * 1e6,
        start: us("x-start-us"),
        init: us("x-init-us"),
        run: us("x-run-us"),
        wait: None,
        waits: None,
        cpu: None,
        said: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_long_chain_are_kept_longer_than_it_takes() {
        let second = Duration::from_secs(1);
        assert_eq!(outlasting(second, None), second);
        assert_eq!(outlasting(second, Some(second / 5)), second);
        assert_eq!(outlasting(second, Some(second * 3)), second * 6);
    }
}
