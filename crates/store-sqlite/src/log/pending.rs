//! Records accepted and not yet written and durable: a bounded queue that sheds.

use std::{collections::VecDeque, sync::Arc};

use flint_model::{Activation, LogLine, LogStream};
use flint_store::StoreError;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::{frame::Meta, key::Key};
use crate::LogTuning;

/// In place of log lines that were shed.
const LEFT_OUT: &str = "(left out: there was more to record than could be written)";

/// The most bytes of a result, and of log lines as they are written, that a record keeps. A frame has room for a result and for what goes with it.
const PART_MAX: usize = 48 << 20;
/// What a log line takes beside its text, at most.
const LINE: usize = 21;

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
        let length = |record: &Activation| record.response.result.as_ref().map_or(0, |it| it.get().len());
        if length(&record) > PART_MAX {
            record.response.result = too_long();
        }
        let result = length(&record);
        // Twice the struct, for the small texts behind its pointers.
        let bytes = 2 * size_of::<Self>() + result + log_bytes(&logs);
        let mut stored = Self { record, logs, name, bytes };
        if stored.logs.iter().map(|line| LINE + line.text.len()).sum::<usize>() > PART_MAX {
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

/// In place of a result that no record has room for: an object, as clients expect of a result.
fn too_long() -> Option<Box<RawValue>> {
    let said = format!("(left out: a record keeps results of up to {PART_MAX} bytes)");
    serde_json::value::to_raw_value(&serde_json::json!({ "left_out": said })).ok()
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
