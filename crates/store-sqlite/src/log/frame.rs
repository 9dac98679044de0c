//! One record in a segment.
//!
//! ```text
//! header  28 B   magic, three lengths, checksum of meta and body, checksum of logs, checksum of this header (all u32, little-endian)
//! meta           start (8 B), id (16 B), namespace and name, each with its length (u16): all that the index needs
//! body           the record as JSON, without its logs
//! logs           see `lines`
//! ```
//! Logs have a checksum of their own, so that lists read neither them nor past them.

use std::io::{self, Read};

use flint_model::{Activation, LogLine};

use super::{body, key::Key, lines};

/// "FRec".
const MAGIC: u32 = u32::from_le_bytes(*b"FRec");
/// Bytes of a frame's header.
pub(crate) const HEADER: usize = 28;
/// No part of a frame is longer: what claims to be is no frame. A record carries at most 1 MB of result and 10 MB of logs.
const MAX_PART: usize = 64 << 20;

/// Where a frame is in its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// Of its first byte.
    pub(crate) offset: u64,
    /// Bytes of header, meta and body.
    pub(crate) head: u32,
    /// Bytes of logs.
    pub(crate) logs: u32,
}

/// What the index knows of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta<'a> {
    pub(crate) key: Key,
    pub(crate) namespace: &'a str,
    /// `name`, or `package/name`.
    pub(crate) name: &'a str,
}

/// Appends the frame of `record` (whose `logs` are empty) with `logs`; `None`, and nothing appended, when a part is too long.
pub(crate) fn encode(
    record: &Activation,
    name: &str,
    logs: &[LogLine],
    out: &mut Vec<u8>,
) -> Option<Location> {
    let begin = out.len();
    out.resize(begin + HEADER, 0);
    out.extend_from_slice(&Key::of(record.start, record.id).to_bytes());
    for text in [record.namespace.as_str(), name] {
        out.extend_from_slice(&(text.len() as u16).to_le_bytes()); // names have at most 2 × 256 + 1 characters
        out.extend_from_slice(text.as_bytes());
    }
    let body = out.len();
    let written = body::encode(record, out).is_ok();
    let tail = out.len();
    if !logs.is_empty() {
        lines::encode(logs, out);
    }
    let (meta_len, body_len, logs_len) = (body - begin - HEADER, tail - body, out.len() - tail);
    if !written || body_len > MAX_PART || logs_len > MAX_PART {
        out.truncate(begin);
        return None;
    }
    let (head_sum, logs_sum) = (crc32fast::hash(&out[begin + HEADER..tail]), crc32fast::hash(&out[tail..]));
    let fields = [MAGIC, meta_len as u32, body_len as u32, logs_len as u32, head_sum, logs_sum];
    for (at, field) in fields.into_iter().enumerate() {
        out[begin + 4 * at..][..4].copy_from_slice(&field.to_le_bytes());
    }
    let sum = crc32fast::hash(&out[begin..begin + HEADER - 4]);
    out[begin + HEADER - 4..][..4].copy_from_slice(&sum.to_le_bytes());
    Some(Location { offset: begin as u64, head: (tail - begin) as u32, logs: logs_len as u32 })
}

/// A checked header.
struct Header {
    meta: usize,
    body: usize,
    logs: usize,
    head_sum: u32,
    logs_sum: u32,
}

impl Header {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER] = bytes.first_chunk()?;
        let field = |at: usize| {
            u32::from_le_bytes([bytes[4 * at], bytes[4 * at + 1], bytes[4 * at + 2], bytes[4 * at + 3]])
        };
        let header = Self {
            meta: field(1) as usize,
            body: field(2) as usize,
            logs: field(3) as usize,
            head_sum: field(4),
            logs_sum: field(5),
        };
        let whole = field(0) == MAGIC && field(6) == crc32fast::hash(&bytes[..HEADER - 4]);
        (whole && header.meta.max(header.body).max(header.logs) <= MAX_PART).then_some(header)
    }
}

fn parse_meta(bytes: &[u8]) -> Option<Meta<'_>> {
    fn text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let (text, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        *bytes = rest;
        str::from_utf8(text).ok()
    }
    let (key, mut rest) = bytes.split_first_chunk::<{ Key::BYTES }>()?;
    let (namespace, name) = (text(&mut rest)?, text(&mut rest)?);
    rest.is_empty().then_some(Meta { key: Key::from_bytes(key), namespace, name })
}

/// The record in the first part of a frame (header, meta and body), checked; `None` when it is damaged.
pub(crate) fn decode_head(bytes: &[u8], key: Key) -> Option<Activation> {
    let header = Header::parse(bytes)?;
    let head = bytes.get(HEADER..)?;
    let whole = head.len() == header.meta + header.body && crc32fast::hash(head) == header.head_sum;
    let (meta, body) = head.split_at_checked(header.meta)?;
    (whole && parse_meta(meta)?.key == key).then(|| serde_json::from_slice(body).ok())?
}

/// The log lines of the frame that begins with `head`, checked; `None` when they are damaged.
pub(crate) fn decode_logs(head: &[u8], logs: &[u8]) -> Option<Vec<LogLine>> {
    let header = Header::parse(head)?;
    let whole = logs.len() == header.logs && crc32fast::hash(logs) == header.logs_sum;
    match (whole, logs.is_empty()) {
        (false, _) => None,
        (true, true) => Some(Vec::new()),
        (true, false) => lines::decode(logs),
    }
}

/// Reads frames one after the other, until one has no whole header or is cut off. What is damaged behind its header is passed over.
pub(crate) struct Frames<R> {
    input: R,
    /// Where the next frame begins.
    at: u64,
    /// The end of the last whole one.
    offset: u64,
    /// Damaged ones before that, and since.
    damaged: u64,
    since: u64,
    buffer: Vec<u8>,
}

impl<R: Read> Frames<R> {
    /// `input` stands at `offset` of its segment.
    pub(crate) fn new(input: R, offset: u64) -> Self {
        Self { input, at: offset, offset, damaged: 0, since: 0, buffer: Vec::new() }
    }

    /// The end of the last whole frame.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// How many damaged frames stand between whole ones. The last one may only be torn.
    pub(crate) fn damaged(&self) -> u64 {
        self.damaged
    }

    /// The next whole frame.
    pub(crate) fn next(&mut self) -> io::Result<Option<(Meta<'_>, Location)>> {
        let (meta, location) = loop {
            self.buffer.clear();
            self.fill(HEADER)?;
            let Some(header) = Header::parse(&self.buffer) else { return Ok(None) };
            let (tail, length) =
                (HEADER + header.meta + header.body, header.meta + header.body + header.logs);
            self.fill(length)?;
            if self.buffer.len() < HEADER + length {
                return Ok(None);
            }
            let location = Location { offset: self.at, head: tail as u32, logs: header.logs as u32 };
            self.at += (HEADER + length) as u64;
            let whole = crc32fast::hash(&self.buffer[HEADER..tail]) == header.head_sum
                && crc32fast::hash(&self.buffer[tail..]) == header.logs_sum
                && parse_meta(&self.buffer[HEADER..][..header.meta]).is_some();
            if whole {
                break (HEADER..HEADER + header.meta, location);
            }
            self.since += 1;
        };
        self.damaged += std::mem::take(&mut self.since);
        self.offset = self.at;
        Ok(parse_meta(&self.buffer[meta]).map(|meta| (meta, location)))
    }

    /// Up to `count` bytes more; never reserves more than the input has.
    fn fill(&mut self, count: usize) -> io::Result<()> {
        self.input.by_ref().take(count as u64).read_to_end(&mut self.buffer).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use flint_model::{ActivationId, LogStream, Timestamp};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn record(start: u64, id: u128, package: bool, result: &str) -> Activation {
        let path = if package { "other/pack/work" } else { "guest/work" };
        serde_json::from_value(json!({
            "id": ActivationId::from_u128(id), "namespace": "guest", "name": "called", "path": path, "version": "0.0.1",
            "subject": "guest", "start": start, "end": start, "duration_us": 1, "wait_us": 2, "timeline": {},
            "response": {"status": "success", "result": {"text": result}}
        }))
        .unwrap()
    }

    fn encoded(records: &[(u64, u128, bool, String, Vec<String>)]) -> (Vec<u8>, Vec<Location>) {
        let mut bytes = Vec::new();
        let mut name = String::new();
        let locations = records
            .iter()
            .map(|(start, id, package, result, logs)| {
                let record = record(*start, *id, *package, result);
                let logs: Vec<_> = logs
                    .iter()
                    .map(|text| LogLine { time_us: *start, stream: LogStream::Stdout, text: text.clone() })
                    .collect();
                record.listed_name(&mut name);
                encode(&record, &name, &logs, &mut bytes).unwrap()
            })
            .collect();
        (bytes, locations)
    }

    fn scan(bytes: &[u8]) -> (Vec<(Key, String, Location)>, u64) {
        let mut frames = Frames::new(bytes, 0);
        let mut found = Vec::new();
        while let Some((meta, location)) = frames.next().unwrap() {
            assert_eq!(meta.namespace, "guest");
            found.push((meta.key, meta.name.to_owned(), location));
        }
        (found, frames.offset())
    }

    fn records() -> impl Strategy<Value = Vec<(u64, u128, bool, String, Vec<String>)>> {
        let record =
            (any::<u64>(), any::<u128>(), any::<bool>(), ".{0,40}", prop::collection::vec(".{0,40}", 0..3));
        prop::collection::vec(record, 0..6)
    }

    proptest! {
        #[test]
        fn frames_read_back_as_written(records in records()) {
            let (bytes, locations) = encoded(&records);
            let (found, end) = scan(&bytes);
            prop_assert_eq!(end, bytes.len() as u64);
            prop_assert_eq!(found.len(), records.len());
            for ((wrote, location), (key, name, at)) in records.iter().zip(&locations).zip(&found) {
                prop_assert_eq!(at, location);
                prop_assert_eq!(*key, Key::new(wrote.0, wrote.1));
                prop_assert_eq!(name.as_str(), if wrote.2 { "pack/called" } else { "called" });
                let offset = location.offset as usize;
                let (head, rest) = bytes[offset..].split_at(location.head as usize);
                let read = decode_head(head, *key).unwrap();
                prop_assert_eq!(read.start, Timestamp::from_millis(wrote.0));
                let result = read.response.result.map(|result| result.get().to_owned());
                prop_assert_eq!(result, Some(json!({"text": wrote.3}).to_string()));
                let logs = decode_logs(head, &rest[..location.logs as usize]).unwrap();
                prop_assert!(logs.iter().map(|line| &line.text).eq(&wrote.4));
            }
        }

        /// A crash cuts the file anywhere: what was whole before the cut is found, and nothing else.
        #[test]
        fn a_cut_loses_only_what_it_cuts(records in records(), cut in any::<prop::sample::Index>()) {
            let (bytes, locations) = encoded(&records);
            let cut = cut.index(bytes.len() + 1);
            let whole = locations.iter().take_while(|at| at.offset + u64::from(at.head + at.logs) <= cut as u64).count();
            let (found, end) = scan(&bytes[..cut]);
            prop_assert_eq!(found.len(), whole);
            prop_assert_eq!(end, locations[..whole].last().map_or(0, |at| at.offset + u64::from(at.head + at.logs)));
        }

        /// A flipped bit is never read as data.
        #[test]
        fn a_flipped_bit_is_found(records in records(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
            let (mut bytes, locations) = encoded(&records);
            prop_assume!(!bytes.is_empty());
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let before = locations.iter().take_while(|place| place.offset + u64::from(place.head + place.logs) <= at as u64).count();
            let found: Vec<_> = scan(&bytes).0.into_iter().map(|(_, _, at)| at).collect();
            // Behind the header only the record itself is lost.
            let rest = if (at as u64) < locations[before].offset + HEADER as u64 { &[] } else { &locations[before + 1..] };
            prop_assert_eq!(found, [&locations[..before], rest].concat());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = scan(&bytes);
            let _ = decode_head(&bytes, Key::MIN);
            let _ = decode_logs(&bytes, &bytes);
        }
    }
}
