//! A compact encoding of log lines: `count`, then for each line `time since the previous one, stream, length,
//! text`; numbers as LEB128.

use flint_model::{LogLine, LogStream};

/// Appends the encoding of `lines`.
pub(crate) fn encode(lines: &[LogLine], out: &mut Vec<u8>) {
    put_number(lines.len() as u64, out);
    let mut before = 0_u64;
    for line in lines {
        // Lines of two streams may be out of order: the difference is signed, zigzag-encoded.
        let step = line.time_us.wrapping_sub(before) as i64;
        put_number((step << 1 ^ step >> 63) as u64, out);
        before = line.time_us;
        out.push(match line.stream {
            LogStream::Stdout => 1,
            LogStream::Stderr => 2,
        });
        put_number(line.text.len() as u64, out);
        out.extend_from_slice(line.text.as_bytes());
    }
}

/// Decodes the output of [`encode`]; `None` for anything else.
pub(crate) fn decode(mut bytes: &[u8]) -> Option<Vec<LogLine>> {
    let count = take_number(&mut bytes)?;
    // A line takes at least three bytes, so a wrong count cannot reserve much memory.
    let mut lines = Vec::with_capacity(count.min(bytes.len() as u64 / 3) as usize);
    let mut before = 0_u64;
    for _ in 0..count {
        let step = take_number(&mut bytes)?;
        let time_us = before.wrapping_add((step >> 1) ^ (step & 1).wrapping_neg());
        before = time_us;
        let (stream, rest) = bytes.split_first()?;
        let stream = match stream {
            1 => LogStream::Stdout,
            2 => LogStream::Stderr,
            _ => return None,
        };
        bytes = rest;
        let length = usize::try_from(take_number(&mut bytes)?).ok()?;
        let (text, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        lines.push(LogLine { time_us, stream, text: str::from_utf8(text).ok()?.to_owned() });
    }
    bytes.is_empty().then_some(lines)
}

fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line() -> impl Strategy<Value = LogLine> {
        (any::<u64>(), any::<bool>(), ".*").prop_map(|(time_us, error, text)| {
            let stream = if error { LogStream::Stderr } else { LogStream::Stdout };
            LogLine { time_us, stream, text }
        })
    }

    proptest! {
        #[test]
        fn lines_read_back_as_written(lines in prop::collection::vec(line(), 0..20)) {
            let mut bytes = Vec::new();
            encode(&lines, &mut bytes);
            prop_assert_eq!(decode(&bytes), Some(lines));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
