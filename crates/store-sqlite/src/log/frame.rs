//! The encoding of one record in a segment.
//!
//! ```text
//! header  28 B   magic, three lengths, checksum of meta and body, checksum of logs, checksum of this header XOR the segment's salt
//!                (all u32, little-endian)
//! meta           start (8 B), id (16 B), namespace and name, each with its length (u16): all that the index needs
//! body           the record as JSON, without its logs
//! logs           see `lines`
//! ```
//! Logs have a checksum of their own, so that lists neither read nor skip over them.
//!
//! After a damaged header, readers search for the next one. A function may log bytes that look like a frame,
//! but it does not know the salt, so they cannot pass for a header.

use std::io::{self, Read};

use flint_model::{Activation, LogLine};

use super::{body, key::Key, lines};

const MAGIC: &[u8; 4] = b"FRec";
/// Bytes of a frame's header.
pub(crate) const HEADER: usize = 28;
/// Maximum length of a frame's part; a header with a longer one is invalid. `pending` admits no longer part.
pub(crate) const MAX_PART: usize = 64 << 20;
/// Bytes read at a time in a search for the next header.
const SEARCH: usize = 4 << 10;

/// A frame's location in its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// Offset of its first byte.
    pub(crate) offset: u64,
    /// Bytes of header, meta and body.
    pub(crate) head: u32,
    /// Bytes of logs.
    pub(crate) logs: u32,
}

/// What the index stores about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta<'a> {
    pub(crate) key: Key,
    pub(crate) namespace: &'a str,
    /// `name`, or `package/name`.
    pub(crate) name: &'a str,
}

/// Appends the frame of `record` (whose `logs` are empty) with `logs`, for a segment with this `salt`;
/// `None`, and nothing appended, if a part is too long.
pub(crate) fn encode(
    record: &Activation,
    name: &str,
    logs: &[LogLine],
    salt: u32,
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
    let fields =
        [u32::from_le_bytes(*MAGIC), meta_len as u32, body_len as u32, logs_len as u32, head_sum, logs_sum];
    for (at, field) in fields.into_iter().enumerate() {
        out[begin + 4 * at..][..4].copy_from_slice(&field.to_le_bytes());
    }
    let sum = crc32fast::hash(&out[begin..begin + HEADER - 4]) ^ salt;
    out[begin + HEADER - 4..][..4].copy_from_slice(&sum.to_le_bytes());
    Some(Location { offset: begin as u64, head: (tail - begin) as u32, logs: logs_len as u32 })
}

/// A parsed header.
struct Header {
    meta: usize,
    body: usize,
    logs: usize,
    head_sum: u32,
    logs_sum: u32,
}

impl Header {
    /// Parses the header of a frame at a known location, whose parts are verified by their own checksums.
    fn of_known(bytes: &[u8]) -> Option<Self> {
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
        (header.meta.max(header.body).max(header.logs) <= MAX_PART).then_some(header)
    }

    /// Parses bytes that may be a header, for a segment with this `salt`.
    fn parse(bytes: &[u8], salt: u32) -> Option<Self> {
        let (fields, sum) = bytes.get(..HEADER)?.split_last_chunk::<4>()?;
        let whole = fields.starts_with(MAGIC) && u32::from_le_bytes(*sum) == crc32fast::hash(fields) ^ salt;
        if whole { Self::of_known(bytes) } else { None }
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

/// The record in the first part of a frame (header, meta and body), verified; `None` if it is damaged.
pub(crate) fn decode_head(bytes: &[u8], key: Key) -> Option<Activation> {
    let header = Header::of_known(bytes)?;
    let head = bytes.get(HEADER..)?;
    let whole = head.len() == header.meta + header.body && crc32fast::hash(head) == header.head_sum;
    let (meta, body) = head.split_at_checked(header.meta)?;
    (whole && parse_meta(meta)?.key == key).then(|| serde_json::from_slice(body).ok())?
}

/// Whether `bytes`, which contain at least a header and a key, begin the frame of that record, damaged or
/// not, with parts of those lengths.
pub(crate) fn is_begun(bytes: &[u8], key: Key, at: Location) -> bool {
    let Some(header) = Header::of_known(bytes) else { return false };
    bytes.starts_with(MAGIC)
        && bytes[HEADER..].starts_with(&key.to_bytes())
        && HEADER + header.meta + header.body == at.head as usize
        && header.logs == at.logs as usize
}

/// The log lines of the frame that begins with `head`, verified; `None` if they are damaged.
pub(crate) fn decode_logs(head: &[u8], logs: &[u8]) -> Option<Vec<LogLine>> {
    let header = Header::of_known(head)?;
    let whole = logs.len() == header.logs && crc32fast::hash(logs) == header.logs_sum;
    match (whole, logs.is_empty()) {
        (false, _) => None,
        (true, true) => Some(Vec::new()),
        (true, false) => lines::decode(logs),
    }
}

/// Iterates over the intact frames of a segment, skipping damaged ones. Reads every byte once, and again
/// where a header may begin.
pub(crate) struct Frames<R> {
    input: R,
    salt: u32,
    /// The input that was read but not passed yet; it begins at `at`.
    buffer: Vec<u8>,
    at: u64,
    /// The length of the frame returned last.
    given: usize,
    /// The end of the last intact frame.
    offset: u64,
    /// Damaged places before `offset` and since, and the bytes of those before.
    damaged: u64,
    since: u64,
    lost: u64,
}

impl<R: Read> Frames<R> {
    /// `input` is at `offset` of a segment with this salt.
    pub(crate) fn new(input: R, offset: u64, salt: u32) -> Self {
        Self { input, salt, buffer: Vec::new(), at: offset, given: 0, offset, damaged: 0, since: 0, lost: 0 }
    }

    /// The end of the last intact frame.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The number of damaged places before that, and their bytes: a place is one frame, or several if headers
    /// are damaged. What follows [`Self::offset`] may merely be a torn end.
    pub(crate) fn damaged(&self) -> (u64, u64) {
        (self.damaged, self.lost)
    }

    /// The next intact frame.
    pub(crate) fn next(&mut self) -> io::Result<Option<(Meta<'_>, Location)>> {
        let given = std::mem::take(&mut self.given);
        self.pass(given);
        let (meta, location) = loop {
            let Some(header) = self.header()? else { return Ok(None) };
            let head = HEADER + header.meta + header.body;
            let length = head + header.logs;
            self.fill(length)?;
            if self.buffer.len() < length {
                // The header is intact and says where the frame ends: the input ends before that.
                return Ok(None);
            }
            let whole = crc32fast::hash(&self.buffer[HEADER..head]) == header.head_sum
                && crc32fast::hash(&self.buffer[head..length]) == header.logs_sum
                && parse_meta(&self.buffer[HEADER..][..header.meta]).is_some();
            if whole {
                self.given = length;
                let location = Location { offset: self.at, head: head as u32, logs: header.logs as u32 };
                break (HEADER..HEADER + header.meta, location);
            }
            self.since += 1;
            self.pass(length);
        };
        self.damaged += std::mem::take(&mut self.since);
        self.lost += location.offset - self.offset;
        self.offset = location.offset + self.given as u64;
        Ok(parse_meta(&self.buffer[meta]).map(|meta| (meta, location)))
    }

    /// The next header, skipping anything else.
    fn header(&mut self) -> io::Result<Option<Header>> {
        self.fill(HEADER)?;
        if let Some(header) = Header::parse(&self.buffer, self.salt) {
            return Ok(Some(header));
        }
        self.since += 1;
        // The offset in the buffer at which the next one may begin.
        let mut from = self.buffer.len().min(1);
        loop {
            match self.buffer[from..].windows(MAGIC.len()).position(|bytes| bytes == MAGIC) {
                Some(place) => {
                    from += place;
                    self.fill(from + HEADER)?;
                    if let Some(header) = Header::parse(&self.buffer[from..], self.salt) {
                        self.pass(from);
                        return Ok(Some(header));
                    }
                    from += 1;
                }
                None => {
                    // Keeps the last bytes, in which its magic may begin.
                    self.pass(from.max((self.buffer.len() + 1).saturating_sub(MAGIC.len())));
                    from = 0;
                    let before = self.buffer.len();
                    self.fill(before + SEARCH)?;
                    if self.buffer.len() == before {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Reads until the buffer has `count` bytes or the input ends; never reserves more than the input has.
    fn fill(&mut self, count: usize) -> io::Result<()> {
        let missing = count.saturating_sub(self.buffer.len());
        self.input.by_ref().take(missing as u64).read_to_end(&mut self.buffer).map(|_| ())
    }

    /// Drops the first `count` bytes of the buffer.
    fn pass(&mut self, count: usize) {
        self.buffer.drain(..count);
        self.at += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use flint_model::{ActivationId, LogStream, Timestamp};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const SALT: u32 = 0x1234_5678;

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
                encode(&record, &name, &logs, SALT, &mut bytes).unwrap()
            })
            .collect();
        (bytes, locations)
    }

    fn scan(bytes: &[u8]) -> (Vec<(Key, String, Location)>, u64) {
        let mut frames = Frames::new(bytes, 0, SALT);
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

        /// For a file cut anywhere by a crash: the frames before the cut are found, and nothing else.
        #[test]
        fn a_cut_loses_only_what_it_cuts(records in records(), cut in any::<prop::sample::Index>()) {
            let (bytes, locations) = encoded(&records);
            let cut = cut.index(bytes.len() + 1);
            let whole = locations.iter().take_while(|at| at.offset + u64::from(at.head + at.logs) <= cut as u64).count();
            let (found, end) = scan(&bytes[..cut]);
            prop_assert_eq!(found.len(), whole);
            prop_assert_eq!(end, locations[..whole].last().map_or(0, |at| at.offset + u64::from(at.head + at.logs)));
        }

        /// A flipped bit is never read as data, and loses only the record that contains it.
        #[test]
        fn a_flipped_bit_loses_one_record(records in records(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
            let (mut bytes, mut locations) = encoded(&records);
            prop_assume!(!bytes.is_empty());
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            locations.retain(|place| !range(place).contains(&at));
            prop_assert_eq!(found(&bytes), locations);
        }

        /// Nor does larger damage, wherever it begins and ends.
        #[test]
        fn damage_loses_only_what_it_touches(
            records in records(), at in any::<prop::sample::Index>(), damage in prop::collection::vec(any::<u8>(), 0..500),
        ) {
            let (mut bytes, mut locations) = encoded(&records);
            prop_assume!(!bytes.is_empty());
            let whole = bytes.clone();
            let at = at.index(bytes.len());
            bytes[at..].iter_mut().zip(&damage).for_each(|(byte, damage)| *byte = *damage);
            locations.retain(|place| bytes[range(place)] == whole[range(place)]);
            prop_assert_eq!(found(&bytes), locations);
        }

        /// The search finds the next frame wherever it is and whatever precedes it.
        #[test]
        fn what_is_between_frames_is_passed_over(
            records in records(), count in 0..3 * SEARCH, filling in prop::sample::select(vec![&b"FRec"[..], b"F", b"\0", b"FRecFR", b"FReFRec"]),
        ) {
            let (bytes, locations) = encoded(&records);
            let between: Vec<u8> = filling.iter().copied().cycle().take(count).collect();
            let twice = [&between[..], &bytes, &between, &bytes, &between].concat();
            let (first, second) = (count, 2 * count + bytes.len());
            let moved = |by: usize| locations.iter().map(move |at| Location { offset: at.offset + by as u64, ..*at });
            let mut frames = Frames::new(&twice[..], 0, SALT);
            let mut found = Vec::new();
            while let Some((_, location)) = frames.next().unwrap() {
                found.push(location);
            }
            prop_assert_eq!(found, moved(first).chain(moved(second)).collect::<Vec<_>>());
            let (places, lost) = frames.damaged();
            if !records.is_empty() {
                prop_assert_eq!(frames.offset() as usize, second + bytes.len());
                prop_assert_eq!((places, lost), if count == 0 { (0, 0) } else { (2, 2 * count as u64) });
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = scan(&bytes);
            let _ = decode_head(&bytes, Key::MIN);
            let _ = decode_logs(&bytes, &bytes);
        }
    }

    fn range(place: &Location) -> std::ops::Range<usize> {
        let begin = place.offset as usize;
        begin..begin + (place.head + place.logs) as usize
    }

    fn found(bytes: &[u8]) -> Vec<Location> {
        scan(bytes).0.into_iter().map(|(_, _, at)| at).collect()
    }

    /// A function logs the bytes of a frame, and the header of the record itself is damaged.
    #[test]
    fn a_printed_frame_is_none() {
        let mut printed = Vec::new();
        let forged = (0..1 << 20).find_map(|id| {
            printed.clear();
            let forged = record(0, id, false, "");
            encode(&forged, "work", &[], 0, &mut printed)?;
            String::from_utf8(printed.clone()).ok()
        });
        let forged = forged.unwrap();
        let logs = vec![forged.clone(), "and on".to_owned(), forged];
        let (mut bytes, locations) =
            encoded(&[(1, 1, false, "a".to_owned(), logs), (2, 2, false, "b".to_owned(), Vec::new())]);
        bytes[5] ^= 1;
        assert_eq!(found(&bytes), locations[1..]);
        // With the right salt it would be a frame.
        assert!(Frames::new(&bytes[..], 0, 0).next().unwrap().is_some());
    }
}
