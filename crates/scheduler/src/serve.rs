//! Serves a placed call: from its instance to the answer, with the stations of the timeline.

use std::{sync::Arc, time::Duration};

use flint_executor::{CallEnd, Fault, Invoked};
use flint_invoker::{Job, Lease, OVERDUE, Outcome, Ran, StartReport, StreamEnd};
use flint_model::{InstanceId, LogLine, Timeline, Timestamp};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};

use crate::{
    Scheduler,
    waiting::{Placed, Shown, Unplaced},
};

const ENDED: &str = "the server was shut down before the function had answered";

/// The timeline and measurements of a placed call.
struct Course {
    arrived: std::time::Instant,
    timeline: Timeline,
    start: Timestamp,
    init: Option<Duration>,
    instance: InstanceId,
    /// Log lines from loading the code.
    start_logs: Vec<LogLine>,
    /// Whether it is its instance's first call.
    first: bool,
    /// When it began to run.
    began: Instant,
}

impl Course {
    fn new(job: &Job, placed: Instant, lease: &mut Lease, asked: Instant) -> Self {
        let station = |at: Instant| micros(job.arrived, at);
        let mut course = Self {
            arrived: job.arrived,
            timeline: Timeline { placed: Some(station(placed)), ..Timeline::default() },
            start: Timestamp::now(),
            init: None,
            instance: lease.instance(),
            start_logs: Vec::new(),
            first: false,
            began: Instant::now(),
        };
        let Some(report) = lease.take_report() else { return course };
        let StartReport { began: start, began_at, started, restored, initialised, logs } = *report;
        course.start_logs = logs;
        course.first = true;
        let ready = start + initialised;
        // Warm, if the instance was ready before this call came. If the start was begun for an earlier call
        // that found another instance meanwhile, this call's share is only the part it waited for.
        if ready >= asked {
            let own = start.max(asked);
            course.timeline.placed = Some(station(own));
            course.timeline.started = Some(station(own.max(start + started)));
            course.timeline.restored = restored.map(|restored| station(own.max(start + restored)));
            course.timeline.initialised = Some(station(ready));
            course.start = Timestamp::from_millis(began_at.as_millis() + (own - start).as_millis() as u64);
            course.init = Some(ready - own);
        }
        course
    }

    /// Completes the timeline, and puts the start's log lines before the call's own.
    fn complete(&mut self, end: &mut CallEnd, ran: Instant) {
        self.timeline.ran = Some(micros(self.arrived, ran));
        self.timeline.collected = Some(micros(self.arrived, Instant::now()));
        if !self.start_logs.is_empty() {
            let mut logs = std::mem::take(&mut self.start_logs);
            logs.append(&mut end.logs);
            end.logs = logs;
        }
    }

    fn shown(&self, ran: Instant, end: &CallEnd) -> Shown {
        Shown {
            service: ran.saturating_duration_since(self.began),
            cpu: end.usage.cpu_us.map(Duration::from_micros),
            first: self.first,
        }
    }

    fn ran(self, outcome: Outcome) -> Ran {
        Ran {
            timeline: self.timeline,
            start: self.start,
            init: self.init,
            instance: Some(self.instance),
            outcome,
        }
    }
}

/// µs since the call arrived.
fn micros(arrived: std::time::Instant, at: Instant) -> u64 {
    at.into_std().saturating_duration_since(arrived).as_micros() as u64
}

/// The outcome of a call that got no instance.
pub(crate) fn unplaced(job: &Job, why: Unplaced) -> Ran {
    let now = Timestamp::now();
    let (start, timeline, outcome) = match why {
        Unplaced::Refused(refusal) => (now, Timeline::default(), Outcome::Refused(refusal)),
        Unplaced::NotStarted(failure) => {
            let took = failure.took;
            let placed = micros(job.arrived, Instant::now()).saturating_sub(took.as_micros() as u64);
            let start = Timestamp::from_millis(now.as_millis().saturating_sub(took.as_millis() as u64));
            (start, Timeline { placed: Some(placed), ..Timeline::default() }, Outcome::NotStarted(failure))
        }
    };
    Ran { timeline, start, init: None, instance: None, outcome }
}

impl Scheduler {
    /// Gives a placed call to its instance.
    pub(crate) async fn serve(self: &Arc<Self>, mut placed: Placed, job: Job, asked: Instant) -> Ran {
        let since = placed.since;
        let lease = placed.lease.as_mut().expect("a placed call has its lease until it is over");
        let mut course = Course::new(&job, since, lease, asked);
        let limit = job.function.limits.timeout;
        let deadline = course.began + limit;
        let mut call = job.call;
        call.deadline = deadline.into_std();
        call.deadline_at = Timestamp::from_millis(Timestamp::now().as_millis() + limit.as_millis() as u64);
        match lease.invoke(call).await {
            Invoked::Done { result, mut end } => {
                let ran = Instant::now();
                lease.settle(result.as_ref().err(), &end);
                course.complete(&mut end, ran);
                placed.finish(course.shown(ran, &end));
                let result = result.map_err(|fault| self.blamed(fault));
                course.ran(Outcome::Ended { result, end })
            }
            Invoked::Streaming { head, body, end } => {
                let (sender, receiver) = oneshot::channel();
                let rest = Course { start_logs: std::mem::take(&mut course.start_logs), ..course };
                self.tasks.spawn(finish_stream(placed, rest, deadline, end, sender));
                course.ran(Outcome::Streaming { head, body, end: receiver })
            }
        }
    }
}

impl Scheduler {
    /// The fault as reported to the caller: once a drain has run out of time, it is the drain that ends
    /// processes, and the function is not to blame.
    fn blamed(&self, fault: Fault) -> Fault {
        match fault {
            Fault::Exited { .. } if self.closing.is_cancelled() => {
                Fault::Platform { cause: ENDED.to_owned() }
            }
            fault => fault,
        }
    }
}

/// Waits for the end of a streamed answer, whether or not anybody still reads it.
async fn finish_stream(
    mut placed: Placed,
    mut course: Course,
    deadline: Instant,
    end: oneshot::Receiver<CallEnd>,
    sender: oneshot::Sender<StreamEnd>,
) {
    let end = timeout_at(deadline + OVERDUE, end).await;
    let ran = Instant::now();
    let lease = placed.lease.as_mut().expect("a placed call has its lease until it is over");
    let mut end = match end {
        Ok(Ok(end)) => end,
        Ok(Err(_)) => {
            let cause = "the executor did not say how the streamed answer ended".to_owned();
            CallEnd { fault: Some(Fault::Platform { cause }), ..CallEnd::default() }
        }
        Err(_) => CallEnd { fault: Some(Fault::Deadline), ..lease.overdue() },
    };
    lease.settle(end.fault.as_ref(), &end);
    course.complete(&mut end, ran);
    let scheduler = Arc::clone(&placed.scheduler);
    placed.finish(course.shown(ran, &end));
    end.fault = end.fault.map(|fault| scheduler.blamed(fault));
    // The receiver may be gone.
    let _ = sender.send(StreamEnd { end, timeline: course.timeline });
}
