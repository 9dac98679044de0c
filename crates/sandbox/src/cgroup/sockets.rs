//! How much the TCP and UDP sockets of one sandbox may hold, where there is a limit for that (v1).
//!
//! All sockets of a host share the kernel's mark `net.ipv4.tcp_mem`, beyond which it takes buffers from every
//! connection, those of the server too.

use std::fs;
use std::sync::OnceLock;

/// Sockets hold at most this part of the memory limit. The mark is a sixteenth of the host's memory unless the
/// operator has changed it, so sandboxes reach it only if their limits together exceed the host's memory.
const PART_OF_LIMIT: u64 = 16;

/// No sandbox holds more than this part of the mark, however large its limit is and low the mark.
const PART_OF_MARK: u64 = 16;

/// The limit for the sockets of a sandbox with this memory limit.
pub(super) fn limit(memory_bytes: u64) -> u64 {
    part(memory_bytes, mark())
}

fn part(memory_bytes: u64, mark: Option<u64>) -> u64 {
    let of_limit = memory_bytes / PART_OF_LIMIT;
    mark.map_or(of_limit, |mark| of_limit.min(mark / PART_OF_MARK))
}

/// The mark in bytes. In a network namespace other than the host's first, as in a container, it is not seen.
fn mark() -> Option<u64> {
    static MARK: OnceLock<Option<u64>> = OnceLock::new();
    *MARK.get_or_init(|| {
        let pages = fs::read_to_string("/proc/sys/net/ipv4/tcp_mem").ok()?;
        let pages: u64 = pages.split_whitespace().nth(1)?.parse().ok()?;
        Some(pages.saturating_mul(rustix::param::page_size() as u64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_the_hosts_memory_is_divided_into_stays_below_the_mark() {
        let (memory, mark) = (16u64 << 30, 1u64 << 30);
        for limit in [128u64 << 20, 512 << 20, 4 << 30] {
            assert!(part(limit, Some(mark)) * (memory / limit) <= mark, "{limit}");
        }
        assert_eq!(part(128 << 20, Some(mark)), 8 << 20);
        assert_eq!(part(16 << 30, Some(mark)), 64 << 20);
        assert_eq!(part(128 << 20, None), 8 << 20);
    }
}
