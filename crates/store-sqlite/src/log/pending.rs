//! Records accepted and not yet durable: a bounded queue that sheds.

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

/// Replaces log lines that were shed: OpenWhisk's text for lines that could not be collected, and the reason.
const LEFT_OUT: &str = "There was an issue while collecting your logs. Data might be missing. \
     (There was more to record than could be written.)";

/// Replaces a result or annotations that do not fit into a frame.
const TOO_LONG: &str = "(left out: a record has room for 64 MB of result and annotations together)";
/// Maximum encoded size of a log line besides its text; their count takes no more.
const LINE: usize = 21;
/// Total size of result and annotations that certainly fits into a frame: the other fields take less than the
/// rest.
const FITS: usize = MAX_PART / 4;

/// An accepted record.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The record; its `logs` are kept separately.
    record: Activation,
    logs: Vec<LogLine>,
    /// `name`, or `package/name`.
    name: String,
    /// Its approximate memory use.
    bytes: usize,
}

impl Stored {
    pub(crate) fn new(mut record: Activation) -> Self {
        let logs = std::mem::take(&mut record.logs);
        let mut name = String::new();
        record.listed_name(&mut name);
        fit(&mut record);
        let texts: usize = logs.iter().map(|line| line.text.len()).sum();
        // Twice the struct, for the short strings behind its pointers.
        let bytes = 2 * size_of::<Self>() + result_bytes(&record) + logs.len() * size_of::<LogLine>() + texts;
        let written = (logs.len() + 1) * LINE + texts;
        let mut stored = Self { record, logs, name, bytes };
        if written > MAX_PART {
            stored.strip();
        }
        stored
    }

    /// The record as accepted, except for shed log lines.
    pub(crate) fn into_record(self) -> Activation {
        Activation { logs: self.logs, ..self.record }
    }

    /// Whether it has log lines that can be shed.
    fn has_logs(&self) -> bool {
        self.logs.iter().any(|line| line.text != LEFT_OUT)
    }

    /// Replaces the log lines by a note; returns them so that the caller can free them outside the lock.
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

    /// A copy for readers.
    pub(crate) fn to_activation(&self, with_logs: bool) -> Activation {
        let logs = if with_logs { self.logs.clone() } else { Vec::new() };
        Activation { logs, ..self.record.clone() }
    }
}

/// Drops result or annotations, the larger first, until the record fits into a frame, so that there always is
/// a record.
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

/// The encoded size of a record without its log lines.
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

/// Replaces a result that fits into no record: an object, as clients expect a result to be.
fn too_long() -> Option<Box<RawValue>> {
    serde_json::value::to_raw_value(&serde_json::json!({ "left_out": TOO_LONG })).ok()
}

fn log_bytes(logs: &[LogLine]) -> usize {
    logs.iter().map(|line| size_of::<LogLine>() + line.text.len()).sum()
}

/// The result of an append.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Accepted; `true` if the log's thread has to be woken.
    Whole(bool),
    /// Accepted without its log lines, because the queue is more than half full.
    Stripped(bool),
}

/// There is no room for the record.
#[derive(Debug)]
pub(crate) struct Full(pub(crate) Box<Stored>);

/// The state of the log's thread, which decides who has to wake it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thread {
    /// Writing: nobody wakes it.
    Busy,
    /// Letting records gather; a crowded queue wakes it.
    Gathering,
    /// Idle; any record wakes it.
    Asleep,
}

/// A caller that waits until all pending records are durable.
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
    /// No more records are accepted.
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

    /// Accepts a record by the policy of the trait. A `promised` record larger than the whole queue is
    /// accepted into an empty one.
    pub(crate) fn push(
        &mut self,
        mut stored: Stored,
        discarded: &mut Vec<LogLine>,
        promised: bool,
    ) -> Result<Taken, Full> {
        let crowded =
            self.records.len() >= self.most_records / 2 || self.bytes + stored.bytes > self.most_bytes / 2;
        // A single large record does not make a crowd.
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

    /// Removes the first `count` records, which are durable.
    pub(crate) fn written(&mut self, count: usize) {
        for stored in self.records.drain(..count) {
            self.bytes -= stored.bytes;
        }
    }

    /// Whether it is half full: from there on it sheds.
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
