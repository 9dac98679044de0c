//! Records accepted and not yet written and durable: a bounded queue that sheds.

use std::{collections::VecDeque, sync::Arc};

use flint_model::{Activation, Annotations, LogLine, LogStream};
use flint_store::StoreError;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::{
    body,
    frame::{MAX_PART, Meta},
    key::Key,
};
use crate::LogTuning;

/// In place of log lines that were shed.
const LEFT_OUT: &str = "(left out: there was more to record than could be written)";

/// In place of a result, or of annotations, that no frame has room for.
const TOO_LONG: &str = "(left out: a record has room for 64 MB of result and annotations together)";
/// What a log line takes beside its text when it is written, at most; what their number takes is no more.
const LINE: usize = 21;
/// Result and annotations together of which it need not be asked whether they fit into a frame: what goes with them is less than the rest of it.
const FITS: usize = MAX_PART / 4;

/// An accepted record.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The record; its `logs` are apart.
    record: Activation,
    logs: Vec<LogLine>,
    /// `name`, or `package/name`.
    name: String,
    /// What it takes in memory, about.
    bytes: usize,
}

impl Stored {
    pub(crate) fn new(mut record: Activation) -> Self {
        let logs = std::mem::take(&mut record.logs);
        let mut name = String::new();
        record.listed_name(&mut name);
        fit(&mut record);
        let texts: usize = logs.iter().map(|line| line.text.len()).sum();
        // Twice the struct, for the small texts behind its pointers.
        let bytes = 2 * size_of::<Self>() + result_bytes(&record) + logs.len() * size_of::<LogLine>() + texts;
        let written = (logs.len() + 1) * LINE + texts;
        let mut stored = Self { record, logs, name, bytes };
        if written > MAX_PART {
            stored.strip();
        }
        stored
    }

    /// The record as it came, but for log lines that were left out.
    pub(crate) fn into_record(self) -> Activation {
        Activation { logs: self.logs, ..self.record }
    }

    /// Whether it has log lines that can be left out.
    fn has_logs(&self) -> bool {
        self.logs.iter().any(|line| line.text != LEFT_OUT)
    }

    /// Leaves the log lines out, and says so in their place; returns them so that the caller frees them at leisure.
    fn strip(&mut self) -> Vec<LogLine> {
        let time_us = self.logs.first().map_or(0, |line| line.time_us);
        let said = vec![LogLine { time_us, stream: LogStream::Stderr, text: LEFT_OUT.to_owned() }];
        let logs = std::mem::replace(&mut self.logs, said);
        self.bytes = self.bytes - log_bytes(&logs) + log_bytes(&self.logs);
        logs
    }

    pub(crate) fn record(&self) -> &Activation {
        &self.record
    }

    pub(crate) fn logs(&self) -> &[LogLine] {
        &self.logs
    }

    pub(crate) fn meta(&self) -> Meta<'_> {
        Meta {
            key: Key::of(self.record.start, self.record.id),
            namespace: self.record.namespace.as_str(),
            name: &self.name,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A copy as readers get it.
    pub(crate) fn to_activation(&self, with_logs: bool) -> Activation {
        let logs = if with_logs { self.logs.clone() } else { Vec::new() };
        Activation { logs, ..self.record.clone() }
    }
}

/// Leaves out what a frame has no room for, of result and annotations the larger first. So there is always a record.
fn fit(record: &mut Activation) {
    let annotations = |record: &Activation| record.annotations.json().map_or(0, str::len);
    if result_bytes(record) + annotations(record) <= FITS {
        return;
    }
    for _ in 0..2 {
        if body_bytes(record) <= MAX_PART {
            return;
        }
        if result_bytes(record) >= annotations(record) {
            record.response.result = too_long();
        } else {
            record.annotations = Annotations::default();
            record.annotations.set("left_out", TOO_LONG);
        }
    }
}

/// What a record takes as it is written, without its log lines.
fn body_bytes(record: &mut Activation) -> usize {
    let result = record.response.result.take(); // its length is known
    let mut rest = Vec::new();
    let written = body::encode(record, &mut rest);
    record.response.result = result;
    written.map_or(0, |()| rest.len() + body::RESULT.len() + result_bytes(record))
}

fn result_bytes(record: &Activation) -> usize {
    record.response.result.as_ref().map_or(0, |result| result.get().len())
}

/// In place of a result that no record has room for: an object, as clients expect of a result.
fn too_long() -> Option<Box<RawValue>> {
    serde_json::value::to_raw_value(&serde_json::json!({ "left_out": TOO_LONG })).ok()
}

fn log_bytes(logs: &[LogLine]) -> usize {
    logs.iter().map(|line| size_of::<LogLine>() + line.text.len()).sum()
}

/// What became of an append.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Accepted; `true` when it is time to wake the log's thread.
    Whole(bool),
    /// Accepted without its log lines, because the queue is more than half full.
    Stripped(bool),
}

/// There is no room for it.
#[derive(Debug)]
pub(crate) struct Full(pub(crate) Box<Stored>);

/// What the log's thread does: so that it is woken once, and only when it must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thread {
    /// It writes.
    Busy,
    /// It lets records gather; a crowd wakes it.
    Gathering,
    /// There was nothing to do; any record wakes it.
    Asleep,
}

/// Somebody who waits until all that is pending is durable.
pub(crate) type Flush = oneshot::Sender<Result<(), StoreError>>;

/// The queue.
#[derive(Debug)]
pub(crate) struct Pending {
    records: VecDeque<Arc<Stored>>,
    bytes: usize,
    most_records: usize,
    most_bytes: usize,
    pub(crate) flushes: Vec<Flush>,
    pub(crate) thread: Thread,
    /// No more records are taken.
    pub(crate) closed: bool,
}

impl Pending {
    pub(crate) fn new(tuning: &LogTuning) -> Self {
        Self {
            records: VecDeque::new(),
            bytes: 0,
            most_records: tuning.pending_records,
            most_bytes: tuning.pending_bytes.as_u64() as usize,
            flushes: Vec::new(),
            thread: Thread::Busy,
            closed: false,
        }
    }

    /// Takes a record by the policy of the trait. A `promised` one that is larger than all the room there is fits when nothing else is there.
    pub(crate) fn push(
        &mut self,
        mut stored: Stored,
        discarded: &mut Vec<LogLine>,
        promised: bool,
    ) -> Result<Taken, Full> {
        let crowded =
            self.records.len() >= self.most_records / 2 || self.bytes + stored.bytes > self.most_bytes / 2;
        // One that is large by itself is no crowd.
        let fits_alone = self.records.is_empty() && stored.bytes <= self.most_bytes;
        let shed = crowded && !fits_alone && stored.has_logs();
        if shed {
            *discarded = stored.strip();
        }
        if self.closed
            || self.records.len() >= self.most_records
            || (self.bytes + stored.bytes > self.most_bytes && !(promised && self.records.is_empty()))
        {
            return Err(Full(Box::new(stored)));
        }
        self.bytes += stored.bytes;
        self.records.push_back(Arc::new(stored));
        let wake = match self.thread {
            Thread::Asleep => true,
            Thread::Gathering => crowded,
            Thread::Busy => false,
        };
        if wake {
            self.thread = Thread::Busy;
        }
        Ok(if shed { Taken::Stripped(wake) } else { Taken::Whole(wake) })
    }

    /// Forgets the first `count` records: they are written, and durable.
    pub(crate) fn written(&mut self, count: usize) {
        for stored in self.records.drain(..count) {
            self.bytes -= stored.bytes;
        }
    }

    /// Whether it is half full: from here on it sheds.
    pub(crate) fn is_crowded(&self) -> bool {
        self.records.len() >= self.most_records / 2 || self.bytes > self.most_bytes / 2
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.records.iter()
    }
}
