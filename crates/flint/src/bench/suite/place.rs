//! Where a workload is called: a Flint server, or a baseline.

use std::net::SocketAddr;

use flint_lab::{HttpAnswer, HttpRequest};

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

/// A workload that can be called, in one way.
pub(super) struct Place {
    at: At,
    manifest: Manifest,
    pub(super) size: &'static str,
    /// Its time is in the records of several functions.
    is_chain: bool,
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
        options: Options,
    ) -> anyhow::Result<Self> {
        let size = options.size;
        let at = match strategy.by {
            By::Flint(wish) => At::Flint(Box::new(Site::open(manifest, variant, wish, options).await?)),
            By::Baseline(scripts) => {
                At::Baseline(Baseline::start(manifest, variant, scripts, &options)?.into())
            }
        };
        let is_chain = variant.functions.len() > 1 || !variant.sequences.is_empty();
        Ok(Self { at, manifest: manifest.clone(), size, is_chain, shown: Shown::new() })
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

    /// A request for each copy.
    pub(super) fn requests(&self) -> &[HttpRequest] {
        match &self.at {
            At::Flint(site) => &site.requests,
            At::Baseline(baseline) => &baseline.requests,
        }
    }

    /// The same with other arguments, by copy.
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

    /// Releases of the baseline or the back ends, by their names, as far as these say them.
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

    pub(super) const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Answers that the workload's own program is to be shown.
    pub(super) const fn shown(&self) -> &Shown {
        &self.shown
    }

    /// Shows the workload's own program answers of what was just measured; an arm with a wrong one has no figures.
    pub(super) fn judge(&self) -> anyhow::Result<()> {
        let none = Values::new();
        let values = match &self.at {
            At::Flint(site) => &site.back_ends.values,
            // It reaches no back ends.
            At::Baseline(_) => &none,
        };
        self.shown.judge(&self.manifest, self.size, values)
    }

    /// One call, judged, with where its time went.
    pub(super) async fn call(&self, caller: &mut Caller, request: &HttpRequest) -> anyhow::Result<Sample> {
        let began = std::time::SystemTime::now();
        let (answer, latency) =
            caller.answered(request, &|body, took| self.manifest.verify(self.size, body, took)).await?;
        self.shown.see(&answer.body);
        match Called::of(&answer, latency) {
            None => Ok(baseline_sample(&answer, latency)),
            Some(called) => {
                let stations = caller.stations(&called).await?;
                let sample = Sample::of(&called, stations);
                if !self.is_chain {
                    return Ok(sample);
                }
                // Its own record is there last.
                Ok(Sample::of_chain(&called, &caller.since(began).await?))
            }
        }
    }
}

/// What a baseline says of a call.
pub(super) fn baseline_sample(answer: &HttpAnswer, latency: std::time::Duration) -> Sample {
    let us = |name: &str| answer.header(name).and_then(|value| value.parse().ok());
    Sample {
        latency: latency.as_secs_f64() * 1e6,
        start: us("x-start-us"),
        init: us("x-init-us"),
        run: us("x-run-us"),
        wait: None,
        cpu: None,
    }
}
