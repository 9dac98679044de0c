//! Activation records: made from the outcome of a call, counted and kept.

use std::time::Duration;

use flint_executor::CallEnd;
use flint_model::{
    Activation, ActivationId, Annotations, Attempt, FiredRule, FunctionPath, NamespaceName, Response,
    Timeline, Timestamp, Trigger, Version, now_us,
};
use flint_store::StoreError;
use flint_telemetry::{Finished, StartKind};

use crate::{
    Caller, Controller,
    call::Admitted,
    outcome::{Verdict, truncated_line},
};

/// Wait between attempts at a log that cannot be written.
const UNWRITABLE: Duration = Duration::from_secs(1);

/// How long an answer that names a record waits for the log. Longer, and clients would repeat a request that
/// was carried out.
const PATIENCE: Duration = Duration::from_secs(5);

/// A start faster than this used a prewarmed runtime: a new process takes longer.
const PREWARMED_WITHIN_US: u64 = 50;

/// What is known about an attempt besides its verdict.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft {
    pub(crate) timeline: Timeline,
    pub(crate) start: Timestamp,
    pub(crate) init: Option<Duration>,
    /// Whether its instance was cold; `None` when it had none.
    pub(crate) cold_or_warm: Option<bool>,
    /// Time of initialisation and run, if the timeline does not have it.
    pub(crate) took: Option<Duration>,
}

impl Draft {
    /// The draft of a call that was never attempted.
    pub(crate) fn none() -> Self {
        let (timeline, start) = (Timeline::default(), Timestamp::now());
        Self { timeline, start, init: None, cold_or_warm: None, took: Some(Duration::ZERO) }
    }

    fn wait_us(&self) -> u64 {
        self.timeline.placed.or(self.timeline.queued).unwrap_or(0)
    }

    fn duration_us(&self) -> u64 {
        let by_timeline = || self.timeline.ran.map_or(0, |ran| ran.saturating_sub(self.wait_us()));
        self.took.map_or_else(by_timeline, micros)
    }

    fn start_kind(&self) -> Option<StartKind> {
        Some(match self.cold_or_warm? {
            false => StartKind::Warm,
            true => match (self.timeline.placed, self.timeline.started) {
                (Some(placed), Some(started)) if started <= placed + PREWARMED_WITHIN_US => {
                    StartKind::Prewarmed
                }
                _ => StartKind::Cold,
            },
        })
    }
}

fn micros(duration: Duration) -> u64 {
    duration.as_micros() as u64
}

/// The record of an attempt.
pub(crate) fn of_attempt(
    call: &Admitted,
    draft: &Draft,
    verdict: Verdict,
    end: CallEnd,
    attempts: Vec<Attempt>,
) -> Activation {
    let function = &call.callable.function;
    let mut logs = end.logs;
    if end.logs_truncated {
        logs.push(truncated_line(function.limits.logs, now_us()));
    }
    logs.extend(verdict.note_lines(now_us));
    let (start, duration_us) = (draft.start.max(call.created), draft.duration_us());
    let mut annotations = call.callable.annotations.clone();
    if call.cause.is_some() {
        annotations.set("causedBy", "sequence");
    }
    Activation {
        id: call.id,
        namespace: call.namespace.clone(),
        name: function.path.name.clone(),
        path: function.path.clone(),
        version: function.version,
        kind: Some(function.kind.clone()),
        subject: call.subject.as_ref().to_owned(),
        cause: call.cause,
        start,
        end: Timestamp::from_millis(start.as_millis() + duration_us / 1000),
        duration_us,
        init_us: draft.init.map(micros),
        wait_us: draft.wait_us(),
        timeline: draft.timeline,
        response: verdict.response,
        usage: end.usage,
        timed_out: verdict.timed_out,
        attempts,
        logs,
        components: Vec::new(),
        fired: Vec::new(),
        annotations,
    }
}

/// The record as returned to a caller at once, without logs, which may come later.
pub(crate) fn without_logs(record: &mut Activation) -> Activation {
    let logs = std::mem::take(&mut record.logs);
    let shown = record.clone();
    record.logs = logs;
    shown
}

/// The record of an accepted call without a final attempt: its function is gone, or its attempts are used up.
/// `created` is when its namespace was.
pub(crate) fn of_nothing(
    id: ActivationId,
    namespace: NamespaceName,
    subject: String,
    path: FunctionPath,
    verdict: Verdict,
    attempts: Vec<Attempt>,
    created: Timestamp,
) -> Activation {
    let now = Timestamp::now().max(created);
    Activation {
        id,
        namespace,
        name: path.name.clone(),
        path,
        version: Version::FIRST,
        kind: None,
        subject,
        cause: None,
        start: now,
        end: now,
        duration_us: 0,
        init_us: None,
        wait_us: 0,
        timeline: Timeline::default(),
        response: verdict.response,
        usage: flint_model::Usage::default(),
        timed_out: false,
        attempts,
        logs: Vec::new(),
        components: Vec::new(),
        fired: Vec::new(),
        annotations: Annotations::default(),
    }
}

/// The record of a trigger that has fired.
pub(crate) fn of_trigger(
    id: ActivationId,
    caller: &Caller,
    trigger: &Trigger,
    response: Response,
    fired: Vec<FiredRule>,
) -> Activation {
    let now = Timestamp::now().max(caller.namespace.created);
    Activation {
        id,
        namespace: caller.namespace.name.clone(),
        name: trigger.name.clone(),
        path: FunctionPath::new(trigger.namespace.clone(), trigger.name.clone()),
        version: trigger.version,
        kind: None,
        subject: caller.subject.as_ref().to_owned(),
        cause: None,
        start: now,
        end: now,
        duration_us: 0,
        init_us: None,
        wait_us: 0,
        timeline: Timeline::default(),
        response,
        usage: flint_model::Usage::default(),
        timed_out: false,
        attempts: Vec::new(),
        logs: Vec::new(),
        components: Vec::new(),
        fired,
        annotations: Annotations::default(),
    }
}

impl Controller {
    /// Counts a finished call, and keeps its record if its namespace keeps records.
    pub(crate) fn conclude(&self, call: &Admitted, draft: &Draft, record: Activation) {
        self.count(call, draft, &record);
        if call.recorded {
            self.stores.activations.append(record);
        }
    }

    /// Keeps a record that was promised, waiting while the log is full. `false` when the server stops first.
    pub(crate) async fn keep(&self, mut record: Activation) -> bool {
        loop {
            match self.stores.activations.offer(record) {
                Ok(()) => return true,
                Err(again) => record = *again,
            }
            let room = async {
                if self.stores.activations.flush().await.is_err() {
                    tokio::time::sleep(UNWRITABLE).await;
                }
            };
            tokio::select! {
                () = self.stopped.cancelled() => return false,
                () = room => {}
            }
        }
    }

    /// Keeps a record whose id is about to be returned, and waits until it is durable. A log that cannot be
    /// written, or not within [`PATIENCE`], is no reason to refuse what has already happened: such a record
    /// is written later, or shed and counted.
    pub(crate) async fn write_down(&self, record: Activation) {
        let (log, id) = (&self.stores.activations, record.id);
        let mut left = Some(record);
        let writing = async {
            while let Some(record) = left.take() {
                left = log.offer(record).err().map(|again| *again);
                // Makes it durable, or makes room for it.
                log.flush().await?;
            }
            Ok::<_, StoreError>(())
        };
        let failed = tokio::select! {
            biased;
            written = writing => written.err().map(|error| error.to_string()),
            () = self.stopped.cancelled() => Some("the server has stopped".to_owned()),
            () = tokio::time::sleep(PATIENCE) => Some(format!("it takes longer than {PATIENCE:?}")),
        };
        if let Some(record) = left {
            log.append(record);
        }
        if let Some(error) = failed {
            tracing::error!(activation = %id, error, "a record that was promised is not on disk: it is lost if the log sheds it or the server dies");
        }
    }

    /// Counts a finished attempt.
    pub(crate) fn count(&self, call: &Admitted, draft: &Draft, record: &Activation) {
        let (duration, init) = (record.duration_us, record.init_us.unwrap_or(0));
        // Built-in functions have no instance.
        let ran = draft.cold_or_warm.is_some() || call.callable.built_in.is_some();
        call.callable.counters(&self.metrics).finished(&Finished {
            status: record.response.status.code(),
            wait: Duration::from_micros(record.wait_us),
            // Initialisation never began if the function could not be prepared.
            init: draft.init.filter(|init| !init.is_zero()),
            run: ran.then(|| Duration::from_micros(duration.saturating_sub(init))),
            start: draft.start_kind(),
        });
    }
}
