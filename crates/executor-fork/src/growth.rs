//! Makes a zygote of a function: starts a runtime, loads the code, warms it up and freezes it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use flint_executor::{Body, Call, CallEnd, CallHead, Fault, Progress, StartContext, link::Freeze};
use flint_model::{
    ActivationId, ByteSize, Function, InstanceId, Network, SnapshotReport, Timestamp, WarmupEvent,
};
use flint_runtimes::{
    House,
    discover::Runtime,
    handler::{BringUp, Candidate, Frozen, NotFrozen},
    prepare::artefact::Artefact,
    process::{command::SHIM, logs::Logs},
    stems::Stems,
};
use flint_sandbox::{CodeImage, SealSpec};
use http::{HeaderMap, HeaderValue, Method, header::CONTENT_TYPE};

use crate::{ForkConfig, zygote::Zygote};

/// How much of the log of loading and warm-up is kept for messages.
const MAX_LOGS: ByteSize = ByteSize::kib(64);
/// How long freezing may take beyond the warm-up.
const FREEZE_WITHIN: Duration = Duration::from_secs(20);
/// The longest answer to a warm-up call.
const MAX_RESULT: ByteSize = ByteSize::mib(64);

/// How long a zygote that no call waits for is made in the background at most, so that it is finished even on
/// a server that is never idle.
const LONGEST_IN_BACKGROUND: Duration = Duration::from_secs(1);

/// What a zygote is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Waiting calls: whatever only improves it, such as the warm-up, is left to its successor.
    Calls,
    /// A deploy.
    Deploy,
    /// To succeed the serving zygote, or to save later calls a slow start; no call waits for it.
    Succession,
}

impl Purpose {
    const fn is_thorough(self) -> bool {
        !matches!(self, Self::Calls)
    }

    /// How long it may be made in the background. At least half of the warm-up's time budget is left in the
    /// foreground.
    fn background(self, warmup_budget: Duration) -> Option<Duration> {
        match self {
            Self::Calls => None,
            Self::Deploy => Some(LONGEST_IN_BACKGROUND),
            Self::Succession => Some(LONGEST_IN_BACKGROUND + warmup_budget / 2),
        }
    }
}

/// The parameters of making a zygote.
pub(crate) struct Growth<'a> {
    pub(crate) house: &'a House,
    pub(crate) stems: &'a Stems,
    pub(crate) config: &'a ForkConfig,
    pub(crate) function: &'a Function,
    pub(crate) artefact: &'a Artefact,
    pub(crate) runtime: &'a Runtime,
    pub(crate) purpose: Purpose,
}

impl Growth<'_> {
    /// Makes a zygote, warmed up as the function asks unless calls wait for it. It contains nothing of any
    /// call.
    pub(crate) async fn grow(
        &self,
        progress: Progress<'_>,
    ) -> Result<(Arc<Zygote>, SnapshotReport), NotFrozen> {
        let (began, function, thorough) = (Instant::now(), self.function, self.purpose.is_thorough());
        let events: &[WarmupEvent] = if thorough { &function.snapshot.warmup } else { &[] };
        let candidate = self.load().await?;
        let (frozen, mut report) = match self.warm_up_and_freeze(candidate, events, progress).await {
            Err(NotFrozen::Broken(fault))
                if !events.is_empty() && !matches!(fault, Fault::Platform { .. }) =>
            {
                progress("starting again without warm-up");
                let candidate = self.load().await?;
                let (frozen, mut report) = self.warm_up_and_freeze(candidate, &[], progress).await?;
                report.notes.insert(0, format!("not warmed up: {fault}"));
                (frozen, report)
            }
            other => other?,
        };
        // From here on the function's code is for clones. The launcher stops the zygote while no fork is wanted,
        // so that what code left behind in it, such as a signal handler, does not run on without a call.
        if let Err(error) = frozen.sandbox().open_network().await {
            return Err(NotFrozen::Broken(Fault::Platform { cause: error.to_string() }));
        }
        report.kept = true;
        report.took_us = began.elapsed().as_micros().try_into().unwrap_or(u64::MAX);
        let thorough = thorough || !self.has_more_to_do();
        Ok((Zygote::new(frozen, function, thorough, self.config), report))
    }

    async fn warm_up_and_freeze(
        &self,
        candidate: Candidate,
        events: &[WarmupEvent],
        progress: Progress<'_>,
    ) -> Result<(Frozen, SnapshotReport), NotFrozen> {
        let mut notes = Vec::new();
        for (index, event) in events.iter().enumerate() {
            progress(&format!("warming up: event {} of {}", index + 1, events.len()));
            let (result, end) = candidate.warm_up(self.call(event)).await;
            if let Err(fault) = result {
                let last = end.logs.last().map(|line| format!(" (its last words: {})", line.text));
                let said = format!("warm-up event {} failed: {fault}{}", index + 1, last.unwrap_or_default());
                if !survived(&fault, &end) {
                    return Err(NotFrozen::Broken(Fault::Developer { message: said }));
                }
                notes.push(said);
            }
        }
        let options = &self.function.snapshot;
        let budget = if self.purpose.is_thorough() { self.config.warmup_budget } else { Duration::ZERO };
        let freeze = Freeze {
            calls: if events.is_empty() { 0 } else { self.config.warmup_calls },
            budget_ms: budget.as_millis().try_into().unwrap_or(u64::MAX),
            annotate: options.annotate && !events.is_empty(),
            jit: options.jit.filter(|_| events.len() == options.warmup.len()),
            huge_pages: self.config.huge_pages,
        };
        progress("freezing it");
        let deadline = Instant::now() + budget + FREEZE_WITHIN;
        let (frozen, mut report, sealed) = candidate.freeze(&freeze, &self.expect(), deadline).await?;
        notes.append(&mut report.notes);
        if !sealed.native_code.is_empty() {
            notes.push(format!(
                "native code of its own is in the snapshot: {}",
                sealed.native_code.join(", ")
            ));
        }
        report.notes = notes;
        (report.private_bytes, report.pss_bytes) = (sealed.private_bytes, sealed.pss_bytes);
        Ok((frozen, report))
    }

    async fn load(&self) -> Result<Candidate, NotFrozen> {
        let Self { house, stems, function, artefact, runtime, .. } = *self;
        let background = self.background();
        let bring_up = BringUp { house, stems, function, artefact, runtime, zygote: true, background };
        let context = StartContext {
            id: InstanceId(0),
            namespace: None,
            activation: None,
            transaction: "snapshot".into(),
            deadline: self.deadline(),
            environment: function.parameters.environment().collect(),
            max_logs: MAX_LOGS,
        };
        let mut logs = Logs::new(MAX_LOGS);
        match bring_up.run(&context, &mut logs).await {
            Ok((cell, _)) => Candidate::new(cell).await,
            Err(Fault::Developer { message }) if self.is_cut_off() => Err(NotFrozen::Refused(format!(
                "it does not load while it has no network: {message}. Connect in afterRestore, or allow the network with --warmup-network"
            ))),
            Err(fault) => Err(NotFrozen::Broken(fault)),
        }
    }

    /// Whether a thorough zygote would differ from one made for waiting calls.
    fn has_more_to_do(&self) -> bool {
        !self.function.snapshot.warmup.is_empty() || self.runtime.family.practises()
    }

    /// Whether loading and warm-up run without the network that calls have.
    fn is_cut_off(&self) -> bool {
        self.function.network == Network::Egress && !self.function.snapshot.warmup_network
    }

    fn background(&self) -> Option<Duration> {
        self.purpose.background(self.config.warmup_budget)
    }

    /// The function's time limit, plus the time that it may be held back in the background.
    fn deadline(&self) -> Instant {
        Instant::now() + self.function.limits.timeout + self.background().unwrap_or_default()
    }

    fn call(&self, event: &WarmupEvent) -> Call {
        let limit = self.function.limits.timeout;
        let json = event.content_type() == "application/json";
        let head = (!json).then(|| {
            let mut headers = HeaderMap::new();
            if let Ok(value) = HeaderValue::from_str(event.content_type()) {
                headers.insert(CONTENT_TYPE, value);
            }
            Box::new(CallHead { method: Method::POST, path: "/".into(), query: String::new(), headers })
        });
        Call {
            activation: ActivationId::generate(),
            transaction: "snapshot".into(),
            deadline: self.deadline(),
            deadline_at: Timestamp::from(std::time::SystemTime::now() + limit),
            head,
            body: Body::Full(event.body()),
            api_key: None,
            max_result: MAX_RESULT,
            max_logs: MAX_LOGS,
        }
    }

    /// What the runtime itself keeps at the freeze point.
    fn expect(&self) -> SealSpec {
        let own = [SHIM.to_owned(), CodeImage::MAPPING.to_owned()];
        let native_prefixes = self.runtime.mounts.iter().map(|mount| mount.target.clone()).chain(own);
        SealSpec {
            extra_threads: self.runtime.family.own_threads(),
            native_prefixes: native_prefixes.collect(),
            ..SealSpec::default()
        }
    }
}

/// Whether the runtime is usable after a warm-up call that failed like this: the code reported an error in an
/// orderly way.
fn survived(fault: &Fault, end: &CallEnd) -> bool {
    end.reusable || matches!(fault, Fault::Developer { .. })
}
